"""From an address to an open place for object data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lochan.assembly.plugins import load_plugin
from lochan.base.errors import InvalidUrl
from lochan.base.ports import Clock, Random
from lochan.base.secrets import Secret
from lochan.kv.url import StoreUrl, parse_store_url
from lochan.staging.block_store import BlockStore, PlaceOptions
from lochan.system import SystemClock, SystemRandom

BLOCKS_GROUP: Final = "lochan.blocks"

PlaceFactory = Callable[[StoreUrl, PlaceOptions], BlockStore]
"""What an entry point of the group names."""


def open_blocks(
    url_text: str | Path,
    *,
    imports: Sequence[str] = (),
    access_key: str = "",
    secret_key: Secret | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
) -> BlockStore:
    """Opens the place that an address names, a directory if it is a path; the caller closes it.

    `imports` are the URLs of prefixes, of the same kind of place, that may be imported from.
    """
    text = str(url_text)
    if isinstance(url_text, Path) or text.startswith(("/", "./", "../")):
        text = f"file:{text}"
    url = parse_store_url(text)
    options = PlaceOptions(
        clock=clock or SystemClock(),
        random=random or SystemRandom(),
        imports=tuple(imports),
        access_key=access_key,
        secret_key=secret_key,
    )
    factory: PlaceFactory = load_plugin(BLOCKS_GROUP, "kind of place", url.scheme, InvalidUrl)
    return factory(url, options)
