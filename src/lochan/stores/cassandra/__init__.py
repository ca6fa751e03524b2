"""The store for several servers on Cassandra or ScyllaDB: one table, written by Paxos only.

The address is `cassandra://user:password@host:port,host/keyspace?datacenter=NAME`. Needs the extra
`lochan[cassandra]` or `lochan[scylla]`: two drivers with one interface, of which one is installed.
"""

from __future__ import annotations

from importlib.util import find_spec

from lochan.base.errors import InvalidUrl
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.cassandra.address import read_address


def open_store(url: StoreUrl) -> Store:
    """Creates keyspace and table if they are missing, and returns the store."""
    address = read_address(url)
    if find_spec("cassandra") is None:
        raise InvalidUrl(
            "stores in Cassandra and ScyllaDB need a driver, which is not installed: install "
            "lochan[cassandra], or lochan[scylla] for ScyllaDB"
        )
    from lochan.stores.cassandra.store import CassandraStore

    return CassandraStore(address)
