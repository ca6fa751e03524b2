"""The connections of one process to the file: a few, each used by one call at a time.

A forked process must not touch them, not even to close them, and must not open the file either:
SQLite knows of each open file which locks this process has, and a child inherits that knowledge
without the locks. So a child is refused by every call until it starts another program.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Final

from lochan.base.errors import InvalidUrl, StoreClosed, StoreForked, Unavailable
from lochan.process import FORK_ADVICE, after_fork, never_destroy
from lochan.stores.sqlite.failures import failure
from lochan.stores.sqlite.schema import prepare

# Reads of one process that run at once; a read takes microseconds, and two cores serve eight.
CONNECTIONS_MAX: Final = 8

# Pages in memory of each connection: 8 MB hold the inner pages of a table of some gigabytes.
_CACHE_KB: Final = 8_192


class _Library:
    """Remembers whether this process was forked from one that had files open."""

    def __init__(self) -> None:
        self.open_files = 0
        self.inherited = False
        after_fork(self, _Library._forked)

    def _forked(self) -> None:
        self.inherited = self.inherited or self.open_files > 0


_LIBRARY: Final = _Library()


class SqliteConnections:
    """A pool; `with connections.use() as one:` has a connection for itself."""

    def __init__(self, path: Path, busy_timeout_ms: int) -> None:
        self._path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._changed = Condition()
        self._idle: list[sqlite3.Connection] = []
        self._all: list[sqlite3.Connection] = []
        self._closed = False
        self._inherited = False
        _check_path(path)
        if _LIBRARY.inherited:
            raise StoreForked(_forked_message(path))
        after_fork(self, SqliteConnections._forked)
        first = self._connect()
        try:
            prepare(first, path, busy_timeout_ms)
        except BaseException:
            first.close()
            raise
        _LIBRARY.open_files += 1
        self._all.append(first)
        self._idle.append(first)

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Takes a connection, opens one if all are in use and there may be more, or waits."""
        one = self._take()
        try:
            yield one
        finally:
            with self._changed:
                self._idle.append(one)
                self._changed.notify()

    def check_open(self) -> None:
        """Raises StoreClosed after `close`, StoreForked in a forked process."""
        if self._inherited:
            raise StoreForked(_forked_message(self._path))
        if self._closed:
            raise StoreClosed("the store was closed")

    def close(self) -> None:
        """Refuses new calls, waits for running ones, closes the file; idempotent.

        In a forked process it does nothing more than refuse.
        """
        with self._changed:
            if self._closed or self._inherited:
                return
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._idle) == len(self._all))
            for one in self._all:
                one.close()
        _LIBRARY.open_files -= 1

    def _take(self) -> sqlite3.Connection:
        with self._changed:
            while True:
                self.check_open()
                if self._idle:
                    return self._idle.pop()
                if len(self._all) < CONNECTIONS_MAX:
                    one = self._connect()
                    self._all.append(one)
                    return one
                self._changed.wait()

    def _connect(self) -> sqlite3.Connection:
        try:
            one = sqlite3.connect(
                self._path,
                timeout=self._busy_timeout_ms / 1_000,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise Unavailable(f"cannot open {self._path}: {error}") from error
        try:
            # A commit returns when its records are on the disk.
            one.execute("PRAGMA synchronous = FULL")
            one.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
            one.execute("PRAGMA cell_size_check = ON")
        except sqlite3.Error as error:
            one.close()
            raise failure(error) from error
        return one

    def _forked(self) -> None:
        """Keeps the inherited connections for ever; closing them would act on the parent's file."""
        self._changed = Condition()
        self._inherited = not self._closed
        for one in self._all:
            never_destroy(one)


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise InvalidUrl(f"{path} is a directory; an SQLite store is a file")
    if not path.parent.is_dir():
        raise InvalidUrl(f"the directory {path.parent} does not exist; create it first")


def _forked_message(path: Path) -> str:
    return (
        f"the store in {path} cannot be used in this process: it was forked from one that had an "
        f"SQLite store open; {FORK_ADVICE}"
    )
