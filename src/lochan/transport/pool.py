"""A bounded pool of threads for what must not run on the event loop.

Work goes in on the loop and its result comes back on the loop. Many results cost one wake-up.
Owners of work take turns. The queue is bounded: an owner whose work waits already is refused at
once when it is full, instead of waiting for an answer that would come too late. So one owner can
neither delay the others nor keep them out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from lochan.base.errors import Exhausted, LochanError
from lochan.base.limits.server import POOL_QUEUE_MAX
from lochan.transport.error_boundary import attempt
from lochan.transport.fair_queue import FairQueue

Work = Callable[[], Any]
Done = Callable[[Any], None]


class Pool:
    """Threads that are started when they are first needed; everything but `_serve` is the loop's.

    There is one permit for each job. A thread that has got a permit takes the job whose turn it is.

    `done` gets what the work returned, or the LochanError that it raised. `begin` is called when
    there is work again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        threads_max: int,
        queue_max: int = POOL_QUEUE_MAX,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._name = name
        self._threads_max = threads_max
        self._queue_max = queue_max
        self._begin = begin
        self._threads: list[Thread] = []
        self._clocks: list[int] = []
        self._permits: SimpleQueue[bool] = SimpleQueue()
        self._jobs: FairQueue[tuple[Work, Done]] = FairQueue()
        self._jobs_lock = Lock()
        self._results: list[tuple[Done, Any]] = []
        self._lock = Lock()
        self.under_way = 0

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread."""
        return max(0, self.under_way - self._threads_max)

    @property
    def is_idle(self) -> bool:
        """Whether no work waits or is being done."""
        return not self.under_way

    def used_s(self) -> float:
        """Returns the processor time that the threads have used; 0 where that is not known."""
        return sum([time.clock_gettime(clock) for clock in self._clocks])

    def submit(self, work: Work, done: Done, *, owner: str = "", must: bool = False) -> None:
        """Runs the work in a thread and `done` with its result on the loop.

        Exhausted if too many wait, and some of this owner; what must be done, because others depend
        on it, is always taken.
        """
        if self.waiting >= self._queue_max and not must:
            with self._jobs_lock:
                waits = self._jobs.has(owner)
            if waits:
                text = f"{self.waiting} requests wait for a thread already; try again later"
                raise Exhausted(text, public=text)
        self.under_way += 1
        if self.under_way == 1:
            self._begin()
        if len(self._threads) < min(self.under_way, self._threads_max):
            number = len(self._threads) + 1
            thread = Thread(target=self._serve, name=f"lochan-{self._name}-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()
            if thread.ident is not None and hasattr(time, "pthread_getcpuclockid"):
                self._clocks.append(time.pthread_getcpuclockid(thread.ident))
        with self._jobs_lock:
            self._jobs.add(owner, (work, done))
        self._permits.put(True)

    def stop(self) -> None:
        """Lets the threads end after what was submitted."""
        for _ in self._threads:
            self._permits.put(False)

    def join(self, timeout_s: float) -> bool:
        """Waits for the threads to end after `stop`; returns whether all have ended."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self) -> None:
        while self._permits.get():
            with self._jobs_lock:
                work, done = self._jobs.pop()
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
