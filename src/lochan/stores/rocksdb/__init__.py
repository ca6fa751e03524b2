"""The embedded store: RocksDB in a directory that belongs to one process.

The address is `rocksdb:PATH`, with optional parameters: `cache_mb` bounds the block cache,
`recovery=point-in-time` is the operator's decision to drop what follows a damaged log record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lochan.base.errors import InvalidUrl
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.rocksdb.options import CACHE_MB_DEFAULT, CACHE_MB_MAX, Parameters
from lochan.stores.rocksdb.store import RocksStore

_RECOVERIES: Final = {"strict": False, "point-in-time": True}


def open_store(url: StoreUrl) -> Store:
    """Opens the directory, creating it if its parent exists, and owns it until `close`."""
    text, question, query = url.rest.partition("?")
    if not text:
        raise InvalidUrl("the address of a RocksDB store has no path: write rocksdb:PATH")
    if text.startswith("//") and not text.startswith("///"):
        raise InvalidUrl("a RocksDB store has no host: write rocksdb:PATH or rocksdb:///PATH")
    given = _split_query(query) if question else {}
    parameters = Parameters(
        cache_mb=_cache_mb(given.pop("cache_mb", None)),
        drop_after_damage=_recovery(given.pop("recovery", "strict")),
    )
    if given:
        unknown = ", ".join(sorted(given))
        raise InvalidUrl(
            f"the parameters of a RocksDB store are cache_mb and recovery, not {unknown[:80]!r}"
        )
    return RocksStore(Path(text), parameters)


def _split_query(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if not equals or not name or name in found:
            raise InvalidUrl("parameters are written name=value, each once, joined by &")
        found[name] = value
    return found


def _cache_mb(text: str | None) -> int:
    if text is None:
        return CACHE_MB_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidUrl("cache_mb is a whole number")
    if not 1 <= int(text) <= CACHE_MB_MAX:
        raise InvalidUrl(f"cache_mb is 1 to {CACHE_MB_MAX}")
    return int(text)


def _recovery(text: str) -> bool:
    if text not in _RECOVERIES:
        raise InvalidUrl(f"recovery is one of {', '.join(_RECOVERIES)}")
    return _RECOVERIES[text]
