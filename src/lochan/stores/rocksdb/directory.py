"""The directory of a RocksDB store: whose it is, and what state it is in.

A file named LOCHAN marks the directory as ours and carries the lock. Without it RocksDB would
happily settle in anybody's directory, and a second process would rotate the first one's diagnostics
before it noticed the lock. Its words:

1. `new`: being created, nothing was acknowledged yet; RocksDB may start from nothing;
2. `ready`: opened at least once; RocksDB must find its files, and never starts from nothing again.

A crash between the two leaves `new`, and the next open goes on from there.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from lochan.base.errors import Corrupt, InvalidUrl, NewerFormat, StoreLocked, Unavailable

MARKER: Final = "LOCHAN"

_NAME: Final = b"lochan-rocksdb"
_VERSION: Final = b"1"
_NEW: Final = b"lochan-rocksdb 1 new  \n"
_READY: Final = b"lochan-rocksdb 1 ready\n"


class Directory:
    """A directory that this object alone owns until `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _create(path)
        _check_ours(path)
        self._marker = _lock_marker(path)
        try:
            self.is_new = self._read_state()
        except BaseException:
            self.release()
            raise

    @property
    def released(self) -> bool:
        """Whether it was given up."""
        return self._marker < 0

    def mark_ready(self) -> None:
        """Says that the files are there from now on."""
        if self.is_new:
            self._write(_READY)
            self.is_new = False

    def release(self) -> None:
        """Gives the directory up; idempotent."""
        if not self.released:
            os.close(self._marker)
            self._marker = -1

    def _read_state(self) -> bool:
        words = os.pread(self._marker, 256, 0)
        if words == _READY:
            return False
        if words == _NEW:
            return True
        if not words and not (self.path / "CURRENT").exists():
            self._write(_NEW)
            _sync_directory(self.path)
            _sync_directory(self.path.parent)
            return True
        parts = words.split()
        if len(parts) == 3 and parts[0] == _NAME and parts[1] != _VERSION and parts[1].isdigit():
            raise NewerFormat(f"{self.path} was written by a newer Lochan; use that one")
        raise Corrupt(f"{self.path / MARKER} is damaged: it should say what this directory is")

    def _write(self, words: bytes) -> None:
        try:
            os.pwrite(self._marker, words, 0)
            os.fsync(self._marker)
        except OSError as error:
            raise Unavailable(f"cannot write {self.path / MARKER}: {error.strerror}") from error


def _create(path: Path) -> None:
    try:
        if path.is_dir():
            return
        if path.exists() or path.is_symlink():
            raise InvalidUrl(f"{path} is a file; a RocksDB store is a directory")
        if not path.parent.is_dir():
            raise InvalidUrl(f"the directory {path.parent} does not exist; create it first")
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot use {path}: {error.strerror}") from error


def _check_ours(path: Path) -> None:
    try:
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror}") from error
    if names and MARKER not in names:
        raise InvalidUrl(
            f"{path} holds files that are not a Lochan store; name a new or empty directory"
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise Unavailable(f"cannot write in {path}: permission denied or a read-only file system")


def _lock_marker(path: Path) -> int:
    marker = path / MARKER
    try:
        handle = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unavailable(f"cannot open {marker}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise StoreLocked(locked_message(path)) from None
        raise Unavailable(f"cannot lock {marker}: {error.strerror}") from error
    return handle


def locked_message(path: Path) -> str:
    """Says that the store has an owner, and what to do."""
    return (
        f"the store in {path} is already open; it belongs to one process at a time: "
        "stop that process, or ask its server instead of the files"
    )


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        raise Unavailable(f"cannot make {path} durable: {error.strerror}") from error
    finally:
        os.close(handle)
