"""Directories by descriptor: every name is opened relative to its directory, no link is followed.

A path is resolved by the kernel component by component, and each may be a symbolic link that was
planted after a check. So there are no paths below the root of a place: a directory is opened by one
name in another open directory, and the name must be a directory itself (`O_NOFOLLOW`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from weakref import finalize

from lochan.base.errors import StoreClosed
from lochan.process import Descriptor

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe must not block, and a terminal must not become ours.
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


class Folder:
    """A directory that stays open; after `close` its number leads nowhere, but is not used again.

    A thread that is about to use the number would otherwise reach another file.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._descriptor = Descriptor(number)
        self._closed = False
        finalize(self, os.close, number)

    @property
    def number(self) -> int:
        """The descriptor; StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed("this place for object data was closed")
        return self._number

    def close(self) -> None:
        """Puts the null device in its place; idempotent."""
        if not self._closed:
            self._closed = True
            self._descriptor.abandon()


@contextmanager
def opened(name: str, parent: int) -> Iterator[int]:
    """Opens a directory for the time of a `with` block."""
    number = os.open(name, DIRECTORY, dir_fd=parent)
    try:
        yield number
    finally:
        os.close(number)


def create(name: str, parent: int) -> None:
    """Makes sure that a directory exists, durably: another process may just have created it."""
    with suppress(FileExistsError):
        os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
    os.fsync(parent)


def names_in(directory: int) -> list[str]:
    """Returns the names in a directory, sorted by their bytes.

    The descriptor is opened again: the position of a listing would be shared with other users of
    the number, threads and forked processes.
    """
    with opened(".", directory) as again:
        return sorted(os.listdir(again), key=os.fsencode)  # noqa: PTH208 - by descriptor


def find_status(name: str, directory: int) -> os.stat_result | None:
    """Returns the status of what has this name, itself if it is a link; None if nothing has it."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_file(status: os.stat_result | None) -> bool:
    """Returns whether this is a regular file."""
    return status is not None and stat.S_ISREG(status.st_mode)


def is_directory(status: os.stat_result | None) -> bool:
    """Returns whether this is a directory."""
    return status is not None and stat.S_ISDIR(status.st_mode)


def write_all(number: int, piece: memoryview) -> None:
    """Writes all bytes at the end of what was written before."""
    rest = piece
    while rest:
        rest = rest[os.write(number, rest) :]
