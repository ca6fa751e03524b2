"""The store in one file: SQLite, which several processes of one machine may open.

The address is `sqlite:FILE`, with one optional parameter: `busy_timeout_ms` bounds how long a call
waits for another process that writes. It needs no package beside Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lochan.base.errors import InvalidUrl
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.sqlite.store import SqliteStore

# A writer has the file for some milliseconds, a full batch on a slow disk for a second or two.
BUSY_TIMEOUT_MS_DEFAULT: Final = 5_000
BUSY_TIMEOUT_MS_MAX: Final = 600_000


def open_store(url: StoreUrl) -> Store:
    """Opens the file, creating it if its directory exists."""
    text, question, query = url.rest.partition("?")
    if not text:
        raise InvalidUrl("the address of an SQLite store has no path: write sqlite:FILE")
    if text.startswith("//") and not text.startswith("///"):
        raise InvalidUrl("an SQLite store has no host: write sqlite:FILE or sqlite:///FILE")
    if text.startswith(":"):
        raise InvalidUrl("an SQLite store is a file; a store in memory is memory:")
    return SqliteStore(Path(text), _busy_timeout_ms(query) if question else BUSY_TIMEOUT_MS_DEFAULT)


def _busy_timeout_ms(query: str) -> int:
    name, _, text = query.partition("=")
    if name != "busy_timeout_ms":
        raise InvalidUrl(
            f"the only parameter of an SQLite store is busy_timeout_ms, not {name[:80]!r}"
        )
    digits = text.isascii() and text.isdigit() and len(text) <= 9
    if not digits or not 1 <= int(text) <= BUSY_TIMEOUT_MS_MAX:
        raise InvalidUrl(f"busy_timeout_ms is a whole number from 1 to {BUSY_TIMEOUT_MS_MAX}")
    return int(text)
