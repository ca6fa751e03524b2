"""Reading across partitions: a scan of the whole table that keeps what belongs to the prefix.

Cassandra returns partitions in the order of their hashes, so a walk costs what the table costs,
whatever the prefix is. It reads at a quorum: what was acknowledged is found. A cursor is the name
of the last row that was read, after a byte.
"""

from __future__ import annotations

from typing import Final

from lochan.base.limits.storage import PARTITION_BYTES_MAX
from lochan.kv.store import Partition
from lochan.kv.walk import Located, WalkPage, check_walk, encode_cursor, foreign_cursor
from lochan.stores.cassandra.client import CassandraClient, Row
from lochan.stores.cassandra.rows import read_entry
from lochan.stores.cassandra.statements import TableStatement

# Rows of one statement: some tens of megabytes if all are of the largest size.
WALK_ROWS: Final = 200


def walk_table(client: CassandraClient, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
    """Returns one page; it may be empty, because the table has other rows too."""
    check_walk(prefix, cursor, limit)
    size = min(limit, WALK_ROWS)
    rows = _first(client, size) if not cursor else _behind(client, *_read(cursor), size)
    found: list[Located] = [
        (Partition(row["p"]), read_entry(row)) for row in rows if row["p"].startswith(prefix)
    ]
    if len(rows) < size:
        return WalkPage(found, None)
    last = rows[-1]
    return WalkPage(found, encode_cursor(Partition(last["p"]), last["k"]))


def _first(client: CassandraClient, size: int) -> list[Row]:
    return client.read(TableStatement.WALK_FIRST, size)


def _behind(client: CassandraClient, partition: bytes, key: bytes, size: int) -> list[Row]:
    """Returns the next rows: those behind it in its partition, then those of later partitions."""
    rows = client.read(TableStatement.WALK_REST, partition, key, size)
    if len(rows) < size:
        rows += client.read(TableStatement.WALK, partition, size - len(rows))
    return rows


def _read(cursor: bytes) -> tuple[bytes, bytes]:
    size = cursor[0]
    partition, key = cursor[1 : 1 + size], cursor[1 + size :]
    if not 0 < len(partition) == size <= PARTITION_BYTES_MAX or not key:
        raise foreign_cursor()
    return partition, key
