"""Databases of the tests on which both servers can be measured, besides PostgreSQL.

Cassandra is a real one of one node; DynamoDB Local is the vendor's emulator and mongo-java-server a
stand-in for MongoDB, both in memory, so that their rates are ceilings of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from benchmarks.http_load.processes import Missing
from lochan.kv.url import parse_store_url
from lochan.testing import cassandra, dynamodb, mongodb

_TYPE: Final = "-Dnessie.version.store.type"


class Places(NamedTuple):
    """Where a new store is: the address of ours, or the options of the peer."""

    ours: Callable[[], str]
    theirs: Callable[[], list[str]]


def open_database(kind: str) -> Places:
    """Starts a database if it does not run yet."""
    return {"cassandra": _cassandra, "dynamodb": _dynamodb, "mongodb": _mongodb}[kind]()


def _cassandra() -> Places:
    server = cassandra.shared_server()
    if server is None:
        raise Missing(cassandra.MISSING)

    def theirs() -> list[str]:
        # Nessie does not create its keyspace.
        from lochan.stores.cassandra.address import read_address
        from lochan.stores.cassandra.client import CassandraClient

        keyspace = f"nessie_{server.fresh_table()}"
        client = CassandraClient(read_address(parse_store_url(server.url())))
        copies = f"{{'class': 'NetworkTopologyStrategy', '{cassandra.DATACENTER}': 1}}"
        client.define(f"CREATE KEYSPACE {keyspace} WITH replication = {copies}")
        client.close()
        given = {
            "contact-points": f"127.0.0.1:{server.port}",
            "local-datacenter": cassandra.DATACENTER,
            "keyspace": keyspace,
            "auth.username": cassandra.USER,
            "auth.password": cassandra.PASSWORD,
        }
        options = [f"-Dquarkus.cassandra.{name}={value}" for name, value in given.items()]
        return [f"{_TYPE}=CASSANDRA", *options]

    return Places(server.fresh_url, theirs)


def _dynamodb() -> Places:
    server = dynamodb.shared_server()
    if server is None:
        raise Missing(dynamodb.MISSING)
    source = "-Dquarkus.dynamodb"
    static = f"{source}.aws.credentials.static-provider"

    def theirs() -> list[str]:
        return [
            f"{_TYPE}=DYNAMODB",
            f"-Dnessie.version.store.persist.dynamodb.table-prefix={server.fresh_table()}",
            f"{source}.endpoint-override=http://127.0.0.1:{server.port}",
            f"{source}.aws.region=eu-west-1",
            f"{source}.aws.credentials.type=STATIC",
            f"{static}.access-key-id=nessie",
            f"{static}.secret-access-key=unused",
        ]

    return Places(lambda: server.url(server.fresh_table(), connections=24), theirs)


def _mongodb() -> Places:
    server = mongodb.shared_server()
    if server is None:
        raise Missing(mongodb.MISSING)

    def theirs() -> list[str]:
        return [
            f"{_TYPE}=MONGODB2",
            f"-Dquarkus.mongodb.database={server.fresh_database()}",
            f"-Dquarkus.mongodb.connection-string=mongodb://127.0.0.1:{server.port}",
        ]

    return Places(lambda: server.url(server.fresh_database(), connections=24), theirs)
