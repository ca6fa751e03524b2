"""The tables; the first process that opens a schema creates them.

1. look: if everything exists, no right to create is needed; 2. take an advisory lock, so that two
processes do not create at the same time; 3. create what is missing; 4. commit, which releases the
lock. A crash before step 4 leaves nothing, because creating is one transaction.

`value` is stored as it is, never compressed: objects are full of hashes, and PostgreSQL's own
compression took 2.7 times as long for nothing. Rows up to 8,160 bytes stay in their page. The
sequence never restarts: it is written ahead, so a crash skips numbers and repeats none.
"""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg

from lochan.stores.postgres import cockroach
from lochan.stores.postgres.tables import Table

# Any number will do, as long as every Lochan uses the same one.
_ADVISORY_LOCK: Final = 0x4C6F6368616E

_FOUND: Final = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname IN ('objects', 'rows', 'stamps') AND c.relkind IN ('r', 'S')
"""

_SCHEMA_FOUND: Final = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"

# A reference row is rewritten in place; half-empty pages keep that so with long rows too.
_FILL: Final = {Table.OBJECTS: 100, Table.ROWS: 50}

_UNCOMPRESSED: Final = ("partition", "key", "digest", "rest", "value")


def statements(schema: str) -> list[str]:
    """Returns the statements that create the sequence and the tables."""
    created = [f'CREATE SEQUENCE IF NOT EXISTS "{schema}".stamps AS bigint NO CYCLE']
    for table, fill in _FILL.items():
        created.append(
            f"""
            CREATE TABLE IF NOT EXISTS "{schema}"."{table.value}" (
                stamp bigint NOT NULL,
                half_day bigint NOT NULL,
                partition bytea NOT NULL,
                key bytea NOT NULL,
                digest bytea NOT NULL,
                rest bytea NOT NULL,
                value bytea NOT NULL,
                PRIMARY KEY (partition, key, digest)
            ) WITH (fillfactor = {fill}, toast_tuple_target = 8160)
            """
        )
        storage = ", ".join(f"ALTER {column} SET STORAGE EXTERNAL" for column in _UNCOMPRESSED)
        created.append(f'ALTER TABLE "{schema}"."{table.value}" {storage}')
    return created


def create_schema(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
    """Creates what is missing; harmless if nothing is, or if other processes do the same."""
    if _count(connection, _FOUND, schema) == 3:
        return
    if cockroach.find_version(connection) is not None:
        for statement in cockroach.statements(schema):
            connection.execute(statement.encode())
        return
    with connection.transaction():
        # Another process may be creating them, which takes longer than a row is ever locked.
        connection.execute("SET LOCAL lock_timeout = '30s'")
        connection.execute("SET LOCAL statement_timeout = '60s'")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        # An operator may have made the schema for a user who may create tables and nothing else.
        if not _count(connection, _SCHEMA_FOUND, schema):
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        if _count(connection, _FOUND, schema) < 3:
            for statement in statements(schema):
                connection.execute(statement.encode())


def _count(
    connection: psycopg.Connection[tuple[object, ...]], query: LiteralString, schema: str
) -> int:
    row = connection.execute(query, (schema,)).fetchone()
    return int(str(row[0])) if row else 0
