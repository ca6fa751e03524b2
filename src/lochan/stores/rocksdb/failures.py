"""Translates the messages of RocksDB, whose driver raises only `Exception`, to our errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lochan.base.errors import Corrupt, LochanError, StoreLocked, Unavailable
from lochan.stores.rocksdb.directory import locked_message

_RECOVERY_HINT = (
    "restore a copy, or open it once with ?recovery=point-in-time, which drops everything after "
    "the damage"
)


def opening_failure(path: Path, error: Exception) -> LochanError:
    """Returns the error for a database that cannot be opened."""
    text = str(error)
    if "/LOCK:" in text:
        return StoreLocked(locked_message(path))
    if "create_if_missing is false" in text:
        return Corrupt(f"the store in {path} has lost its files")
    if text.startswith(("Corruption", "Invalid argument", "Not implemented")):
        return Corrupt(f"the store in {path} is damaged ({text}); {_RECOVERY_HINT}")
    if "No such file" in text:
        return Corrupt(f"the store in {path} has lost files ({text})")
    return Unavailable(f"the store in {path} cannot be opened: {text}")


def lost_rows(path: Path) -> Corrupt:
    """Returns the error for a database with fewer writes than the marker file recorded."""
    return Corrupt(f"the store in {path} has lost rows that were durable; {_RECOVERY_HINT}")


def errno_of(error: Exception) -> str:
    """Returns the name of the system's error, such as ENOSPC, also from RocksDB's message."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    text = str(error)
    for number, name in errno.errorcode.items():
        if os.strerror(number) in text:
            return name
    return "unknown"


def reading_failure(error: Exception) -> LochanError:
    """Returns the error for a read that failed."""
    text = str(error)
    if text.startswith("Corruption") or "No such file" in text:
        return Corrupt(f"the store is damaged: {text}")
    return Unavailable(f"the store cannot be read: {text}")
