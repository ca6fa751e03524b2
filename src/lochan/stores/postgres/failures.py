"""Translates PostgreSQL's errors to ours, by the SQLSTATE and the state of the connection.

A write whose connection broke is Unknown, whichever error came before: the server may have finished
it, or may still do so (a statement that waits for a row does not notice that its client is gone).
Only an error that arrives on a connection that still works proves that nothing was written. Reads
have no effect, so theirs are Unavailable.
"""

from __future__ import annotations

from typing import Final

import psycopg

from lochan.base.errors import Bug, Corrupt, LochanError, Unavailable, Unknown

# Completion unknown; connection failures; a server that shuts down or ended our connection.
_UNKNOWN: Final = ("40003", "08", "57P0")

# The transaction was idle for too long and was rolled back before our statement was read.
_IDLE_TOO_LONG: Final = "25P03"

_DAMAGED: Final = ("XX001", "XX002")
_LOST_TABLES: Final = ("42P01", "3F000")

# Wrong data or wrong statements: only our own mistake sends them. 42501 is the operator's.
_OUR_MISTAKE: Final = ("21", "22", "23", "42")
_DENIED: Final = "42501"


def read_failure(error: psycopg.Error) -> LochanError:
    """Returns the error for a read that failed, or for a write that wrote nothing."""
    state = error.sqlstate or ""
    message = describe(error)
    if state in _DAMAGED:
        return Corrupt(f"the database is damaged: {message}")
    if state in _LOST_TABLES:
        return Corrupt(f"the database has lost tables of this store: {message}")
    if state.startswith(_OUR_MISTAKE) and state != _DENIED:
        return Bug(f"the database refused a statement: {message}")
    return Unavailable(f"the database did not execute a statement: {message}")


def write_failure(error: psycopg.Error, *, broken: bool) -> LochanError:
    """Returns the error for a write that failed: nothing was written, or it is unknown."""
    state = error.sqlstate
    in_doubt = broken or state is None or state.startswith(_UNKNOWN)
    if in_doubt and state != _IDLE_TOO_LONG:
        return Unknown(f"the connection was lost during a write: {describe(error)}")
    return read_failure(error)


def describe(error: psycopg.Error) -> str:
    """Returns the message of the server or the driver in one line, without details of rows."""
    message = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return f"{message} (SQLSTATE {error.sqlstate})" if error.sqlstate else message
