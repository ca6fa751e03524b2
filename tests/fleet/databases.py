"""Databases that tests may freeze, kill and start again, by the scheme of their stores.

Each one is a process of this test alone, except Cassandra, which starts too slowly for that.
A further store is one more function and one more line of DATABASES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, Protocol

import msgspec
import pytest

from lochan.testing import cassandra, dynamodb, mongodb, postgres

# Shorter than by default, so that a test of a frozen database ends sooner.
STATEMENT_MS: Final = 2_000

_numbers = count(1)


class Server(Protocol):
    """A database server; one that has no file can be frozen only."""

    port: int

    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def halt(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...
    def stop(self) -> None: ...


class Database(msgspec.Struct, frozen=True):
    """How a kind of database is started; `address` returns that of an empty store on a port.

    `stops` are the ways in which it may be stopped without losing what it has acknowledged itself.
    """

    start: Callable[[], Any]
    address: Callable[[Any, int], str]
    missing: str
    stops: tuple[str, ...] = ("freeze", "kill", "halt")
    shared: bool = False


def _postgres() -> postgres.PostgresServer | None:
    binaries = postgres.find_binaries()
    return None if binaries is None else postgres.PostgresServer(binaries)


def _postgres_address(server: postgres.PostgresServer, port: int) -> str:
    schema = f"fleet_{next(_numbers)}"
    return server.url(
        schema=schema,
        port=port,
        pool=8,
        connect_timeout=2,
        statement_timeout_ms=STATEMENT_MS,
    )


DATABASES: Final = {
    "cassandra": Database(
        cassandra.shared_server,
        lambda server, port: server.fresh_url(port),
        cassandra.MISSING,
        shared=True,
    ),
    "postgresql": Database(_postgres, _postgres_address, postgres.MISSING),
    "dynamodb": Database(
        lambda: dynamodb.start_server(in_memory=False),
        lambda server, port: server.url(f"fleet_{next(_numbers)}", port=port),
        dynamodb.MISSING,
        # A killed DynamoDB Local has lost transactions that it had acknowledged: of 2,250, seven.
        stops=("freeze", "halt"),
    ),
    "mongodb": Database(
        mongodb.start_server,
        lambda server, port: server.url(f"fleet_{next(_numbers)}", port=port),
        mongodb.MISSING,
        # The stand-in has its documents in memory.
        stops=("freeze",),
    ),
}

each_database = pytest.mark.parametrize(
    "scheme", [pytest.param(one, marks=pytest.mark.xdist_group(one)) for one in DATABASES]
)


@contextmanager
def started(scheme: str) -> Iterator[tuple[Database, Any]]:
    """Starts a database, or skips the test with the reason."""
    database = DATABASES[scheme]
    server = database.start()
    if server is None:
        pytest.skip(database.missing)
    try:
        yield database, server
    finally:
        if not database.shared:
            server.stop()


def stop(server: Server, how: str) -> None:
    """Stops a database.

    Frozen: connections stay open and nothing answers. Killed: as in a crash. Halted: politely.
    """
    getattr(server, how)()


def start_again(server: Server, how: str) -> None:
    """Starts what was stopped so."""
    if how == "freeze":
        server.thaw()
    else:
        server.restart()
