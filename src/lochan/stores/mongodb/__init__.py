"""The store for several servers on MongoDB: one collection of a replica set.

The address is `mongodb://user:password@host:port,host:port/database`. Parameters of ours:
`collection` and `connections` (requests at a time). Needs the extra `lochan[mongodb]`.
"""

from __future__ import annotations

from importlib.util import find_spec

from lochan.base.errors import InvalidUrl
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.mongodb.address import read_address


def open_store(url: StoreUrl) -> Store:
    """Creates the collection if it is missing, and returns the store."""
    address = read_address(url)
    if find_spec("pymongo") is None:
        raise InvalidUrl(
            "stores in MongoDB need pymongo, which is not installed: install lochan[mongodb]"
        )
    from lochan.stores.mongodb.store import MongoStore

    return MongoStore(address)
