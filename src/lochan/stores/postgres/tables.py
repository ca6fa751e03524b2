"""Which table serves a partition, and how a row's name and stamp look in it.

Both tables have the same columns. `key` holds the first bytes of a key; of a longer one `rest`
holds the others and `digest` names the whole, because an index row of PostgreSQL ends at 2,704
bytes. The order of (key, rest) is the order of whole keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from hashlib import sha256
from typing import Final

from lochan.base.ids import INSTANCE_ID_BYTES
from lochan.kv.store import Expected, Kind, Partition, Stamp

# With a partition of 255 bytes and a digest of 32 it stays below PostgreSQL's 2,704.
KEY_HEAD_BYTES: Final = 2_000

STAMP_BYTES: Final = 8
STAMP_MAX: Final = 2**63 - 1

# The sequence starts at 1, so no row ever has it.
NO_STAMP: Final = 0


class Table(Enum):
    """Immutable objects, and everything that changes."""

    OBJECTS = "objects"
    ROWS = "rows"


def table_of(partition: Partition) -> Table:
    """Returns the table that serves a partition; what has no kind is among the rows."""
    if len(partition) > INSTANCE_ID_BYTES and partition[INSTANCE_ID_BYTES] == Kind.OBJECTS:
        return Table.OBJECTS
    return Table.ROWS


def row_name(partition: Partition, key: bytes) -> tuple[bytes, bytes, bytes]:
    """Returns partition, key and digest: the primary key of a row."""
    if len(key) <= KEY_HEAD_BYTES:
        return partition, key, b""
    return partition, key[:KEY_HEAD_BYTES], sha256(key).digest()


def key_rest(key: bytes) -> bytes:
    """Returns what of a key does not fit the index."""
    return key[KEY_HEAD_BYTES:]


def name_columns(names: Iterable[tuple[Partition, bytes]]) -> tuple[list[bytes], ...]:
    """Turns names into three arrays: partitions, keys, digests."""
    columns: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    for partition, key in names:
        for column, part in zip(columns, row_name(partition, key), strict=True):
            column.append(part)
    return columns


def stamp_from(number: int) -> Stamp:
    """Returns the stamp with that number."""
    return Stamp(number.to_bytes(STAMP_BYTES, "big"))


def stamp_number(expected: Expected) -> int:
    """Returns the number of a stamp, or one that no row has if it was never given out."""
    if not isinstance(expected, bytes) or len(expected) != STAMP_BYTES:
        return NO_STAMP
    number = int.from_bytes(expected, "big")
    return number if number <= STAMP_MAX else NO_STAMP
