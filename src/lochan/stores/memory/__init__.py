"""The store for tests, demonstrations and the simulator: rows in this process, gone with it."""

from __future__ import annotations

from lochan.base.errors import InvalidUrl
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.memory.store import MemoryStore


def open_store(url: StoreUrl) -> Store:
    """Opens a fresh, empty store; two opens never share rows."""
    if url.rest:
        raise InvalidUrl("the address of the memory store is memory: and nothing more")
    return MemoryStore()
