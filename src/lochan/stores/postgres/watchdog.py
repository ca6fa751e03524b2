"""Ends what takes too long: a thread that looks at everything under way a few times a second.

The driver has no time-out of its own, and a server that vanished never answers.
`statement_timeout` is the first line; this is the second, for black holes. What rings runs under
the watchdog's lock, so nothing rings after `disarm` returned. The thread is started when it is
first needed, in a forked process once more.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic
from typing import Final

from lochan.process import after_fork

# Often enough beside time-outs of seconds; under load it costs nothing that can be measured.
_LOOK_EVERY_S: Final = 0.25


class Watchdog:
    """Deadlines by owner, and the thread that keeps them."""

    def __init__(self) -> None:
        self._closed = False
        self._begin()
        after_fork(self, Watchdog._begin)

    def _begin(self) -> None:
        """Starts with nothing under way; what the parent of a fork waits for is its own matter."""
        self._changed = Condition()
        self._armed: dict[object, tuple[float, Callable[[], None]]] = {}
        self._resting = False
        self._thread: Thread | None = None

    def arm(self, owner: object, patience_s: float, ring: Callable[[], None]) -> None:
        """Calls `ring` once unless the owner disarms in time; it must not block or raise."""
        with self._changed:
            self._armed[owner] = (monotonic() + patience_s, ring)
            if self._thread is None and not self._closed:
                self._thread = Thread(
                    target=self._run, name="lochan-postgres-watchdog", daemon=True
                )
                self._thread.start()
            # Waking the thread at every call would cost more than the call.
            if self._resting:
                self._changed.notify()

    def disarm(self, owner: object) -> None:
        """Forgets the owner's deadline; harmless if there is none."""
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
                self._resting = not self._armed
                self._changed.wait(None if self._resting else _LOOK_EVERY_S)
                self._resting = False
                now = monotonic()
                due = [owner for owner, (deadline, _) in self._armed.items() if deadline <= now]
                for owner in due:
                    _, ring = self._armed.pop(owner)
                    ring()
