"""The PostgreSQL store: one statement for each call, each its own transaction.

Rules of this module:

1. A call is one statement and one round trip, in READ COMMITTED, without an open transaction before
   or after; only a hold has one, for two seconds at most.
2. A conditional write is sent once. An error on a connection that still works proves that nothing
   was written (Unavailable); a broken connection proves nothing (Unknown). See `failures`.
3. A lost write does not return the row: the statement's snapshot may be older than the row that it
   waited for. A caller that needs the row reads it in a new statement.
4. Stamps are numbers of one sequence, which never goes back. All rows of a call share one.
5. A write that returned is durable: the commit was flushed.
6. A forked process opens connections of its own and does not use those or the holds of its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Final, cast

import msgspec
import psycopg
from psycopg.types.numeric import Int8

from lochan.base.errors import LochanError, StoreClosed, Unavailable, Unknown
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
from lochan.kv.defaults import NO_OBJECTS, PlainHold, apply_in_turn
from lochan.kv.store import (
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
    Won,
)
from lochan.kv.walk import WalkPage
from lochan.process import after_fork
from lochan.stores.postgres import cockroach, statements
from lochan.stores.postgres.address import Address
from lochan.stores.postgres.cockroach import Conflicts
from lochan.stores.postgres.failures import read_failure, write_failure
from lochan.stores.postgres.hold import HOLD_TIMEOUT_S, LockedRow
from lochan.stores.postgres.pool import Pool
from lochan.stores.postgres.schema import create_schema
from lochan.stores.postgres.session import Arguments, Row, Session
from lochan.stores.postgres.statements import Condition, condition_of
from lochan.stores.postgres.tables import (
    KEY_HEAD_BYTES,
    Table,
    key_rest,
    name_columns,
    row_name,
    stamp_from,
    stamp_number,
    table_of,
)
from lochan.stores.postgres.walk import walk_tables
from lochan.stores.postgres.watchdog import Watchdog

CAPABILITIES: Final = Capabilities(
    # PostgreSQL takes a gigabyte; a value this large still leaves in well under a time-out.
    value_bytes_max=8 * 1_024 * 1_024,
    read_items_max=10_000,
    batch_items_max=10_000,
    batch_bytes_max=32 * 1_024 * 1_024,
    apply_items_max=10_000,
    apply_bytes_max=32 * 1_024 * 1_024,
    atomic_apply=True,
    inline=False,
    durable_on_return=True,
    row_locks=True,
)

# Creating tables may wait for another process that creates them.
_CREATE_TIMEOUT_S: Final = 65.0


class PostgresStore:
    """A Store on one schema of a database that many servers share."""

    def __init__(self, address: Address) -> None:
        self._schema = address.schema
        self._lock = Lock()
        self._writes = 0
        self._holds: set[LockedRow] = set()
        self._printable = address.printable
        self._is_cockroach = False
        self._watchdog = Watchdog()
        self._pool = Pool(lambda: Session(address, self._watchdog), address.pool)
        after_fork(self, PostgresStore._forked)
        try:
            durable = self._create()
        except BaseException:
            self.close()
            raise
        self._capabilities = msgspec.structs.replace(
            CAPABILITIES, durable_on_return=durable, row_locks=not self._is_cockroach
        )

    def __repr__(self) -> str:
        return f"PostgresStore({self._printable})"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do; not durable if the server's `fsync` is off."""
        return self._capabilities

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        self._pool.check_open()
        check_name(partition, key)
        rows = self._read(
            statements.get(self._schema, table_of(partition)), row_name(partition, key)
        )
        return _entry(key, rows[0]) if rows else None

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names, all of one moment."""
        self._pool.check_open()
        check_names(names, CAPABILITIES)
        found: list[Entry | None] = [None] * len(names)
        positions: dict[Table, list[int]] = {}
        for position, (partition, _) in enumerate(names):
            positions.setdefault(table_of(partition), []).append(position)
        if not positions:
            return found
        arguments: list[object] = []
        for chosen in positions.values():
            arguments += name_columns(names[position] for position in chosen)
        chosen_by_number = list(positions.values())
        for row in self._read(statements.get_many(self._schema, tuple(positions)), arguments):
            number, ordinal = cast("tuple[int, int]", row[:2])
            position = chosen_by_number[number][ordinal - 1]
            found[position] = _entry(names[position][1], row[2:])
        return found

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        self._pool.check_open()
        check_adds(adds, CAPABILITIES)
        tables = _by_table(_first_of_each(adds.items))
        if tables:
            query = statements.add_many(self._schema, tuple(tables))
            self._write(query, _add_arguments(tables, adds.half_day))
            self._count()

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items; of two with one name the last counts."""
        self._pool.check_open()
        check_items(items, CAPABILITIES)
        tables = _by_table(_first_of_each(reversed(items)))
        if tables:
            arguments = [column for chosen in tables.values() for column in _item_columns(chosen)]
            self._write(statements.put_many(self._schema, tuple(tables)), arguments)
            self._count()

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        self._pool.check_open()
        check_name(partition, key)
        self._write(statements.delete(self._schema, table_of(partition)), row_name(partition, key))
        self._count()

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        self._pool.check_open()
        check_name(partition, key)
        check_expected(expected, deleting=True)
        arguments: list[object] = list(row_name(partition, key))
        condition = condition_of(expected)
        if condition is Condition.STAMP:
            arguments.append(Int8(stamp_number(expected)))
        query = statements.delete_if(self._schema, table_of(partition), condition)
        return self._outcome(self._write(query, arguments))

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end) as it is at this moment."""
        self._pool.check_open()
        check_range(partition, start, end, limit)
        if end is not None and end <= start:
            return Page([], None)
        arguments: list[object] = [partition, *_split(start)]
        if end is not None:
            arguments += _split(end)
        arguments.append(Int8(limit + 1))
        rows = self._read(
            statements.scan(self._schema, table_of(partition), end is not None), arguments
        )
        found = cast("list[tuple[bytes, bytes, int, int, bytes]]", rows)
        next_start = None
        if len(found) > limit:
            head, rest, *_ = found.pop()
            next_start = head + rest
        return Page([_entry(head + rest, row) for head, rest, *row in found], next_start)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of many partitions."""
        self._pool.check_open()
        return walk_tables(self._read, self._schema, prefix, cursor, limit)

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and sets one row if it is as expected; else writes nothing."""
        self._pool.check_open()
        check_apply(adds, condition, CAPABILITIES)
        return self._outcome(self._write(*self._apply_statement(adds, condition)))

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies changes of several rows in one statement, if each expects a stamp."""
        self._pool.check_open()
        tables = {table_of(condition.partition) for _, condition in changes}
        by_stamp = all(isinstance(condition.expected, bytes) for _, condition in changes)
        half_days = {adds.half_day for adds, _ in changes}
        if len(changes) < 2 or len(tables) > 1 or len(half_days) > 1 or not by_stamp:
            return apply_in_turn(self, changes)
        for adds, condition in changes:
            check_apply(adds, condition, CAPABILITIES)
        check_different_rows(changes)
        objects = _numbered_by_table(changes)
        arguments = _each_arguments(changes)
        for items, owners in objects.values():
            half_day = Int8(changes[0][0].half_day)
            arguments += [half_day, *_item_columns(items), owners, half_day]
        rows = self._write(
            statements.apply_each(self._schema, tables.pop(), tuple(objects)), arguments
        )
        won = {cast("int", number): cast("int", stamp) for number, stamp in rows}
        for _ in won:
            self._count()
        return [
            Won(stamp_from(won[number])) if number in won else Lost(None)
            for number in range(1, len(changes) + 1)
        ]

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Locks a row for the next `apply`; an absent row is not locked, on CockroachDB none is."""
        self._pool.check_open()
        check_name(partition, key)
        if self._is_cockroach:
            return PlainHold(self, self.get(partition, key))
        session = self._pool.take(to_hold=True)
        try:
            query = statements.hold(self._schema, table_of(partition))
            rows = session.begin_with(query, row_name(partition, key))
        except psycopg.Error as error:
            self._close_held(session)
            raise read_failure(error) from error
        except BaseException:
            self._close_held(session)
            raise
        held = LockedRow(session, _entry(key, rows[0]) if rows else None, self._finish, self._end)
        with self._lock:
            self._holds.add(held)
        self._watchdog.arm(held, HOLD_TIMEOUT_S, held.abandon)
        if self._pool.closed:
            held.abandon()
            raise StoreClosed("the store was closed")
        return held

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more, some at a time."""
        self._pool.check_open()
        check_partition(partition)
        query = statements.drop(self._schema, table_of(partition))
        start: bytes | None = b""
        while start is not None:
            try:
                rows = self._write(query, (partition, start, partition))
            except Unavailable as error:
                if not start:
                    raise
                raise Unknown(f"a part of the partition was deleted; {error.message}") from error
            start = cast("bytes", rows[0][0]) if rows else None
        self._count()

    def epoch(self) -> int:
        """Returns the number of the last acknowledged write of this process."""
        self._pool.check_open()
        return self._writes

    def flush(self, epoch: int) -> None:
        """Returns at once: what was acknowledged has been flushed by its commit."""
        self._pool.check_open()
        check_epoch(epoch, self._writes)

    def close(self) -> None:
        """Ends all connections; every later call raises StoreClosed.

        1. refuse new calls; 2. end the holds whose `apply` is not running; 3. wait for running
        calls, each bounded by its time-out; 4. stop the watchdog.
        """
        self._pool.shut()
        with self._lock:
            holds = list(self._holds)
        for held in holds:
            held.abandon()
        self._pool.close()
        self._watchdog.close()

    def _forked(self) -> None:
        """Drops the holds of the parent; pool, sessions and watchdog reset themselves."""
        self._lock = Lock()
        holds, self._holds = self._holds, set()
        for held in holds:
            held.leave_to_parent()

    def _create(self) -> bool:
        """Creates the tables if they are missing; returns whether the server's `fsync` is on."""
        session = self._pool.take()
        try:
            session.run(
                lambda connection: create_schema(connection, self._schema), _CREATE_TIMEOUT_S
            )
            self._is_cockroach = session.is_cockroach
            return session.fsync
        except psycopg.Error as error:
            raise Unavailable(
                f"the tables of schema {self._schema!r} cannot be created: "
                f"{read_failure(error).message}"
            ) from error
        finally:
            self._pool.give(session)

    def _apply_statement(self, adds: Adds, condition: SetIf) -> tuple[bytes, list[object]]:
        form = condition_of(condition.expected)
        arguments = _set_arguments(condition)
        table = table_of(condition.partition)
        tables = _by_table(_first_of_each(adds.items))
        if not tables:
            return statements.set_if(self._schema, table, form), arguments
        arguments += _add_arguments(tables, adds.half_day)
        return statements.apply(self._schema, table, form, tuple(tables)), arguments

    def _read(self, query: bytes, arguments: Arguments) -> list[Row]:
        return self._execute(query, arguments, lambda error, _: read_failure(error))

    def _write(self, query: bytes, arguments: Arguments) -> list[Row]:
        failure = cockroach.write_failure if self._is_cockroach else write_failure
        return self._execute(
            query, arguments, lambda error, session: failure(error, broken=session.broken)
        )

    def _execute(
        self,
        query: bytes,
        arguments: Arguments,
        failure: Callable[[psycopg.Error, Session], LochanError],
    ) -> list[Row]:
        conflicts = Conflicts() if self._is_cockroach else None
        while True:
            session = self._pool.take()
            try:
                return session.execute(query, arguments)
            except psycopg.Error as error:
                broken, problem = session.broken, failure(error, session)
                if conflicts is None or not conflicts.may_repeat(error, broken=broken):
                    raise problem from error
            finally:
                self._pool.give(session)

    def _finish(self, session: Session, adds: Adds, condition: SetIf) -> Outcome:
        """The `apply` of a hold."""
        check_apply(adds, condition, CAPABILITIES)
        query, arguments = self._apply_statement(adds, condition)
        try:
            return self._outcome(session.end_with(query, arguments))
        except psycopg.Error as error:
            raise write_failure(error, broken=session.broken) from error

    def _end(self, held: LockedRow, session: Session) -> None:
        """Returns the session of a hold to the pool, which closes it if a transaction is open."""
        self._watchdog.disarm(held)
        with self._lock:
            self._holds.discard(held)
        self._pool.give(session, held=True)

    def _close_held(self, session: Session) -> None:
        session.close()
        self._pool.give(session, held=True)

    def _outcome(self, rows: list[Row]) -> Outcome:
        if not rows:
            return Lost(None)
        self._count()
        return Won(stamp_from(cast("int", rows[0][0])))

    def _count(self) -> None:
        with self._lock:
            self._writes += 1


def _entry(key: bytes, row: Sequence[object]) -> Entry:
    stamp, half_day, value = cast("tuple[int, int, bytes]", row)
    return Entry(key, value, stamp_from(stamp), half_day)


def _split(key: bytes) -> tuple[bytes, bytes]:
    return key[:KEY_HEAD_BYTES], key_rest(key)


def _first_of_each(items: Iterable[Item]) -> list[Item]:
    """Keeps the first item of each name, sorted: all statements lock rows in the same order."""
    kept: dict[Name, Item] = {}
    for item in items:
        kept.setdefault(item[:2], item)
    return [kept[name] for name in sorted(kept)]


def _by_table(items: list[Item]) -> dict[Table, list[Item]]:
    """Groups items by the table that serves them."""
    shares: dict[Table, list[Item]] = {table: [] for table in Table}
    for item in items:
        shares[table_of(item[0])].append(item)
    return {table: share for table, share in shares.items() if share}


def _item_columns(items: list[Item]) -> list[list[bytes]]:
    names = name_columns((partition, key) for partition, key, _ in items)
    rests = [key_rest(key) for _, key, _ in items]
    return [*names, rests, [value for _, _, value in items]]


def _add_arguments(tables: dict[Table, list[Item]], half_day: int) -> list[object]:
    arguments: list[object] = []
    for items in tables.values():
        arguments += [Int8(half_day), *_item_columns(items), Int8(half_day)]
    return arguments


def _set_arguments(row: SetIf) -> list[object]:
    arguments: list[object] = [row.value, *row_name(row.partition, row.key)]
    condition = condition_of(row.expected)
    if condition is Condition.ABSENT:
        arguments.append(key_rest(row.key))
    elif condition is Condition.STAMP:
        arguments.append(Int8(stamp_number(row.expected)))
    return arguments


def _each_arguments(changes: Sequence[tuple[Adds, SetIf]]) -> list[object]:
    conditions = [condition for _, condition in changes]
    names = name_columns((condition.partition, condition.key) for condition in conditions)
    stamps = [Int8(stamp_number(condition.expected)) for condition in conditions]
    return [*names, [condition.value for condition in conditions], stamps]


def _numbered_by_table(
    changes: Sequence[tuple[Adds, SetIf]],
) -> dict[Table, tuple[list[Item], list[Int8]]]:
    """Groups objects by table, each with the number of the change that adds it."""
    shares: dict[Table, tuple[list[Item], list[Int8]]] = {}
    for number, (adds, _) in enumerate(changes, 1):
        for item in _first_of_each(adds.items):
            items, owners = shares.setdefault(table_of(item[0]), ([], []))
            items.append(item)
            owners.append(Int8(number))
    return dict(sorted(shares.items(), key=lambda share: share[0].value))
