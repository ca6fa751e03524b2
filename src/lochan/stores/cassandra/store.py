"""The Cassandra store: one table, in which every change of a row goes through Paxos.

Rules of this module:

1. A write is one conditional statement, or one batch of them on one partition, sent once. It is
   acknowledged when Paxos has decided and a quorum has the row. A time-out is Unknown.
2. No row is ever changed by a plain write, so what Paxos has committed is the newest that a quorum
   has, and reads at a quorum are linearizable. Only what timed out is in doubt: this process reads
   its partition serially, which completes it.
3. The objects of an `apply` are added before its row. A crash in between leaves objects that
   nothing refers to.
4. The writes of one process to a partition take turns (`partitions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from lochan.base.errors import Exhausted, Unavailable, Unknown
from lochan.base.limits.storage import OBJECT_BYTES_MAX
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
from lochan.kv.defaults import NO_OBJECTS, ProcessHold
from lochan.kv.store import (
    ABSENT,
    PRESENT,
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
from lochan.kv.walk import WalkPage
from lochan.process import after_fork
from lochan.stores.cassandra.address import CassandraAddress
from lochan.stores.cassandra.client import CassandraClient, Request
from lochan.stores.cassandra.objects import add_objects, partly
from lochan.stores.cassandra.partitions import BATCH_BYTES, BATCH_ROWS, Outcomes, Partitions
from lochan.stores.cassandra.rows import (
    is_applied,
    new_stamp,
    read_entry,
    read_outcome,
    set_request,
)
from lochan.stores.cassandra.schema import prepare
from lochan.stores.cassandra.statements import TableStatement
from lochan.stores.cassandra.walk import walk_table

CAPABILITIES: Final = Capabilities(
    # Paxos stores a value three times on its way; what is above stores no larger one.
    value_bytes_max=OBJECT_BYTES_MAX,
    read_items_max=1_000,
    # Each is a round of Paxos of its own.
    batch_items_max=256,
    batch_bytes_max=4_194_304,
    apply_items_max=256,
    apply_bytes_max=4_194_304,
    atomic_apply=False,
    inline=False,
    durable_on_return=True,
    row_locks=False,
)

# Rows of one partition in one statement that reads: eight megabytes if all are of the largest size.
_READ_ROWS: Final = 20
_SCAN_ROWS: Final = 200

# How many times of rows one statement reads before a partition is deleted.
_DROP_ROWS: Final = 5_000

# Each of them means that another caller wrote the row meanwhile.
_ROUNDS_MAX: Final = 8


class CassandraStore:
    """A Store in one table of Cassandra or ScyllaDB, for any number of servers."""

    def __init__(self, address: CassandraAddress) -> None:
        self._address = address
        self._begin()
        self._writes = 0
        self._client = CassandraClient(address)
        after_fork(self, CassandraStore._begin)
        try:
            prepare(self._client)
        except BaseException:
            self._client.close()
            raise

    def _begin(self) -> None:
        """Makes the locks; also in a child, where a thread of the parent may have the old ones."""
        self._lock = Lock()
        self._partitions = Partitions()

    def __repr__(self) -> str:
        return f"CassandraStore({self._address.printable})"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return CAPABILITIES

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        return self.get_many([(partition, key)])[0]

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names."""
        self._client.check_open()
        check_names(names, CAPABILITIES)
        wanted: dict[Partition, list[bytes]] = {}
        for partition, key in dict.fromkeys(names):
            wanted.setdefault(partition, []).append(key)
        plain: list[Request] = []
        serial: list[Request] = []
        for partition, keys in wanted.items():
            requests = serial if self._partitions.is_doubtful(partition) else plain
            for at in range(0, len(keys), _READ_ROWS):
                requests.append((TableStatement.ROWS, (partition, keys[at : at + _READ_ROWS])))
        found: dict[Name, Entry] = {}
        for requests in (plain, serial):
            answers = self._client.read_all(requests, serial=requests is serial) if requests else []
            for (_, (partition, _)), rows in zip(requests, answers, strict=True):
                found |= {(partition, row["k"]): read_entry(row) for row in rows}
        for _, (partition, _) in serial:
            self._partitions.settle(partition)
        return [found.get(name) for name in names]

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        self._client.check_open()
        check_adds(adds, CAPABILITIES)
        if adds.items:
            add_objects(self._client, adds.items, adds.half_day)
            self._count()

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items; of two with one name the last counts."""
        self._client.check_open()
        check_items(items, CAPABILITIES)
        if not items:
            return
        last = {(partition, key): value for partition, key, value in items}
        done = 0
        try:
            for part in _parts([SetIf(*name, value, PRESENT) for name, value in last.items()]):
                self._put(part)
                done += 1
        except (Exhausted, Unavailable) as error:
            raise partly(error, done > 0) from None
        self._count()

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        self._client.check_open()
        check_name(partition, key)
        with self._partitions.turn(partition):
            is_applied(self._client.write(TableStatement.DELETE, partition, key))
        self._count()

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        self._client.check_open()
        check_name(partition, key)
        check_expected(expected, deleting=True)
        for _ in range(_ROUNDS_MAX):
            stamp = expected
            if expected is PRESENT:
                # The answer to a deletion does not contain the stamp of what was deleted.
                entry = self.get(partition, key)
                if entry is None:
                    return Lost(ABSENT)
                stamp = entry.stamp
            where = (partition, key, stamp)
            with self._partitions.turn(partition):
                applied = is_applied(self._client.write(TableStatement.DELETE_STAMPED, *where))
            if applied and isinstance(stamp, bytes):
                self._count()
                return Won(Stamp(stamp))
            if expected is not PRESENT:
                return Lost(None)
        raise Exhausted("the row is changed by others all the time")

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end)."""
        self._client.check_open()
        check_range(partition, start, end, limit)
        if end is not None and start >= end:
            return Page([], None)
        size = min(limit, _SCAN_ROWS)
        serial = self._partitions.is_doubtful(partition)
        if end is None:
            rows = self._client.read(
                TableStatement.RANGE, partition, start, size + 1, serial=serial
            )
        else:
            bounds = (partition, start, end, size + 1)
            rows = self._client.read(TableStatement.RANGE_TO, *bounds, serial=serial)
        if serial:
            self._partitions.settle(partition)
        entries = [read_entry(row) for row in rows]
        if len(entries) > size:
            return Page(entries[:size], entries[size].key)
        return Page(entries, None)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of many partitions; reads the whole table for them."""
        self._client.check_open()
        return walk_table(self._client, prefix, cursor, limit)

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects, then sets one row if it is as expected."""
        return self.apply_each([(adds, condition)])[0]

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Adds the objects of all changes, then sets rows: those of one partition by one batch."""
        self._client.check_open()
        for adds, condition in changes:
            check_apply(adds, condition, CAPABILITIES)
        check_different_rows(changes)
        self._add_first(changes)
        outcomes: dict[Name, Outcome] = {}
        try:
            for part in _parts([condition for _, condition in changes]):
                found = self._partitions.write(part, self._set)
                outcomes |= {(part[0].partition, key): one for key, one in found.items()}
        except (Exhausted, Unavailable) as error:
            raise partly(error, bool(outcomes)) from None
        ordered = [outcomes[condition.partition, condition.key] for _, condition in changes]
        if any(isinstance(one, Won) for one in ordered):
            self._count()
        return ordered

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row without a lock: Cassandra has none."""
        held = ProcessHold(self, self.get(partition, key))
        after_fork(held, ProcessHold.end_in_child)
        return held

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more.

        One plain deletion with the time of the newest row: it covers all rows, and none that a
        later proposal of Paxos may write.
        """
        self._client.check_open()
        check_partition(partition)
        with self._partitions.turn(partition):
            # Completes what Paxos has accepted.
            found = self._client.read(TableStatement.FIRST, partition, serial=True)
            newest, key = 0, b""
            while found:
                rows = self._client.read(TableStatement.TIMES, partition, key, _DROP_ROWS)
                newest = max([newest, *(row["at"] for row in rows)])
                if len(rows) < _DROP_ROWS:
                    break
                key = rows[-1]["k"]
            if newest:
                self._client.write(TableStatement.DROP, newest, partition)
        self._count()

    def epoch(self) -> int:
        """Returns the number of the last acknowledged write of this process."""
        self._client.check_open()
        return self._writes

    def flush(self, epoch: int) -> None:
        """Returns at once: what was acknowledged is on a quorum."""
        self._client.check_open()
        check_epoch(epoch, self._writes)

    def close(self) -> None:
        """Waits for running calls and closes all connections; later calls raise StoreClosed."""
        self._client.close()

    def _add_first(self, changes: Sequence[tuple[Adds, SetIf]]) -> None:
        """Adds the objects of changes; whatever fails, no row has been written yet."""
        by_day: dict[int, list[Item]] = {}
        for adds, _ in changes:
            by_day.setdefault(adds.half_day, []).extend(adds.items)
        try:
            for half_day, items in by_day.items():
                if items:
                    add_objects(self._client, items, half_day)
        except Unknown as error:
            raise Unavailable(f"objects were not all added; {error.message}") from None

    def _set(self, part: Sequence[SetIf]) -> Outcomes:
        """Sets rows of one partition, in its turn: by one batch, or one by one if one may lose."""
        stamp = new_stamp()
        requests = [set_request(change, stamp) for change in part]
        if len(part) > 1 and is_applied(self._client.write_batch(requests)):
            return {change.key: Won(stamp) for change in part}
        outcomes: Outcomes = {}
        try:
            for change, (statement, values) in zip(part, requests, strict=True):
                answer = self._client.write(statement, *values)
                outcomes[change.key] = read_outcome(change, stamp, answer)
        except (Exhausted, Unavailable) as error:
            raise partly(error, bool(outcomes)) from None
        return outcomes

    def _put(self, part: Sequence[SetIf]) -> None:
        """Writes rows of one partition whatever is there."""
        stamp = new_stamp()
        puts = [(one.value, stamp, one.partition, one.key) for one in part]
        with self._partitions.turn(part[0].partition):
            if len(part) == 1:
                answer = self._client.write(TableStatement.PUT, *puts[0])
            else:
                answer = self._client.write_batch([(TableStatement.PUT, one) for one in puts])
            if not is_applied(answer):
                self._put_each(puts)

    def _put_each(self, puts: Sequence[tuple[bytes, Stamp, Partition, bytes]]) -> None:
        """Writes rows one by one, where the database does not compare absent columns with `!=`."""
        for value, stamp, partition, key in puts:
            for _ in range(_ROUNDS_MAX):
                if is_applied(
                    self._client.write(TableStatement.REPLACE, value, stamp, partition, key)
                ):
                    break
                added = self._client.write(TableStatement.ADD, partition, key, value, stamp, 0)
                if is_applied(added):
                    break
            else:
                raise Unknown("a row is created and deleted by others all the time")

    def _count(self) -> None:
        with self._lock:
            self._writes += 1


def _parts(changes: Sequence[SetIf]) -> list[list[SetIf]]:
    """Divides changes into batches, each of one partition."""
    parts: dict[Partition, list[list[SetIf]]] = {}
    left: dict[Partition, int] = {}
    for change in changes:
        where, size = change.partition, len(change.key) + len(change.value)
        batches = parts.setdefault(where, [])
        if not batches or len(batches[-1]) == BATCH_ROWS or left[where] < size:
            batches.append([])
            left[where] = BATCH_BYTES
        batches[-1].append(change)
        left[where] -= size
    return [part for batches in parts.values() for part in batches]
