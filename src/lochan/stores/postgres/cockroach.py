"""CockroachDB speaks the protocol of PostgreSQL: how it is recognised, and what is done otherwise.

1. It states its version at the beginning of a connection. Nothing else is needed to recognise it.
2. Tables have no options for storage, and are created one by one: it has no advisory locks, and
   changes of the schema in a transaction are limited. All of them may be done twice.
3. Transactions are serializable. One that conflicts with another is refused with 40001, and has had
   no effect: it is sent again after a random sleep, a bounded number of times.
4. A result may be ambiguous: 40003. A time-out may hide that, so a write is definitely not done
   after the errors that are listed here only; after all others it is Unknown.
5. Rows are not locked between two statements: a hold reads, as on other stores without locks.
"""

from __future__ import annotations

import random
import re
import time
from typing import Final

import psycopg

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.stores.postgres.failures import describe, read_failure
from lochan.stores.postgres.tables import Table

# The first version with DELETE … USING, which dropping a partition needs.
VERSION_MIN: Final = (23, 1)

_VERSION: Final = re.compile(r"v(\d{1,4})\.(\d{1,4})\.")

# Most statements are repeated by the server itself, until it has sent rows.
CONFLICTS_MAX: Final = 8
_SLEEP_FIRST_S: Final = 0.02

CONFLICT: Final = "40001"

# Conflicts; statements, data and rows that are refused; no resources for it; a lock not available.
_NOT_DONE: Final = (CONFLICT, "21", "22", "23", "42", "53", "55P03", "25P03")

SETTINGS: Final = {"default_transaction_isolation": "serializable"}

# Rows and objects of a commit may be in one table; they are always different rows.
ONE_STATEMENT: Final = b"SET enable_multiple_modifications_of_table = on"


def find_version(connection: psycopg.Connection[tuple[object, ...]]) -> str | None:
    """Returns the version that the server states; None if it is no CockroachDB."""
    found = connection.pgconn.parameter_status(b"crdb_version")
    return None if found is None else found.decode("utf-8", "replace")


def check_version(version: str, printable: str) -> None:
    """Refuses a version that is too old, or that is not one."""
    match = _VERSION.search(version)
    if match is None or (int(match[1]), int(match[2])) < VERSION_MIN:
        raise Unavailable(
            f"{printable} is older than CockroachDB {VERSION_MIN[0]}.{VERSION_MIN[1]}"
        )


def statements(schema: str) -> list[str]:
    """Returns the statements that create what is missing, in this order."""
    created = [
        f'CREATE SCHEMA IF NOT EXISTS "{schema}"',
        f'CREATE SEQUENCE IF NOT EXISTS "{schema}".stamps',
    ]
    for table in Table:
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
            )
            """
        )
    return created


def write_failure(error: psycopg.Error, *, broken: bool) -> LochanError:
    """Returns the error for a write that failed: nothing was written, or it is unknown."""
    state = error.sqlstate
    if broken or state is None or not state.startswith(_NOT_DONE):
        return Unknown(f"it is unknown whether a write was done: {describe(error)}")
    return read_failure(error)


class Conflicts:
    """Counts the conflicts of one call, and sleeps between its attempts."""

    def __init__(self) -> None:
        self._left = CONFLICTS_MAX
        self._longest_s = _SLEEP_FIRST_S

    def may_repeat(self, error: psycopg.Error, *, broken: bool) -> bool:
        """Returns whether the statement had no effect and is to be sent again, after a sleep."""
        if error.sqlstate != CONFLICT or broken or not self._left:
            return False
        self._left -= 1
        time.sleep(random.uniform(0, self._longest_s))  # noqa: S311 - no secret
        self._longest_s *= 2
        return True
