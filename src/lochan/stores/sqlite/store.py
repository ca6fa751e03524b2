"""The SQLite store: each write is one transaction with the lock of writers, from its first read on.

Rules of this module:

1. A write begins with BEGIN IMMEDIATE. Between it and COMMIT no other process writes, so conditions
   are compared with rows that cannot change. If another process keeps the lock for longer than the
   busy time-out, nothing was written (Unavailable).
2. Threads of this process wait for each other at a lock of its own, which is fair; SQLite's waiting
   is a poll.
3. Stamps are numbers of one counter in the file, advanced by the transaction that uses them: it
   never goes back. All rows of a call share one.
4. A write that returned is durable: the log was flushed by its commit.
5. A read sees the last commit. A bulk read sees all rows at one moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from lochan.base.errors import Unavailable, Unknown
from lochan.base.keys import prefix_end
from lochan.base.limits.storage import PARTITION_BYTES_MAX
from lochan.kv.arguments import (
    check_adds,
    check_apply,
    check_different_rows,
    check_epoch,
    check_expected,
    check_items,
    check_name,
    check_names,
    check_partition,
    check_range,
)
from lochan.kv.defaults import NO_OBJECTS, PlainHold, is_as_expected
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
from lochan.kv.walk import WalkPage, check_walk, decode_cursor, encode_cursor
from lochan.process import after_fork
from lochan.stores.sqlite.connections import SqliteConnections
from lochan.stores.sqlite.failures import commit_failure, failure

CAPABILITIES: Final = Capabilities(
    # SQLite takes a gigabyte; the bounds of the other embedded store serve for moving between them.
    value_bytes_max=4 * 1_024 * 1_024,
    read_items_max=10_000,
    batch_items_max=10_000,
    batch_bytes_max=32 * 1_024 * 1_024,
    apply_items_max=10_000,
    apply_bytes_max=32 * 1_024 * 1_024,
    atomic_apply=True,
    inline=False,
    durable_on_return=True,
    row_locks=False,
)

# How many rows of a dropped partition one transaction deletes: other writers wait for it.
DROP_BATCH_ROWS: Final = 2_000

STAMP_BYTES: Final = 8

_GET: Final = "SELECT value, stamp, half_day FROM rows WHERE partition = ? AND key = ?"
_SCAN: Final = (
    "SELECT key, value, stamp, half_day FROM rows WHERE partition = ? AND key >= ? "
    "ORDER BY key LIMIT ?"
)
_SCAN_UNTIL: Final = (
    "SELECT key, value, stamp, half_day FROM rows WHERE partition = ? AND key >= ? AND key < ? "
    "ORDER BY key LIMIT ?"
)
_WALK: Final = (
    "SELECT partition, key, value, stamp, half_day FROM rows "
    "WHERE (partition, key) >= (?, ?) AND partition < ? ORDER BY partition, key LIMIT ?"
)
_NEXT_STAMP: Final = "UPDATE stamps SET last = last + 1 RETURNING last"
_PUT: Final = (
    "INSERT INTO rows (partition, key, value, stamp, half_day) VALUES (?, ?, ?, ?, 0) "
    "ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value, stamp = excluded.stamp, "
    "half_day = 0"
)
_ADD: Final = (
    "INSERT INTO rows (partition, key, value, stamp, half_day) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (partition, key) DO UPDATE SET stamp = excluded.stamp, "
    "half_day = excluded.half_day WHERE half_day < excluded.half_day"
)
_DELETE: Final = "DELETE FROM rows WHERE partition = ? AND key = ?"
_DROP: Final = (
    "DELETE FROM rows WHERE rowid IN (SELECT rowid FROM rows WHERE partition = ? LIMIT ?)"
)

_Result = TypeVar("_Result")


class SqliteStore:
    """A Store in one file that several processes of one machine may open."""

    def __init__(self, path: Path, busy_timeout_ms: int) -> None:
        self._path = path
        self._writers = Lock()
        self._counting = Lock()
        self._writes = 0
        self._connections = SqliteConnections(path, busy_timeout_ms)
        after_fork(self, SqliteStore._forked)

    def __repr__(self) -> str:
        return f"SqliteStore({self._path})"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return CAPABILITIES

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        self._connections.check_open()
        check_name(partition, key)
        with self._connections.use() as database, _reading():
            return _find(database, partition, key)

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names, all of one moment."""
        self._connections.check_open()
        check_names(names, CAPABILITIES)
        with self._connections.use() as database, _reading():
            database.execute("BEGIN")
            try:
                return [_find(database, partition, key) for partition, key in names]
            finally:
                database.execute("ROLLBACK")

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        self._connections.check_open()
        check_adds(adds, CAPABILITIES)
        if adds.items:
            self._write(lambda database: _add(database, adds, _next_stamp(database)))

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items; of two with one name the last counts."""
        self._connections.check_open()
        check_items(items, CAPABILITIES)

        def put(database: sqlite3.Connection) -> None:
            stamp = _next_stamp(database)
            database.executemany(_PUT, [(*item, stamp) for item in items])

        if items:
            self._write(put)

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        self._connections.check_open()
        check_name(partition, key)
        self._write(lambda database: database.execute(_DELETE, (partition, key)))

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        self._connections.check_open()
        check_name(partition, key)
        check_expected(expected, deleting=True)

        def delete(database: sqlite3.Connection) -> Outcome:
            current = _find(database, partition, key)
            if current is None or not is_as_expected(expected, current.stamp):
                return Lost(current or ABSENT)
            database.execute(_DELETE, (partition, key))
            return Won(current.stamp)

        return self._write(delete)

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end) as it is at this moment."""
        self._connections.check_open()
        check_range(partition, start, end, limit)
        with self._connections.use() as database, _reading():
            if end is None:
                found = database.execute(_SCAN, (partition, start, limit + 1)).fetchall()
            else:
                found = database.execute(_SCAN_UNTIL, (partition, start, end, limit + 1)).fetchall()
        next_start = found.pop()[0] if len(found) > limit else None
        return Page(
            [Entry(key, value, _stamp(stamp), half_day) for key, value, stamp, half_day in found],
            next_start,
        )

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of many partitions, ordered by partition and key."""
        self._connections.check_open()
        check_walk(prefix, cursor, limit)
        # No partition is longer than this end.
        end = prefix_end(prefix) or prefix + b"\xff" * PARTITION_BYTES_MAX
        names = (*decode_cursor(prefix, cursor), end)
        with self._connections.use() as database, _reading():
            found = database.execute(_WALK, (*names, limit + 1)).fetchall()
        next_cursor = encode_cursor(*found.pop()[:2]) if len(found) > limit else None
        return WalkPage(
            [
                (Partition(partition), Entry(key, value, _stamp(stamp), half_day))
                for partition, key, value, stamp, half_day in found
            ],
            next_cursor,
        )

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and sets one row if it is as expected; else writes nothing."""
        self._connections.check_open()
        check_apply(adds, condition, CAPABILITIES)
        return self._write(lambda database: _apply(database, adds, condition))

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies all changes in one transaction, each won or lost for itself."""
        self._connections.check_open()
        for adds, condition in changes:
            check_apply(adds, condition, CAPABILITIES)
        check_different_rows(changes)
        if not changes:
            return []
        return self._write(lambda database: [_apply(database, *change) for change in changes])

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row without a lock: SQLite has none for a row."""
        return PlainHold(self, self.get(partition, key))

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more, some at a time."""
        self._connections.check_open()
        check_partition(partition)
        deleted = 0
        while True:
            try:
                some = self._write(
                    lambda database: database.execute(_DROP, (partition, DROP_BATCH_ROWS)).rowcount
                )
            except Unavailable as error:
                if not deleted:
                    raise
                raise Unknown(f"a part of the partition was deleted; {error.message}") from error
            deleted += some
            if some < DROP_BATCH_ROWS:
                return

    def epoch(self) -> int:
        """Returns the number of the last acknowledged write of this process."""
        self._connections.check_open()
        return self._writes

    def flush(self, epoch: int) -> None:
        """Returns at once: what was acknowledged has been flushed by its commit."""
        self._connections.check_open()
        check_epoch(epoch, self._writes)

    def close(self) -> None:
        """Waits for running calls and closes the file; every later call raises StoreClosed."""
        self._connections.close()

    def _forked(self) -> None:
        """Replaces locks that a thread of the parent may have; every call is refused."""
        self._writers = Lock()
        self._counting = Lock()

    def _write(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Runs work in a transaction of its own and commits it."""
        with self._writers, self._connections.use() as database:
            with _reading():
                database.execute("BEGIN IMMEDIATE")
            try:
                with _reading():
                    result = work(database)
                try:
                    database.execute("COMMIT")
                except sqlite3.Error as error:
                    raise commit_failure(error) from error
            finally:
                _roll_back(database)
        with self._counting:
            self._writes += 1
        return result


def _apply(database: sqlite3.Connection, adds: Adds, condition: SetIf) -> Outcome:
    current = _find(database, condition.partition, condition.key)
    if not is_as_expected(condition.expected, None if current is None else current.stamp):
        return Lost(current or ABSENT)
    stamp = _next_stamp(database)
    database.execute(_PUT, (condition.partition, condition.key, condition.value, stamp))
    _add(database, adds, stamp)
    return Won(_stamp(stamp))


def _add(database: sqlite3.Connection, adds: Adds, stamp: int) -> None:
    half_day = adds.half_day
    database.executemany(_ADD, [(*item, stamp, half_day) for item in adds.items])


def _find(database: sqlite3.Connection, partition: Partition, key: bytes) -> Entry | None:
    row = database.execute(_GET, (partition, key)).fetchone()
    return None if row is None else Entry(key, row[0], _stamp(row[1]), row[2])


def _next_stamp(database: sqlite3.Connection) -> int:
    # Every row of the answer is read: the statement has to end before COMMIT.
    ((number,),) = database.execute(_NEXT_STAMP).fetchall()
    return int(number)


def _stamp(number: int) -> Stamp:
    return Stamp(number.to_bytes(STAMP_BYTES, "big"))


def _roll_back(database: sqlite3.Connection) -> None:
    """Ends a transaction that was not committed; SQLite has ended some of them itself."""
    if database.in_transaction:
        database.execute("ROLLBACK")


@contextmanager
def _reading() -> Iterator[None]:
    """Translates errors of statements that have no effect if they fail."""
    try:
        yield
    except sqlite3.Error as error:
        raise failure(error) from error
