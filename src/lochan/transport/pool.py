"""A bounded pool of threads for what must not run on the event loop.

Work goes in on the loop and its result comes back on the loop. Many results cost one wake-up. The
queue is bounded: work that comes when it is full is refused at once, instead of waiting for an
answer that would come too late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from lochan.base.errors import Exhausted, LochanError
from lochan.base.limits.server import POOL_QUEUE_MAX
from lochan.transport.error_boundary import attempt

Work = Callable[[], Any]
Done = Callable[[Any], None]


class Pool:
    """Threads that are started when they are first needed; everything but `_serve` is the loop's.

    `done` gets what the work returned, or the LochanError that it raised.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        threads_max: int,
        queue_max: int = POOL_QUEUE_MAX,
    ) -> None:
        self._loop = loop
        self._name = name
        self._threads_max = threads_max
        self._queue_max = queue_max
        self._threads: list[Thread] = []
        self._jobs: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._results: list[tuple[Done, Any]] = []
        self._lock = Lock()
        self.under_way = 0

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread."""
        return max(0, self.under_way - self._threads_max)

    def submit(self, work: Work, done: Done, *, must: bool = False) -> None:
        """Runs the work in a thread and `done` with its result on the loop.

        Exhausted if too many wait; what must be done, because others depend on it, is always taken.
        """
        if self.waiting >= self._queue_max and not must:
            text = f"{self.waiting} requests wait for a thread already; try again later"
            raise Exhausted(text, public=text)
        self.under_way += 1
        if len(self._threads) < min(self.under_way, self._threads_max):
            number = len(self._threads) + 1
            thread = Thread(target=self._serve, name=f"lochan-{self._name}-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((work, done))

    def stop(self) -> None:
        """Lets the threads end after what was submitted."""
        for _ in self._threads:
            self._jobs.put(None)

    def join(self, timeout_s: float) -> bool:
        """Waits for the threads to end after `stop`; returns whether all have ended."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            outcome: object | LochanError = attempt(work)
            with self._lock:
                # Only the first result has to wake the loop; the others are delivered with it.
                must_wake = not self._results
                self._results.append((done, outcome))
            if must_wake:
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    # The loop is closed: no client waits for results any more.
                    return

    def _deliver(self) -> None:
        with self._lock:
            results, self._results = self._results, []
        for done, outcome in results:
            self.under_way -= 1
            attempt(done, outcome)
