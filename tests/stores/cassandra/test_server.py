"""The Cassandra of the tests: others rely on what it keeps when it is killed."""

from __future__ import annotations

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from lochan.testing.cassandra import (
    GROUP,
    MISSING,
    PASSWORD,
    USER,
    CassandraServer,
    shared_server,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.fixture
def server() -> CassandraServer:
    return shared_server() or pytest.skip(MISSING)


def run(server: CassandraServer, *statements: str) -> list[tuple]:
    cluster = Cluster(
        ["127.0.0.1"], port=server.port, auth_provider=PlainTextAuthProvider(USER, PASSWORD)
    )
    try:
        session = cluster.connect()
        return [tuple(row) for statement in statements for row in session.execute(statement)]
    finally:
        cluster.shutdown()


def test_it_keeps_what_it_acknowledged_when_it_is_killed(server: CassandraServer) -> None:
    keyspace = server.fresh_table()
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    table = f"{keyspace}.t"
    run(
        server,
        f"CREATE KEYSPACE {keyspace} WITH replication = {replication}",
        f"CREATE TABLE {table} (k int PRIMARY KEY, v int)",
        *(f"INSERT INTO {table} (k, v) VALUES ({k}, {k}) IF NOT EXISTS" for k in range(20)),
    )
    server.kill()
    server.restart()
    assert len(run(server, f"SELECT k, v FROM {table}")) == 20
