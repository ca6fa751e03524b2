"""An ability that a store may have beside the protocol: reading all rows of many partitions.

`scan` reads one partition. Objects are spread over 65,536 of them, so reading all objects of a
repository takes as many calls, most of which find nothing. A store that can read across
partitions has a method `walk`, which `find_walk` returns. The method keeps these rules:

1. It returns the rows of every partition whose name begins with the prefix, and no others.
2. The order is the store's own: two stores may return the same rows in different orders.
3. Pages that follow each other's `next_cursor` have no gap and no repeat: a row that was there all
   the time is returned exactly once. A page may be short, even empty, before the end.
4. A cursor is bytes that only the store reads; any process that opens the same database may use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.base.limits.storage import PARTITION_BYTES_MAX
from lochan.kv.store import Entry, Partition, Store

Located = tuple[Partition, Entry]
"""A row and the partition in which it is."""


class WalkPage(msgspec.Struct, frozen=True):
    """One page of a walk; `next_cursor` leads to the next page, None at the end."""

    rows: list[Located]
    next_cursor: bytes | None


WalkCall = Callable[[bytes, bytes, int], WalkPage]
"""Takes the prefix of partitions, the cursor (empty at first) and the most rows of the page."""

_SIZE_BYTES: Final = 1


def find_walk(store: Store) -> WalkCall | None:
    """Returns the ability of a store to read across partitions; None if it has none."""
    found: WalkCall | None = getattr(store, "walk", None)
    return found


def check_walk(prefix: bytes, cursor: bytes, limit: int) -> None:
    """Refuses prefixes and cursors that are not bytes, and limits that are not 1 to the maximum."""
    if type(prefix) is not bytes or not 0 < len(prefix) <= PARTITION_BYTES_MAX:
        raise Invalid(f"partitions are named by a prefix of 1 to {PARTITION_BYTES_MAX} bytes")
    if type(cursor) is not bytes:
        raise Invalid("a cursor is bytes")
    if type(limit) is not int or not 0 < limit <= SCAN_ENTRIES_MAX:
        raise Invalid(f"a page has 1 to {SCAN_ENTRIES_MAX} entries, not {limit}")


def encode_cursor(partition: Partition, key: bytes) -> bytes:
    """Returns a cursor that names a row, for stores whose order is that of names."""
    return bytes((len(partition),)) + partition + key


def decode_cursor(prefix: bytes, cursor: bytes) -> tuple[Partition, bytes]:
    """Returns partition and key of a cursor; those of the first row for the empty one."""
    if not cursor:
        return Partition(prefix), b""
    size = cursor[0]
    partition, key = cursor[_SIZE_BYTES : _SIZE_BYTES + size], cursor[_SIZE_BYTES + size :]
    if len(partition) != size or not partition.startswith(prefix):
        raise foreign_cursor()
    return Partition(partition), key


def foreign_cursor() -> Invalid:
    """Returns the error for a cursor that this walk has not returned."""
    return Invalid("the cursor is not one of this walk")
