"""Reading across partitions: in the order of the key space, which is by their lengths first."""

from __future__ import annotations

from collections.abc import Callable

from lochan.base.keys import prefix_end
from lochan.base.limits.storage import PARTITION_BYTES_MAX, STORE_KEY_BYTES_MAX
from lochan.kv.store import Partition
from lochan.kv.walk import Located, WalkPage, check_walk, decode_cursor
from lochan.stores.rocksdb.rows import read_entry

ReadRange = Callable[[bytes, bytes, int], list[tuple[bytes, bytes]]]
"""Takes start, exclusive end and the most rows; returns physical keys and values."""

# Behind every row: longer than any.
_END = b"\xff" * (1 + PARTITION_BYTES_MAX + STORE_KEY_BYTES_MAX + 1)


def walk_ranges(read: ReadRange, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
    """Returns one page; a cursor is a physical key.

    The partitions of each length are a range. Lengths that no row has are jumped over.
    """
    check_walk(prefix, cursor, limit)
    partition, key = decode_cursor(prefix, cursor)
    length, start = len(partition), bytes((len(partition),)) + partition + key
    rows: list[Located] = []
    while True:
        until = prefix_end(bytes((length,)) + prefix) or _END
        for name, raw in read(start, until, limit + 1 - len(rows)):
            if len(rows) == limit:
                return WalkPage(rows, name)
            key = name[1 + length :]
            rows.append((Partition(name[1 : 1 + length]), read_entry(key, raw)))
        following = read(until, _END, 1)
        if not following:
            return WalkPage(rows, None)
        # The next row of all has this length at least; of the same length it is behind the prefix.
        length = max(following[0][0][0], length + 1)
        if length > PARTITION_BYTES_MAX:
            return WalkPage(rows, None)
        start = bytes((length,)) + prefix
