"""From an address to an open store whose format is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lochan.assembly.plugins import load_plugin
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
    factory: StoreFactory = load_plugin(STORE_GROUP, "store", url.scheme, InvalidUrl)
    store = factory(url)
    try:
        if not any_format:
            check_format(store)
    except BaseException:
        store.close()
        raise
    return store
