"""From an address to an open store whose format is known."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

from lochan.base.errors import InvalidUrl
from lochan.kv.format import check_format
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl, parse_store_url

STORE_GROUP: Final = "lochan.stores"

StoreFactory = Callable[[StoreUrl], Store]
"""What an entry point of the group names."""


def open_store(url_text: str, *, any_format: bool = False) -> Store:
    """Opens the store that an address names; the caller closes it.

    With `any_format` it is neither marked nor refused: for a check, which writes nothing.
    """
    url = parse_store_url(url_text)
    store: Store = _load_factory(url)(url)
    try:
        if not any_format:
            check_format(store)
    except BaseException:
        store.close()
        raise
    return store


def store_schemes() -> list[str]:
    """Returns the schemes that installed packages serve."""
    return sorted({point.name for point in entry_points(group=STORE_GROUP)})


def _load_factory(url: StoreUrl) -> StoreFactory:
    scheme = url.scheme
    # A package that is installed twice declares the same entry point twice.
    points = {each.value: each for each in entry_points(group=STORE_GROUP) if each.name == scheme}
    if not points:
        known = ", ".join(store_schemes())
        raise InvalidUrl(f"no installed store serves {scheme!r}; known are {known}")
    if len(points) > 1:
        rivals = " and ".join(sorted(points))
        raise InvalidUrl(f"more than one installed store serves {scheme!r}: {rivals}")
    (point,) = points.values()
    try:
        factory: StoreFactory = point.load()
    except ImportError as error:
        raise InvalidUrl(
            f"the store {scheme!r} needs a package that is not installed: {error}"
        ) from error
    return factory
