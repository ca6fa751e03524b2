"""An empty store of every kind that can be opened here; holds no test of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lochan.testing import cassandra, dynamodb, mongodb, postgres


def _postgres(_: Path) -> str | None:
    server = postgres.shared_server()
    return None if server is None else server.url(schema=server.fresh_schema(), pool=4)


def _cassandra(_: Path) -> str | None:
    server = cassandra.shared_server()
    return None if server is None else server.fresh_url()


def _dynamodb(_: Path) -> str | None:
    server = dynamodb.shared_server()
    return None if server is None else server.url(server.fresh_table())


def _mongodb(_: Path) -> str | None:
    server = mongodb.shared_server()
    return None if server is None else server.url(server.fresh_database())


# By scheme: the address of a fresh store, or None if its database is missing.
URLS: dict[str, Callable[[Path], str | None]] = {
    "cassandra": _cassandra,
    "dynamodb": _dynamodb,
    "memory": lambda _: "memory:",
    "mongodb": _mongodb,
    "postgresql": _postgres,
    "rocksdb": lambda folder: f"rocksdb:{folder / 'rocksdb'}",
    "sqlite": lambda folder: f"sqlite:{folder / 'store.db'}",
}


def fresh_urls(folder: Path) -> dict[str, str]:
    """Returns an address for each store that can be opened here."""
    found = {scheme: make(folder) for scheme, make in URLS.items()}
    return {scheme: url for scheme, url in found.items() if url}
