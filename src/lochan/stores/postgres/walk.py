"""Reading across partitions: one table after the other, each in the order of its index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from psycopg.types.numeric import Int8

from lochan.base.ids import INSTANCE_ID_BYTES
from lochan.base.keys import prefix_end
from lochan.base.limits.storage import PARTITION_BYTES_MAX
from lochan.kv.store import Entry, Partition
from lochan.kv.walk import Located, WalkPage, check_walk, decode_cursor, encode_cursor
from lochan.stores.postgres import statements
from lochan.stores.postgres.session import Row
from lochan.stores.postgres.tables import KEY_HEAD_BYTES, Table, key_rest, stamp_from, table_of

_ORDER = (Table.ROWS, Table.OBJECTS)


def walk_tables(
    read: Callable[[bytes, Sequence[object]], list[Row]],
    schema: str,
    prefix: bytes,
    cursor: bytes,
    limit: int,
) -> WalkPage:
    """Returns one page; a cursor begins with the number of its table.

    A prefix that names a kind needs one table only.
    """
    check_walk(prefix, cursor, limit)
    tables = _ORDER if len(prefix) <= INSTANCE_ID_BYTES else (table_of(Partition(prefix)),)
    at = cursor[0] % len(tables) if cursor else 0
    partition, key = decode_cursor(prefix, cursor[1:])
    # No partition is longer than this end.
    end = prefix_end(prefix) or prefix + b"\xff" * PARTITION_BYTES_MAX
    arguments = [partition, key[:KEY_HEAD_BYTES], key_rest(key), end, Int8(limit + 1)]
    found: list[Located] = []
    for row in read(statements.walk(schema, tables[at]), arguments):
        name, head, rest, stamp, half_day, value = cast(
            "tuple[bytes, bytes, bytes, int, int, bytes]", row
        )
        found.append((Partition(name), Entry(head + rest, value, stamp_from(stamp), half_day)))
    if len(found) > limit:
        following, entry = found.pop()
        return WalkPage(found, bytes((at,)) + encode_cursor(following, entry.key))
    is_last = at + 1 == len(tables)
    return WalkPage(found, None if is_last else bytes((at + 1,)))
