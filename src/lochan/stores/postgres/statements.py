"""Every statement that the store sends, as text; each call is exactly one of them.

Every call needs one of these texts, and there are few of them: each is built once for a schema.

Placeholders are positional, and the arguments follow the order of the text. Names are
(partition, key, digest); bulk calls send one array for each column, so that one prepared statement
serves every size. The caller sorts items: two statements that lock the same rows in opposite order
would wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Final

from lochan.kv.store import ABSENT, PRESENT, Expected
from lochan.stores.postgres.tables import Table

# How many rows one statement of a dropped partition deletes: some tens of milliseconds.
DROP_BATCH_ROWS: Final = 5_000

_NAME: Final = "partition = %b AND key = %b AND digest = %b"
_COLUMNS: Final = "partition, key, digest, rest, value, half_day, stamp"
_NAMES: Final = "unnest(%b::bytea[], %b::bytea[], %b::bytea[])"
_ITEMS: Final = "unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[])"


class Condition(Enum):
    """What a conditional write compares."""

    STAMP = "stamp"
    ABSENT = "absent"
    PRESENT = "present"


def condition_of(expected: Expected) -> Condition:
    """Returns the form of a condition."""
    if expected is ABSENT:
        return Condition.ABSENT
    return Condition.PRESENT if expected is PRESENT else Condition.STAMP


@cache
def get(schema: str, table: Table) -> bytes:
    """Arguments: name. Rows: stamp, half-day, value."""
    return f"SELECT stamp, half_day, value FROM {_at(schema, table)} WHERE {_NAME}".encode()


@cache
def hold(schema: str, table: Table) -> bytes:
    """As `get`, and locks the row; after waiting it returns the row as it then is."""
    return get(schema, table) + b" FOR UPDATE"


@cache
def get_many(schema: str, tables: Sequence[Table]) -> bytes:
    """Arguments: arrays of names for each table. Rows: which table, which name, the row."""
    parts = [
        f"SELECT {number}::int8, x.n, t.stamp, t.half_day, t.value "
        f"FROM {_NAMES} WITH ORDINALITY AS x(p, k, d, n) "
        f"JOIN {_at(schema, table)} t ON t.partition = x.p AND t.key = x.k AND t.digest = x.d"
        for number, table in enumerate(tables)
    ]
    return " UNION ALL ".join(parts).encode()


@cache
def scan(schema: str, table: Table, ends: bool) -> bytes:
    """Arguments: partition, start in two parts, perhaps end in two parts, limit.

    The order of the index is that of `key`; the rare keys that share a whole head are sorted
    by the rest, a few at a time.
    """
    until = "AND (key, rest) < (%b, %b) " if ends else ""
    return (
        f"SELECT key, rest, stamp, half_day, value FROM {_at(schema, table)} "
        f"WHERE partition = %b AND (key, rest) >= (%b, %b) {until}"
        "ORDER BY key, rest LIMIT %b"
    ).encode()


@cache
def walk(schema: str, table: Table) -> bytes:
    """Arguments: partition, key in two parts, the partition that ends the walk, limit."""
    return (
        f"SELECT partition, key, rest, stamp, half_day, value FROM {_at(schema, table)} "
        "WHERE (partition, key, rest) >= (%b, %b, %b) AND partition < %b "
        "ORDER BY partition, key, rest LIMIT %b"
    ).encode()


@cache
def add_many(schema: str, tables: Sequence[Table]) -> bytes:
    """Arguments for each table: half-day, arrays of items, half-day."""
    return _joined([_add(schema, table, _next_stamp(schema), "") for table in tables])


@cache
def put_many(schema: str, tables: Sequence[Table]) -> bytes:
    """Arguments for each table: arrays of items."""
    return _joined(
        [
            f"INSERT INTO {_at(schema, table)} ({_COLUMNS}) "
            f"SELECT x.p, x.k, x.d, x.r, x.v, 0, {_next_stamp(schema)} "
            f"FROM {_ITEMS} AS x(p, k, d, r, v) ON CONFLICT (partition, key, digest) "
            "DO UPDATE SET value = excluded.value, half_day = 0, stamp = excluded.stamp"
            for table in tables
        ]
    )


@cache
def set_if(schema: str, table: Table, condition: Condition) -> bytes:
    """Arguments: value, name, perhaps rest or stamp. One row, the new stamp, if it won."""
    return _set(schema, table, condition).encode()


@cache
def apply(schema: str, table: Table, condition: Condition, adds: Sequence[Table]) -> bytes:
    """Arguments: those of `set_if`, then those of `add_many`. Returns as `set_if`.

    Objects are added only if the row was won: a lost write stores nothing, not even a log
    record. All rows of the call share the row's new stamp.
    """
    stamp, only_if = "(SELECT w.stamp FROM won w)", "EXISTS (SELECT 1 FROM won) AND "
    parts = [f"won AS ({_set(schema, table, condition)})"]
    parts += [f"{add.value}_added AS ({_add(schema, add, stamp, only_if)})" for add in adds]
    return f"WITH {', '.join(parts)} SELECT w.stamp FROM won w".encode()


@cache
def apply_each(schema: str, table: Table, adds: Sequence[Table]) -> bytes:
    """Arguments: arrays of names, values and stamps; for each table of objects half-day, arrays
    of items and of the numbers of their rows, half-day. Rows: number and new stamp of each won.

    An object that several rows bring is added if one of them was won.
    """
    rows = "unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::int8[])"
    won = (
        f"UPDATE {_at(schema, table)} AS t SET value = w.v, half_day = 0, "
        f"stamp = {_next_stamp(schema)} FROM {rows} WITH ORDINALITY AS w(p, k, d, v, s, n) "
        "WHERE t.partition = w.p AND t.key = w.k AND t.digest = w.d AND t.stamp = w.s "
        "RETURNING w.n, t.stamp"
    )
    parts = [f"won AS ({won})"]
    parts += [f"{add.value}_added AS ({_add_each(schema, add)})" for add in adds]
    return f"WITH {', '.join(parts)} SELECT w.n, w.stamp FROM won w".encode()


def _add_each(schema: str, table: Table) -> str:
    items = "unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::int8[])"
    return (
        f"INSERT INTO {_at(schema, table)} AS t ({_COLUMNS}) "
        "SELECT DISTINCT ON (x.p, x.k, x.d) x.p, x.k, x.d, x.r, x.v, %b, w.stamp "
        f"FROM {items} AS x(p, k, d, r, v, o) JOIN won w ON w.n = x.o "
        f"WHERE NOT EXISTS (SELECT 1 FROM {_at(schema, table)} o WHERE o.partition = x.p "
        "AND o.key = x.k AND o.digest = x.d AND o.half_day >= %b) ORDER BY x.p, x.k, x.d "
        "ON CONFLICT (partition, key, digest) DO UPDATE SET half_day = excluded.half_day, "
        "stamp = excluded.stamp WHERE t.half_day < excluded.half_day"
    )


@cache
def delete(schema: str, table: Table) -> bytes:
    """Arguments: name."""
    return f"DELETE FROM {_at(schema, table)} WHERE {_NAME}".encode()


@cache
def delete_if(schema: str, table: Table, condition: Condition) -> bytes:
    """Arguments: name, perhaps stamp. One row, the stamp of what was deleted, if it won."""
    where = " AND stamp = %b" if condition is Condition.STAMP else ""
    return f"DELETE FROM {_at(schema, table)} WHERE {_NAME}{where} RETURNING stamp".encode()


@cache
def drop(schema: str, table: Table) -> bytes:
    """Arguments: partition, the key to start at, partition. One row if there may be more."""
    return (
        f"WITH dropped AS MATERIALIZED (SELECT key, digest FROM {_at(schema, table)} "
        f"WHERE partition = %b AND key >= %b ORDER BY key, digest LIMIT {DROP_BATCH_ROWS}), "
        f"gone AS (DELETE FROM {_at(schema, table)} t USING dropped d "
        "WHERE t.partition = %b AND t.key = d.key AND t.digest = d.digest) "
        f"SELECT key FROM dropped OFFSET {DROP_BATCH_ROWS - 1}"
    ).encode()


def _set(schema: str, table: Table, condition: Condition) -> str:
    if condition is Condition.ABSENT:
        return (
            f"INSERT INTO {_at(schema, table)} (value, partition, key, digest, rest, "
            f"half_day, stamp) VALUES (%b, %b, %b, %b, %b, 0, {_next_stamp(schema)}) "
            "ON CONFLICT (partition, key, digest) DO NOTHING RETURNING stamp"
        )
    where = " AND stamp = %b" if condition is Condition.STAMP else ""
    return (
        f"UPDATE {_at(schema, table)} SET value = %b, half_day = 0, stamp = {_next_stamp(schema)} "
        f"WHERE {_NAME}{where} RETURNING stamp"
    )


def _add(schema: str, table: Table, stamp: str, only_if: str) -> str:
    """One insert of what is absent or has an older half-day.

    What is there and fresh is left out beforehand: a conflict would lock it, which costs a log
    record and a flush. What is there and older is renewed by the same command that found the
    conflict; in two commands a collector could delete it between them.
    """
    return (
        f"INSERT INTO {_at(schema, table)} AS t ({_COLUMNS}) "
        f"SELECT x.p, x.k, x.d, x.r, x.v, %b, {stamp} FROM {_ITEMS} AS x(p, k, d, r, v) "
        f"WHERE {only_if}NOT EXISTS (SELECT 1 FROM {_at(schema, table)} o WHERE o.partition = x.p "
        "AND o.key = x.k AND o.digest = x.d AND o.half_day >= %b) "
        "ON CONFLICT (partition, key, digest) DO UPDATE SET half_day = excluded.half_day, "
        "stamp = excluded.stamp WHERE t.half_day < excluded.half_day"
    )


def _at(schema: str, table: Table) -> str:
    return f'"{schema}"."{table.value}"'


def _next_stamp(schema: str) -> str:
    """One number for the whole statement: the subquery is evaluated once."""
    return f"(SELECT nextval('\"{schema}\".stamps'))"


def _joined(commands: list[str]) -> bytes:
    """Sends several commands as one statement."""
    *first, last = commands
    if not first:
        return last.encode()
    parts = [f"part{number} AS ({command})" for number, command in enumerate(first)]
    return f"WITH {', '.join(parts)} {last}".encode()
