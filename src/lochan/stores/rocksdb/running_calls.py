"""Counts the calls that run inside RocksDB, so that the store is closed only after they return.

RocksDB must not be closed during a call: the driver would refuse, or a scan would take the closing
for the end of its data. Only calls that release the interpreter lock are counted: during any other
call no thread can close the store.
"""

from __future__ import annotations

from threading import Condition
from types import TracebackType


class RunningCalls:
    """A counter; a call runs inside `with running_calls:`."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._count -= 1
            if not self._count:
                self._changed.notify_all()

    def wait_until_none(self) -> None:
        """Returns when no call is running; the caller already makes the store refuse new ones."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count)
