"""Translates SQLite's errors to ours, by their codes.

A statement that fails before COMMIT is rolled back, so nothing was written (Unavailable). An error
of COMMIT itself proves nothing: its records may be in the log, and the next process that opens the
file would find them (Unknown).
"""

from __future__ import annotations

import sqlite3
from typing import Final

from lochan.base.errors import Bug, Corrupt, LochanError, Unavailable, Unknown

# The low byte of a code is the class of the error.
_CLASS: Final = 0xFF

_DAMAGED: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_WAITED: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_OUR_MISTAKE: Final = frozenset(
    (
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_TOOBIG,
    )
)


def failure(error: sqlite3.Error) -> LochanError:
    """Returns the error for a read that failed, or for a write that wrote nothing."""
    code = code_of(error)
    if code in _DAMAGED:
        return Corrupt(f"the file is damaged: {describe(error)}")
    if code in _WAITED:
        return Unavailable(f"another process was writing all the time: {describe(error)}")
    if code in _OUR_MISTAKE or isinstance(error, sqlite3.ProgrammingError):
        return Bug(f"SQLite refused a statement: {describe(error)}")
    if "no such table" in str(error):
        return Corrupt(f"the file has lost tables of this store: {describe(error)}")
    return Unavailable(f"SQLite did not execute a statement: {describe(error)}")


def commit_failure(error: sqlite3.Error) -> LochanError:
    """Returns the error for a COMMIT that failed."""
    return Unknown(f"a write may or may not have taken effect: {describe(error)}")


def code_of(error: sqlite3.Error) -> int:
    """Returns the class of an error, 0 if the error does not come from SQLite itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & _CLASS


def describe(error: sqlite3.Error) -> str:
    """Returns the message with the name of its code."""
    name: str = getattr(error, "sqlite_errorname", "")
    return f"{error} ({name})" if name else str(error)
