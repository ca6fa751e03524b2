"""The RocksDB store: unsynced batches under one lock, made durable by a group flush.

Rules of this module:

1. Every write goes through `_commit` under the store's own lock, as one batch, without
   synchronisation: the driver keeps the interpreter during a synchronised write.
2. Reads take no lock: RocksDB reads one moment, and a batch is visible as a whole.
3. All rows of one call share one stamp: stamps are compared within a row, and a row is written at
   most once by a call. A stamp is the number of this opening and a counter, so none ever returns.
4. A write that failed leaves its outcome unknown and the log in doubt: the store stops.
5. Damage is `Corrupt` and never "absent" or "end of data".
6. A process that was forked from the owner is refused and changes nothing; see `fork`.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final, cast
from weakref import WeakSet

from rocksdict import Rdict, RdictIter, ReadOptions, WriteBatch

from lochan.base.checks import check_stored
from lochan.base.errors import LochanError, StoreClosed, StoreForked, Unknown
from lochan.kv.arguments import (
    check_apply,
    check_different_rows,
    check_epoch,
    check_expected,
    check_half_day,
    check_name,
    check_names,
    check_partition,
    check_range,
    check_value,
)
from lochan.kv.defaults import NO_OBJECTS, PlainHold
from lochan.kv.store import (
    Adds,
    Capabilities,
    Entry,
    Expected,
    Hold,
    Item,
    Name,
    Outcome,
    Page,
    Partition,
    SetIf,
    Stamp,
    Won,
)
from lochan.kv.walk import WalkPage
from lochan.process import after_fork, never_destroy
from lochan.stores.rocksdb.database import open_database
from lochan.stores.rocksdb.directory import Directory
from lochan.stores.rocksdb.failures import lost_rows, opening_failure, reading_failure
from lochan.stores.rocksdb.fork import LIBRARY, ForkedDatabase, opened_elsewhere
from lochan.stores.rocksdb.group_flush import GroupFlush
from lochan.stores.rocksdb.options import Parameters
from lochan.stores.rocksdb.rows import (
    COUNTER_BITS,
    HEADER_BYTES,
    OPEN_NUMBER_KEY,
    OPEN_NUMBER_MAX,
    STAMP_BYTES,
    build_header,
    lost_to,
    matches,
    read_entries,
    read_entry,
    read_half_day,
    read_open_number,
    row_key,
    row_keys,
    row_prefix,
    row_prefix_end,
)
from lochan.stores.rocksdb.running_calls import RunningCalls
from lochan.stores.rocksdb.walk import walk_ranges

CAPABILITIES: Final = Capabilities(
    # Far above any object; a batch of such rows still fits the write buffers several times.
    value_bytes_max=4 * 1_024 * 1_024,
    # What one caller may do while others wait for the lock: a few milliseconds.
    read_items_max=1_000,
    batch_items_max=1_000,
    batch_bytes_max=4 * 1_024 * 1_024,
    apply_items_max=1_000,
    apply_bytes_max=4 * 1_024 * 1_024,
    atomic_apply=True,
    inline=True,
    durable_on_return=False,
    row_locks=False,
)

# From this number on the driver's bulk read is cheaper than single ones. Below it, releasing the
# interpreter lock may cost more than it saves when other threads wait for it.
_BULK_READ_MIN: Final = 16

# Partitions up to this size are deleted row by row. A range deletion costs one write, but every
# read after a new one sorts all that are in the write buffer: 284 us measured with 2,000.
_ROW_DELETES_MAX: Final = 1_000


# RocksDB's threads must not outlive the interpreter: a store that a program left open is closed
# at exit.
_OPEN: WeakSet[RocksStore] = WeakSet()


@atexit.register
def _close_open_stores() -> None:
    for store in list(_OPEN):
        store.close()


class RocksStore:
    """A Store on one directory of this machine, owned by one process."""

    def __init__(self, path: Path, parameters: Parameters) -> None:
        LIBRARY.begin_use(path)
        self._stopped: StoreClosed | None = None
        self._closing = Lock()
        self._lock = Lock()
        self._running_calls = RunningCalls()
        self._directory = Directory(path)
        try:
            self._db = open_database(self._directory, parameters)
            try:
                self._counter = self._begin(parameters) << COUNTER_BITS
            except BaseException:
                self._db.close()
                raise
        except BaseException:
            self._directory.release()
            raise
        self._writes = 0
        _OPEN.add(self)
        self._group = GroupFlush(self._synchronise, lambda: self._writes, self._stop, str(path))
        after_fork(self, RocksStore._forked)

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return CAPABILITIES

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        self._check_open()
        check_name(partition, key)
        raw = self._read(row_key(partition, key))
        return None if raw is None else read_entry(key, raw)

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names."""
        self._check_open()
        check_names(names, CAPABILITIES)
        keys = [row_key(partition, key) for partition, key in names]
        if len(keys) < _BULK_READ_MIN:
            raws = [self._read(key) for key in keys]
        else:
            raws = self._read_bulk(keys)
        return [
            None if raw is None else read_entry(name[1], raw)
            for name, raw in zip(names, raws, strict=True)
        ]

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        self._check_open()
        check_half_day(adds.half_day)
        keys = row_keys(adds.items, CAPABILITIES)
        with self._lock:
            number = self._new_number()
            batch = WriteBatch(raw_mode=True)
            self._put_absent(batch, keys, adds, number)
            if len(batch):
                self._commit(batch)

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items; of two with one name the last counts."""
        self._check_open()
        keys = row_keys(items, CAPABILITIES)
        if not keys:
            return
        with self._lock:
            header = build_header(self._new_number())
            batch = WriteBatch(raw_mode=True)
            put = batch.put
            for name, item in zip(keys, items, strict=True):
                put(name, header + item[2])
            self._commit(batch)

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        self._check_open()
        check_name(partition, key)
        batch = WriteBatch(raw_mode=True)
        batch.delete(row_key(partition, key))
        with self._lock:
            self._commit(batch)

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        self._check_open()
        check_name(partition, key)
        check_expected(expected, deleting=True)
        name = row_key(partition, key)
        with self._lock:
            raw = self._read(name)
            if raw is None or not matches(expected, raw):
                return lost_to(key, raw)
            batch = WriteBatch(raw_mode=True)
            batch.delete(name)
            self._commit(batch)
        return Won(Stamp(raw[:STAMP_BYTES]))

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end) as it is at this moment."""
        self._check_open()
        check_range(partition, start, end, limit)
        if end is not None and end <= start:
            return Page([], None)
        prefix = row_prefix(partition)
        until = row_prefix_end(prefix) if end is None else prefix + end
        rows = self._read_range(prefix + start, until, limit + 1)
        width = len(prefix)
        next_start = rows.pop()[0][width:] if len(rows) > limit else None
        return Page(read_entries(rows, width), next_start)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of many partitions."""
        return walk_ranges(self._read_range, prefix, cursor, limit)

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and sets one row if it is as expected; else writes nothing."""
        self._check_open()
        check_half_day(adds.half_day)
        check_name(condition.partition, condition.key)
        check_value(condition.value, CAPABILITIES)
        check_expected(condition.expected)
        keys = row_keys(adds.items, CAPABILITIES)
        name = row_key(condition.partition, condition.key)
        if name in keys:
            check_apply(adds, condition, CAPABILITIES)
        with self._lock:
            batch = WriteBatch(raw_mode=True)
            outcome = self._put_if_expected(batch, name, condition, keys, adds, self._new_number())
            if isinstance(outcome, Won):
                self._commit(batch)
        return outcome

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies changes of different rows in one batch, those that win."""
        self._check_open()
        for adds, condition in changes:
            check_apply(adds, condition, CAPABILITIES)
        check_different_rows(changes)
        keys = [row_keys(adds.items, CAPABILITIES) for adds, _ in changes]
        with self._lock:
            number = self._new_number()
            batch = WriteBatch(raw_mode=True)
            outcomes: list[Outcome] = []
            for (adds, condition), added in zip(changes, keys, strict=True):
                name = row_key(condition.partition, condition.key)
                outcomes.append(self._put_if_expected(batch, name, condition, added, adds, number))
            if any(isinstance(outcome, Won) for outcome in outcomes):
                self._commit(batch)
        return outcomes

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row; there is no other process to lock it against."""
        return PlainHold(self, self.get(partition, key))

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more."""
        self._check_open()
        check_partition(partition)
        prefix = row_prefix(partition)
        until = row_prefix_end(prefix)
        rows = self._read_range(prefix, until, _ROW_DELETES_MAX + 1)
        if not rows:
            return
        batch = WriteBatch(raw_mode=True)
        if len(rows) > _ROW_DELETES_MAX:
            batch.delete_range(prefix, until)
        else:
            for name, _ in rows:
                batch.delete(name)
        with self._lock:
            self._commit(batch)

    def epoch(self) -> int:
        """Returns the number of the last acknowledged write since the store was opened."""
        self._check_open()
        return self._writes

    def flush(self, epoch: int) -> None:
        """Returns when every write up to that number is durable; waiting callers share a flush."""
        with self._running_calls:
            self._check_open()
            check_epoch(epoch, self._writes)
            self._group.up_to(epoch)

    def close(self) -> None:
        """Flushes and releases the directory; every later call raises StoreClosed.

        1. refuse new calls; 2. wait for the writer and for all running calls; 3. flush; 4. close
        the files and release the directory, whether the flush succeeded or not.
        """
        with self._closing:
            with self._lock:
                broken = self._stopped is not None
                if not broken:
                    self._stopped = StoreClosed("the store was closed")
            self._running_calls.wait_until_none()
            if self._directory.released:
                return
            try:
                if not broken:
                    self._group.up_to(self._writes)
            finally:
                self._release(broken=broken)

    def _release(self, *, broken: bool) -> None:
        try:
            self._db.close()
            if not broken:
                self._directory.record(self._directory.openings)
        except LochanError:
            raise
        except Exception as error:
            # The callers of a store that had stopped have its first failure already.
            if not broken:
                raise StoreClosed(f"closing the store failed: {error}") from error
        finally:
            self._directory.release()

    def _begin(self, parameters: Parameters) -> int:
        """Takes the number of this opening and makes it durable before any stamp contains it.

        The marker file counts openings too: a database that counts fewer has lost rows.
        """
        directory = self._directory
        try:
            found = read_open_number(self._db.get(OPEN_NUMBER_KEY))
            if found < directory.openings and not parameters.drop_after_damage:
                raise lost_rows(directory.path)
            number = max(found, directory.openings) + 1
            check_stored(number <= OPEN_NUMBER_MAX, "the number of openings fits three bytes")
            self._db.put(OPEN_NUMBER_KEY, number.to_bytes(STAMP_BYTES, "big"))
            self._synchronise()
        except LochanError:
            raise
        except Exception as error:
            raise opening_failure(directory.path, error) from error
        directory.record(number)
        return number

    def _synchronise(self) -> None:
        """Makes all writes so far durable, then records the number of the last one."""
        written = self._db.latest_sequence_number()
        self._db.flush_wal(True)
        self._directory.mark_durable(written)

    def _stop(self, reason: str) -> None:
        if self._stopped is None:
            self._stopped = StoreClosed(reason)

    def _forked(self) -> None:
        """Refuses every call in a child; locks may be held by threads that do not exist here."""
        if self._stopped is None:
            self._stopped = opened_elsewhere(self._directory.path)
        self._closing, self._lock, self._running_calls = Lock(), Lock(), RunningCalls()
        never_destroy(self._db)
        self._db = cast("Rdict", ForkedDatabase(opened_elsewhere(self._directory.path)))

    def _check_open(self) -> None:
        if self._stopped is not None:
            raise type(self._stopped)(self._stopped.message)

    def _new_number(self) -> int:
        """Returns the number of the next write; the caller has the lock.

        Closing takes the lock before it makes the store refuse calls, so a caller that passes this
        check finds the files open until it releases the lock.
        """
        self._check_open()
        self._counter += 1
        return self._counter

    def _put_if_expected(
        self,
        batch: WriteBatch,
        name: bytes,
        condition: SetIf,
        keys: list[bytes],
        adds: Adds,
        number: int,
    ) -> Outcome:
        """Puts row and objects into the batch if the row is as expected; the caller has the lock.

        `name` is the physical key of the row, `keys` are those of the objects.
        """
        raw = self._read(name)
        if not matches(condition.expected, raw):
            return lost_to(condition.key, raw)
        if keys:
            self._put_absent(batch, keys, adds, number)
        header = build_header(number)
        batch.put(name, header + condition.value)
        return Won(Stamp(header[:STAMP_BYTES]))

    def _put_absent(self, batch: WriteBatch, keys: list[bytes], adds: Adds, number: int) -> None:
        """Puts into the batch what must be written of the objects; the caller has the lock."""
        half_day = adds.half_day
        header = build_header(number, half_day)
        may_exist = self._db.key_may_exist
        put = batch.put
        unique = len(set(keys)) == len(keys)
        seen: set[bytes] = set()
        for name, item in zip(keys, adds.items, strict=True):
            if not unique:
                if name in seen:
                    continue
                seen.add(name)
            # Nearly always no: the filters answer without touching a table.
            if may_exist(name):
                raw = self._read(name)
                if raw is not None:
                    if read_half_day(raw) < half_day:
                        put(name, header + raw[HEADER_BYTES:])
                    continue
            put(name, header + item[2])

    def _commit(self, batch: WriteBatch) -> None:
        """Writes a batch, unsynced; the caller has the lock."""
        self._check_open()
        try:
            self._db.write(batch)
        except StoreForked:
            raise
        except Exception as error:
            self._stop(f"the store stopped because a write failed: {error}")
            raise Unknown(f"a write may or may not have taken effect: {error}") from error
        self._writes += 1

    def _read(self, name: bytes) -> bytes | None:
        try:
            raw: bytes | None = self._db.get(name)
        except Exception as error:
            raise self._failure(error) from error
        return raw

    def _read_bulk(self, keys: list[bytes]) -> list[bytes | None]:
        with self._running_calls:
            self._check_open()
            try:
                raws: list[bytes | None] = self._db.get(keys)  # type: ignore[arg-type,assignment]
            except Exception as error:
                raise self._failure(error) from error
            return raws

    def _read_range(self, start: bytes, until: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Reads the first `limit` rows of [start, until)."""
        options = ReadOptions()
        # Bounded, so that it never walks through the deleted rows of a neighbour.
        options.set_iterate_upper_bound(until)
        with self._running_calls:
            self._check_open()
            # The iterator must be gone before the call ends: it would keep the files open.
            return self._walk(self._db.iter(options), start, limit)

    def _walk(self, rows: RdictIter, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        append, valid, key, value, move = found.append, rows.valid, rows.key, rows.value, rows.next
        try:
            rows.seek(start)
            while limit and valid():
                append((key(), value()))
                limit -= 1
                move()
            # The driver's own iteration ends silently on damage; only the status reports it.
            rows.status()
        except Exception as error:
            raise self._failure(error) from None
        return found

    def _failure(self, error: Exception) -> LochanError:
        """Translates what a read raised; if the store stopped meanwhile, that is the reason."""
        if self._stopped is not None:
            return type(self._stopped)(self._stopped.message)
        return reading_failure(error)
