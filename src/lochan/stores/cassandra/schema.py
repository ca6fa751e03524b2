"""Keyspace and table of the store; the first process that opens it creates them.

1. look at the table; 2. if it is missing, create the keyspace if that is missing too, and the
table; 3. look at its version, which is in the comment of the table, so that no table is without
one; 4. wait until the table can be read: a node lists a table before it knows it. A crash leaves a
keyspace without a table, and the next open continues there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from lochan.base.errors import Corrupt, InvalidUrl, NewerFormat, Unavailable
from lochan.stores.cassandra.client import CassandraClient
from lochan.stores.cassandra.statements import TableStatement

SCHEMA_VERSION: Final = 1

# A quorum of three survives the loss of one.
REPLICATION_DEFAULT: Final = 3

# Ten seconds, as long as the driver waits until all nodes have one schema.
_LOOKS_MAX: Final = 100
_LOOK_EVERY_S: Final = 0.1

_COMMENT: Final = re.compile(r"Lochan store, version ([0-9]{1,9})\Z")
_TABLE: Final = "SELECT comment FROM system_schema.tables WHERE keyspace_name = %s"
_TABLE_NAME: Final = " AND table_name = %s"
_KEYSPACE: Final = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s"


def prepare(client: CassandraClient, sleep: Callable[[float], None] = time.sleep) -> None:
    """Creates what is missing; refuses tables of other programs and newer ones."""
    address = client.address
    found = _comment(client)
    if found is None:
        if not client.define(_KEYSPACE, address.keyspace):
            client.define(_new_keyspace(client))
        client.define(
            f'CREATE TABLE IF NOT EXISTS "{address.keyspace}"."{address.table}" '
            "(p blob, k blob, v blob, s blob, h bigint, PRIMARY KEY (p, k)) "
            f"WITH comment = 'Lochan store, version {SCHEMA_VERSION}'"
        )
        found = _comment(client)
    if found is None:
        raise Unavailable(f"the table {address.table} does not appear; try again")
    version = _COMMENT.match(found)
    if version is None:
        raise InvalidUrl(f"the table {address.table} is of another program; name a new one")
    if int(version[1]) > SCHEMA_VERSION:
        raise NewerFormat(
            f"the table {address.table} has version {version[1]}, and this Lochan knows "
            f"{SCHEMA_VERSION}: upgrade Lochan"
        )
    _wait_for_table(client, sleep)


def _wait_for_table(client: CassandraClient, sleep: Callable[[float], None]) -> None:
    for look in range(_LOOKS_MAX):
        try:
            client.read(TableStatement.WALK_FIRST, 1)
        except (Corrupt, Unavailable):
            if look == _LOOKS_MAX - 1:
                raise
            sleep(_LOOK_EVERY_S)
        else:
            return


def _comment(client: CassandraClient) -> str | None:
    address = client.address
    rows = client.define(_TABLE + _TABLE_NAME, address.keyspace, address.table)
    return str(rows[0]["comment"]) if rows else None


def _new_keyspace(client: CassandraClient) -> str:
    address = client.address
    nodes = client.nodes()
    datacenter = address.datacenter
    if datacenter is None:
        if len(nodes) != 1:
            raise InvalidUrl(
                f"the cluster has {len(nodes)} datacenters: add ?datacenter=NAME to the address, "
                f"or create the keyspace {address.keyspace}"
            )
        (datacenter,) = nodes
    if datacenter not in nodes:
        raise InvalidUrl(
            f"the cluster has no datacenter {datacenter}; it has {', '.join(sorted(nodes))}"
        )
    copies = address.replication or min(nodes[datacenter], REPLICATION_DEFAULT)
    return (
        f'CREATE KEYSPACE IF NOT EXISTS "{address.keyspace}" WITH replication = '
        f"{{'class': 'NetworkTopologyStrategy', '{datacenter}': {copies}}}"
    )
