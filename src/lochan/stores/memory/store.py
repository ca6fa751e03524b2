"""Rows in dictionaries, one per partition, with sorted keys.

Keeps every promise of `kv.Store` except durability: `flush` has nothing to do and
`durable_on_return` is False. Every call holds one lock from its first read to its last write, so
each call is atomic.

A forked process is refused: it would write into a copy of the rows that no other process sees.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from threading import Lock
from typing import Final

from lochan.base.errors import StoreClosed, StoreForked
from lochan.kv.arguments import (
    check_adds,
    check_apply,
    check_epoch,
    check_expected,
    check_items,
    check_name,
    check_names,
    check_partition,
    check_range,
)
from lochan.kv.defaults import NO_OBJECTS, PlainHold, apply_in_turn, is_as_expected
from lochan.kv.store import (
    ABSENT,
    Adds,
    Capabilities,
    Entry,
    Expected,
    Hold,
    Item,
    Lost,
    Name,
    Outcome,
    Page,
    Partition,
    SetIf,
    Stamp,
    Won,
)
from lochan.kv.walk import Located, WalkPage, check_walk, decode_cursor, encode_cursor
from lochan.process import FORK_ADVICE, after_fork

# The same bounds as the embedded store, so that what passes its tests here passes there too.
CAPABILITIES: Final = Capabilities(
    value_bytes_max=4 * 1_024 * 1_024,
    read_items_max=10_000,
    batch_items_max=10_000,
    batch_bytes_max=32 * 1_024 * 1_024,
    apply_items_max=10_000,
    apply_bytes_max=32 * 1_024 * 1_024,
    atomic_apply=True,
    inline=True,
    durable_on_return=False,
    row_locks=False,
)


_FORKED: Final = (
    "a memory store belongs to the process that opened it, and this one was forked from it: no "
    f"other process would see what this one writes; {FORK_ADVICE}"
)


class _Table:
    """One partition: rows by key, and the keys in order."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, Entry] = {}
        self.keys: list[bytes] = []

    def put(self, entry: Entry) -> None:
        key = entry.key
        if key not in self.rows:
            if not self.keys or key > self.keys[-1]:
                self.keys.append(key)
            else:
                insort(self.keys, key)
        self.rows[key] = entry

    def remove(self, key: bytes) -> None:
        if self.rows.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class MemoryStore:
    """A Store whose rows exist as long as the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: dict[Partition, _Table] = {}
        self._writes = 0
        self._closed = False
        self._inherited = False
        after_fork(self, MemoryStore._forked)

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return CAPABILITIES

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        check_name(partition, key)
        with self._lock:
            self._check_open()
            return self._find(partition, key)

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names, all of one moment."""
        check_names(names, CAPABILITIES)
        with self._lock:
            self._check_open()
            return [self._find(partition, key) for partition, key in names]

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        check_adds(adds, CAPABILITIES)
        with self._lock:
            self._check_open()
            self._add(adds)

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items, each with a new stamp."""
        check_items(items, CAPABILITIES)
        with self._lock:
            self._check_open()
            for partition, key, value in items:
                self._put(partition, Entry(key, value, self._new_stamp()))

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        check_name(partition, key)
        with self._lock:
            self._check_open()
            self._remove(partition, key)

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        check_name(partition, key)
        check_expected(expected, deleting=True)
        with self._lock:
            self._check_open()
            current = self._find(partition, key)
            if current is None or not is_as_expected(expected, current.stamp):
                return Lost(current or ABSENT)
            self._remove(partition, key)
            return Won(current.stamp)

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end) as it is at this moment."""
        check_range(partition, start, end, limit)
        with self._lock:
            self._check_open()
            table = self._tables.get(partition)
            if table is None:
                return Page([], None)
            first = bisect_left(table.keys, start)
            last = len(table.keys) if end is None else bisect_left(table.keys, end)
            chosen = table.keys[first : min(last, first + limit)]
            more = first + limit < last
            next_start = table.keys[first + limit] if more else None
            return Page([table.rows[key] for key in chosen], next_start)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of many partitions, ordered by partition and key."""
        check_walk(prefix, cursor, limit)
        first, start = decode_cursor(prefix, cursor)
        with self._lock:
            self._check_open()
            names = [each for each in self._tables if each.startswith(prefix) and each >= first]
            rows: list[Located] = []
            for name in sorted(names):
                table = self._tables[name]
                at = bisect_left(table.keys, start) if name == first else 0
                for key in table.keys[at : at + limit + 1 - len(rows)]:
                    if len(rows) == limit:
                        return WalkPage(rows, encode_cursor(name, key))
                    rows.append((name, table.rows[key]))
            return WalkPage(rows, None)

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and sets one row if it is as expected; else writes nothing."""
        check_apply(adds, condition, CAPABILITIES)
        with self._lock:
            self._check_open()
            outcome = self._set_if(condition)
            if isinstance(outcome, Won):
                self._add(adds)
            return outcome

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies changes one after the other; each takes microseconds."""
        return apply_in_turn(self, changes)

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row without a lock: no other process can write it."""
        return PlainHold(self, self.get(partition, key))

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition."""
        check_partition(partition)
        with self._lock:
            self._check_open()
            if self._tables.pop(partition, None) is not None:
                self._writes += 1

    def epoch(self) -> int:
        """Returns the number of the last write."""
        with self._lock:
            self._check_open()
            return self._writes

    def flush(self, epoch: int) -> None:
        """Returns at once: the store does not promise durability."""
        with self._lock:
            self._check_open()
            check_epoch(epoch, self._writes)

    def close(self) -> None:
        """Drops all rows; every later call raises StoreClosed."""
        with self._lock:
            self._closed = True
            self._tables.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreForked(_FORKED) if self._inherited else StoreClosed("the store was closed")

    def _forked(self) -> None:
        """Refuses every call in a child; a thread of the parent may have the old lock."""
        self._lock = Lock()
        self._inherited = not self._closed
        self._closed = True

    def _find(self, partition: Partition, key: bytes) -> Entry | None:
        table = self._tables.get(partition)
        return None if table is None else table.rows.get(key)

    def _new_stamp(self) -> Stamp:
        self._writes += 1
        return Stamp(self._writes.to_bytes(8, "big"))

    def _put(self, partition: Partition, entry: Entry) -> None:
        table = self._tables.get(partition)
        if table is None:
            table = self._tables[partition] = _Table()
        table.put(entry)

    def _remove(self, partition: Partition, key: bytes) -> None:
        table = self._tables.get(partition)
        if table is None:
            return
        table.remove(key)
        self._writes += 1
        if not table.rows:
            del self._tables[partition]

    def _add(self, adds: Adds) -> None:
        for partition, key, value in adds.items:
            current = self._find(partition, key)
            if current is None:
                self._put(partition, Entry(key, value, self._new_stamp(), adds.half_day))
            elif current.half_day < adds.half_day:
                renewed = Entry(key, current.value, self._new_stamp(), adds.half_day)
                self._put(partition, renewed)

    def _set_if(self, condition: SetIf) -> Outcome:
        current = self._find(condition.partition, condition.key)
        if not is_as_expected(condition.expected, None if current is None else current.stamp):
            return Lost(current or ABSENT)
        stamp = self._new_stamp()
        self._put(condition.partition, Entry(condition.key, condition.value, stamp))
        return Won(stamp)
