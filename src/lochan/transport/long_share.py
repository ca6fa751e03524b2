"""A share of the interpreter for threads with long work, beside a loop that is always busy.

Python runs one thread at a time. A busy loop gives the interpreter lock away for moments only, and
takes it again before a thread that waits for it has woken up. If threads demand it after a short
time instead, both sides lose much by the switching, and the threads still get less than they need.
So while long work is under way, a thread demands the lock late, and the loop gives it away by
itself: every few milliseconds it compares the processor time of those threads with their share of
the time that has passed, and sleeps for what they lack. Threads that wait for something else, such
as a disk, cost a loop that has nothing else to do for them a few short sleeps.
"""

from __future__ import annotations

import sys
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Protocol

from lochan.base.limits.server import (
    LONG_SHARE,
    SHARE_EVERY_S,
    SHARE_SLICE_MAX_S,
    SHARE_SWITCH_INTERVAL_S,
    SWITCH_INTERVAL_S,
)


class LongThreads(Protocol):
    """The threads that do long work."""

    @property
    def is_idle(self) -> bool:
        """Whether no work waits or is being done."""
        ...

    def used_s(self) -> float:
        """Returns the processor time that they have used."""
        ...


class LongShare:
    """Gives threads their share; used on the loop only."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        threads: LongThreads,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._sleep = sleep
        self._now_s = now_s
        self._timer: TimerHandle | None = None
        self._since_s = 0.0
        self._used_before_s = 0.0

    def begin(self) -> None:
        """Starts to look after the threads, until they are idle."""
        if self._timer is None:
            sys.setswitchinterval(SHARE_SWITCH_INTERVAL_S)
            self._next_turn()

    def stop(self) -> None:
        """Ends it, whatever the threads do."""
        if self._timer is not None:
            self._timer.cancel()
            self._end()

    def _end(self) -> None:
        self._timer = None
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    def _next_turn(self) -> None:
        self._since_s, self._used_before_s = self._now_s(), self._threads.used_s()
        self._timer = self._loop.call_later(SHARE_EVERY_S, self._turn)

    def _turn(self) -> None:
        if self._threads.is_idle:
            self._end()
            return
        used_s = self._threads.used_s() - self._used_before_s
        lacking_s = LONG_SHARE * (self._now_s() - self._since_s) - used_s
        if lacking_s > 0:
            # Their share of the sleep is theirs, too.
            self._sleep(min(lacking_s / (1 - LONG_SHARE), SHARE_SLICE_MAX_S))
        self._next_turn()
