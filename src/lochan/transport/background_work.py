"""Work that goes on after its request was answered, such as an import.

Each piece of work has a thread of its own: it may take long, and no request waits for one of the
pools meanwhile. While it lasts, `renew` is called every few seconds, by which other servers see
that it is alive. A server that stops does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

from lochan.base.errors import Exhausted
from lochan.base.limits.server import BACKGROUND_RENEWED_S, BACKGROUND_WORK_MAX
from lochan.transport.error_boundary import attempt


class BackgroundWork:
    """The work of one server; for any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way = 0

    def start(self, work: Callable[[], Any], renew: Callable[[], Any]) -> None:
        """Starts work; Exhausted if too much is under way."""
        with self._lock:
            if self._under_way >= BACKGROUND_WORK_MAX:
                text = f"{BACKGROUND_WORK_MAX} imports are running already; try again later"
                raise Exhausted(text, public=text)
            self._under_way += 1
        ended = Event()
        for target in (lambda: self._work(work, ended), lambda: _renew(renew, ended)):
            Thread(target=target, name="lochan-background", daemon=True).start()

    def _work(self, work: Callable[[], Any], ended: Event) -> None:
        try:
            attempt(work)
        finally:
            ended.set()
            with self._lock:
                self._under_way -= 1


def _renew(renew: Callable[[], Any], ended: Event) -> None:
    while not ended.wait(BACKGROUND_RENEWED_S):
        # What could not be renewed is tried again.
        attempt(renew)
