"""One real server for each test process, and a fresh schema for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from lochan.assembly import open_store
from lochan.kv.store import Store
from lochan.testing.postgres import MISSING, PostgresServer, find_binaries, shared_server
from lochan.testing.tcp_faults import FaultyWire

Open = Callable[..., Store]


@pytest.fixture(scope="session")
def server() -> PostgresServer:
    if find_binaries() is None:
        pytest.skip(MISSING)
    server = shared_server()
    assert server is not None
    return server


@pytest.fixture
def schema(server: PostgresServer) -> str:
    return server.fresh_schema()


@pytest.fixture
def opened(server: PostgresServer, schema: str) -> Iterator[Open]:
    """Opens stores on the test's schema, with whatever parameters, and closes them."""
    stores: list[Store] = []

    def open_one(**parameters: object) -> Store:
        stores.append(open_store(server.url(schema=schema, **parameters)))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def database(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """A plain connection, for looking on and for getting in the way."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def wire(server: PostgresServer) -> Iterator[FaultyWire]:
    with FaultyWire(server.port) as wire:
        yield wire
