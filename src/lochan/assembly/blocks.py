"""From an address to an open place for object data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

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
    return _load_factory(url)(url, options)


def block_schemes() -> list[str]:
    """Returns the schemes that installed packages serve."""
    return sorted({point.name for point in entry_points(group=BLOCKS_GROUP)})


def _load_factory(url: StoreUrl) -> PlaceFactory:
    scheme = url.scheme
    points = {each.value: each for each in entry_points(group=BLOCKS_GROUP) if each.name == scheme}
    if not points:
        known = ", ".join(block_schemes())
        raise InvalidUrl(f"no installed place for object data serves {scheme!r}; known are {known}")
    if len(points) > 1:
        rivals = " and ".join(sorted(points))
        raise InvalidUrl(f"more than one installed place serves {scheme!r}: {rivals}")
    (point,) = points.values()
    try:
        factory: PlaceFactory = point.load()
    except ImportError as error:
        raise InvalidUrl(
            f"places of the kind {scheme!r} need a package that is not installed: {error}"
        ) from error
    return factory
