"""The store for several servers: two plain tables in a PostgreSQL database.

The address is libpq's own, `postgresql://user@host:port/database?sslmode=require`. Parameters of
Lochan's are taken out before libpq sees it: `schema` (default `lochan`), `pool` (connections at
most), `statement_timeout_ms` and `lock_timeout_ms`. Needs the extra `lochan[postgres]`.
"""

from __future__ import annotations

from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.postgres.address import read_address
from lochan.stores.postgres.store import PostgresStore


def open_store(url: StoreUrl) -> Store:
    """Connects, creates what is missing in the schema, and returns the store."""
    return PostgresStore(read_address(url))
