"""Keeps the store open while calls that release the interpreter are inside.

RocksDB must not be closed under a running call: the driver would refuse, or a scan would take the
closing for the end of its data. Calls that keep the interpreter need no gate.
"""

from __future__ import annotations

from threading import Condition
from types import TracebackType


class Gate:
    """Counts who is inside; `with gate:` goes in and out."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._inside -= 1
            if not self._inside:
                self._changed.notify_all()

    def wait_until_empty(self) -> None:
        """Returns when nobody is inside; the caller has already sent newcomers away."""
        with self._changed:
            self._changed.wait_for(lambda: not self._inside)
