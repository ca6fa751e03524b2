"""Ends calls that take too long: a thread that checks all deadlines a few times a second.

The driver has no time-out of its own, and a server that vanished never answers. The server's
`statement_timeout` normally ends a statement; the watchdog is for servers that do not answer at
all. `on_timeout` runs under the watchdog's lock, so it is never called after `disarm` returned. The
thread is started when it is first needed, in a forked process again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic
from typing import Final

from lochan.process import after_fork

# Often enough for time-outs of seconds; its cost under load was too small to be measured.
_CHECK_EVERY_S: Final = 0.25


class Watchdog:
    """Deadlines by owner, and the thread that checks them."""

    def __init__(self) -> None:
        self._closed = False
        self._begin()
        after_fork(self, Watchdog._begin)

    def _begin(self) -> None:
        """Starts without deadlines; those of a parent process are not inherited."""
        self._changed = Condition()
        self._armed: dict[object, tuple[float, Callable[[], None]]] = {}
        self._idle = False
        self._thread: Thread | None = None

    def arm(self, owner: object, timeout_s: float, on_timeout: Callable[[], None]) -> None:
        """Calls `on_timeout` once unless the owner disarms in time; it must not block or raise."""
        with self._changed:
            self._armed[owner] = (monotonic() + timeout_s, on_timeout)
            if self._thread is None and not self._closed:
                self._thread = Thread(
                    target=self._run, name="lochan-postgres-watchdog", daemon=True
                )
                self._thread.start()
            # Waking the thread at every call would cost more than the call.
            if self._idle:
                self._changed.notify()

    def disarm(self, owner: object) -> None:
        """Removes the owner's deadline; harmless if there is none."""
        with self._changed:
            self._armed.pop(owner, None)

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                self._idle = not self._armed
                self._changed.wait(None if self._idle else _CHECK_EVERY_S)
                self._idle = False
                now = monotonic()
                due = [owner for owner, (deadline, _) in self._armed.items() if deadline <= now]
                for owner in due:
                    _, on_timeout = self._armed.pop(owner)
                    on_timeout()
