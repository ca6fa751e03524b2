"""RocksDB in a forked process: calls are refused, files stay untouched, its library stays idle.

RocksDB's threads do not exist in a child, its mutexes may be locked for ever, and its memory holds
rows that only the parent may write. So a child

1. never calls the database and never destroys it: closing would write, and flush, and wait;
2. opens no other one either if an ancestor has used the library: flushes and compactions would wait
   for threads that do not exist, and so would the fourth full write buffer;
3. ends without the library's own exit handler, which waits for the same threads for ever.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final, NoReturn

from lochan.base.errors import StoreForked
from lochan.process import FORK_ADVICE, after_fork


class ForkedDatabase:
    """Replaces the database in a forked process; every use of it is refused."""

    def __init__(self, refusal: StoreForked) -> None:
        self._refusal = refusal

    def __getattr__(self, name: str) -> NoReturn:
        raise StoreForked(self._refusal.message)


class Library:
    """Remembers whether this process or one of its ancestors has used RocksDB."""

    def __init__(self) -> None:
        self._used = False
        self._inherited = False
        # Looked up here, because a child should not load libraries before anything else.
        self._libc = ctypes.CDLL(None)
        after_fork(self, Library._forked)

    def begin_use(self, path: Path) -> None:
        """Notes that a database is about to be opened; raises StoreForked where none can be."""
        if self._inherited:
            raise StoreForked(
                f"the store in {path} cannot be opened in this process: it was forked from one "
                f"that has used RocksDB, whose threads do not survive a fork; {FORK_ADVICE}"
            )
        self._used = True

    def _forked(self) -> None:
        if self._used and not self._inherited:
            self._inherited = True
            _end_before_inherited_exit_handlers(self._libc)


def opened_elsewhere(path: Path) -> StoreForked:
    """Returns the error for a store that the process opened from which this one was forked."""
    return StoreForked(
        f"the store in {path} belongs to the process that opened it, and this one was forked from "
        f"it; {FORK_ADVICE}"
    )


def _end_before_inherited_exit_handlers(libc: ctypes.CDLL) -> None:
    """Ends this process before the exit handlers run that it inherited from its parent.

    Handlers run in the opposite order of their registration: first those of the child, then what
    is registered here (C's own buffers are written, then the process ends with its status). By
    then the interpreter has ended normally. Only glibc passes the status to a handler; elsewhere a
    child has to end with `os._exit`, as those of `multiprocessing` do.
    """
    if not hasattr(libc, "on_exit"):
        return
    pointer = ctypes.c_void_p
    register_with_status, register = libc.on_exit, libc["__cxa_atexit"]
    register_with_status.argtypes = [pointer, pointer]
    register.argtypes = [pointer, pointer, pointer]
    register_with_status(ctypes.cast(libc["_exit"], pointer), None)
    register(ctypes.cast(libc.fflush, pointer), None, None)


LIBRARY: Final = Library()
"""RocksDB's library in this process."""
