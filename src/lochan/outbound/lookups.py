"""Looks a host up in a thread of its own, because a look-up cannot be interrupted.

A name server that does not answer keeps the one thread, never the caller. At most one look-up runs:
the next call waits for its result instead of starting another.
"""

from __future__ import annotations

import threading

from lochan.outbound.addresses import LookUp


class _Running:
    """A look-up that may have ended."""

    def __init__(self, ask: LookUp, host: str, port: int) -> None:
        self._ask = ask
        self._place = host, port
        self.found: list[str] = []
        self.error: OSError | None = None
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            self.found = self._ask(*self._place)
        except OSError as error:
            self.error = error
        finally:
            self.is_over.set()


class HostLookUp:
    """Looks one host up, again and again; for one caller at a time."""

    def __init__(self, ask: LookUp, host: str, port: int) -> None:
        self._ask = ask
        self._place = host, port
        self._running: _Running | None = None

    def find(self, timeout_s: float) -> list[str]:
        """Returns the addresses; OSError if there are none, or not in that time."""
        running = self._running
        if running is None:
            running = self._running = _Running(self._ask, *self._place)
            threading.Thread(target=running.run, name="events-look-up", daemon=True).start()
        if not running.is_over.wait(timeout_s):
            raise TimeoutError("the name server does not answer")
        self._running = None
        if running.error is not None:
            raise running.error
        if not running.found:
            raise OSError("it has no address")
        return running.found
