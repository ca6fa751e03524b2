"""The directory of a RocksDB store: which process owns it, and whether it is new.

The file LOCHAN marks the directory as ours and has the lock. Without it RocksDB would create a
database in any directory, and a second process would rotate the log files of the first one before
it noticed the lock. A directory has two states:

1. no opening counted: it is being created, nothing was acknowledged yet, and RocksDB may create
   its files;
2. after the first opening RocksDB must find its files, and never creates them again.

A crash before the first opening is counted leaves state 1, and the next open continues there.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from lochan.base.errors import Corrupt, InvalidUrl, StoreLocked, Unavailable
from lochan.process import Descriptor, after_fork
from lochan.stores.rocksdb.marker import (
    DURABLE_OFFSET,
    Marker,
    check_manifest,
    decode_durable,
    decode_marker,
    encode_durable,
    encode_marker,
    read_manifest,
)

MARKER: Final = "LOCHAN"


class Directory:
    """A directory that no other process may open until `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _create(path)
        _check_ours(path)
        self._handle = _lock_marker(path)
        self._descriptor = Descriptor(self._handle)
        # A child that kept the descriptor would keep the lock, even after this process has ended.
        after_fork(self, Directory._forked)
        self.durable = 0
        try:
            self.openings = self._read()
        except BaseException:
            self.release()
            raise

    @property
    def is_new(self) -> bool:
        """Whether RocksDB may create its files."""
        return self.openings == 0

    @property
    def released(self) -> bool:
        """Whether `release` was called."""
        return self._handle < 0

    def record(self, openings: int) -> None:
        """Writes the number of openings and the state of the manifest to the marker file."""
        self._write(Marker(openings, *read_manifest(self.path)))
        self.openings = openings

    def mark_durable(self, write: int) -> None:
        """Records that every write up to this number is durable."""
        os.pwrite(self._handle, encode_durable(write), DURABLE_OFFSET)

    def release(self) -> None:
        """Unlocks the directory; idempotent."""
        if not self.released:
            # A child that was just forked may have the file open, and then closing does not unlock.
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            self._close()

    def _forked(self) -> None:
        """Closes the inherited file in a child; the parent keeps the lock."""
        if not self.released:
            self._descriptor.abandon()
            self._close()

    def _close(self) -> None:
        os.close(self._handle)
        self._handle = -1

    def _read(self) -> int:
        line = os.pread(self._handle, 4_096, 0)
        if not line:
            return self._begin()
        marker = decode_marker(line[:DURABLE_OFFSET], self.path / MARKER)
        self.durable = decode_durable(line[DURABLE_OFFSET:], self.path / MARKER)
        if marker.openings:
            check_manifest(self.path, marker)
        return marker.openings

    def _begin(self) -> int:
        """Writes the marker file of a new directory and makes both durable."""
        if (self.path / "CURRENT").exists():
            raise Corrupt(
                f"{self.path / MARKER} is empty, but there is a database beside it; restore a copy"
            )
        self._write(Marker())
        _sync_directory(self.path)
        _sync_directory(self.path.parent)
        return 0

    def _write(self, marker: Marker) -> None:
        try:
            os.pwrite(self._handle, encode_marker(marker), 0)
            os.fsync(self._handle)
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
    """Returns the message for a store that is already open."""
    return (
        f"the store in {path} is already open, and only one process may open it: stop that "
        "process, or send requests to its server instead of opening the files"
    )


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        raise Unavailable(f"cannot make {path} durable: {error.strerror}") from error
    finally:
        os.close(handle)
