"""The tables of the file; the first process that opens it creates them.

1. look: a file of ours with this version needs nothing more; 2. switch the file to its write-ahead
log; 3. take the lock of writers, look again, create, commit. A crash before the commit of step 3
leaves an empty database, and the next open continues there.

`application_id` marks a file as ours and `user_version` is the version of its tables. Rows have
two trees, their own and the index of names: in one tree SQLite would put every value over a
quarter of a page into pages of its own.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from lochan.base.errors import InvalidUrl, NewerFormat, Unavailable
from lochan.stores.sqlite.failures import code_of, failure

# "Loch" in ASCII.
APPLICATION_ID: Final = 0x4C6F6368

SCHEMA_VERSION: Final = 1

_CREATE: Final = (
    "CREATE TABLE stamps (last INTEGER NOT NULL)",
    "INSERT INTO stamps (last) VALUES (0)",
    """CREATE TABLE rows (
        partition BLOB NOT NULL, key BLOB NOT NULL, stamp INTEGER NOT NULL,
        half_day INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (partition, key)
    )""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

# Another process that creates the same file needs some milliseconds.
_RETRY_S: Final = 0.01


def prepare(connection: sqlite3.Connection, path: Path, busy_timeout_ms: int) -> None:
    """Creates the tables if they are missing; refuses files of others and of newer versions."""
    deadline = monotonic() + busy_timeout_ms / 1_000
    while True:
        try:
            return _prepare(connection, path)
        except sqlite3.Error as error:
            # SQLite does not wait by itself while two processes switch the form of the log.
            waits = code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not waits or monotonic() > deadline:
                raise failure(error) from error
        sleep(_RETRY_S)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if _is_ready(connection, path):
        return
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise Unavailable(
            f"{path} cannot have a write-ahead log ({mode}): its file system has no shared memory"
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ready(connection, path):
            for statement in _CREATE:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_ready(connection: sqlite3.Connection, path: Path) -> bool:
    """Returns whether the tables exist; raises for a file that this store must not touch."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise NewerFormat(
                f"{path} has tables of version {version}, and this Lochan knows {SCHEMA_VERSION}: "
                "upgrade Lochan"
            )
        return True
    if mark or version or tables:
        raise InvalidUrl(f"{path} is a database of another program; name a new file")
    return False
