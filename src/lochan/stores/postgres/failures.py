"""What PostgreSQL's errors mean in our tree: the SQLSTATE decides, and the connection's state.

A write whose connection broke is Unknown, whatever was said before: the server may have finished
it, or may yet (a statement that waits for a row does not notice that its client has gone). Only an
error that arrived on a connection that still works proves that nothing was written. Reads have no
effect, so theirs are Unavailable.
"""

from __future__ import annotations

from typing import Final

import psycopg

from lochan.base.errors import Bug, Corrupt, LochanError, Unavailable, Unknown

# Completion unknown; connection failures; a server that is going down or was told to stop us.
_UNKNOWN: Final = ("40003", "08", "57P0")

# The transaction waited for us too long and was rolled back before our statement was read.
_IDLE_TOO_LONG: Final = "25P03"

_DAMAGED: Final = ("XX001", "XX002")
_LOST_TABLES: Final = ("42P01", "3F000")

# Wrong data or wrong statements: only our own mistake sends them. 42501 is the operator's.
_OUR_MISTAKE: Final = ("21", "22", "23", "42")
_DENIED: Final = "42501"


def read_failure(error: psycopg.Error) -> LochanError:
    """Says why a read failed."""
    return _definite(error)


def write_failure(error: psycopg.Error, *, broken: bool) -> LochanError:
    """Says what a failed write left: nothing, or nobody knows."""
    state = error.sqlstate
    if state == _IDLE_TOO_LONG:
        return _definite(error)
    if broken or state is None or state.startswith(_UNKNOWN):
        return Unknown(f"the connection was lost during a write: {describe(error)}")
    return _definite(error)


def describe(error: psycopg.Error) -> str:
    """Returns one line of what the server or the driver said, without details of rows."""
    said = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return f"{said} (SQLSTATE {error.sqlstate})" if error.sqlstate else said


def _definite(error: psycopg.Error) -> LochanError:
    state = error.sqlstate or ""
    said = describe(error)
    if state in _DAMAGED:
        return Corrupt(f"the database is damaged: {said}")
    if state in _LOST_TABLES:
        return Corrupt(f"the database has lost tables of this store: {said}")
    if state.startswith(_OUR_MISTAKE) and state != _DENIED:
        return Bug(f"the database refused a statement: {said}")
    return Unavailable(f"the database did not do it: {said}")
