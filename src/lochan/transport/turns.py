"""Callers with many requests take turns on the event loop while several callers are active.

Without turns, a caller with many connections keeps the loop for as long as all of its requests
take that came at once, and the request of another waits for all of them. With turns, the loop
serves one request of each caller after the other, and after half a millisecond it looks for what
else has come. Chains of commits are shorter then, so that there are no turns for a single caller,
nor for the few requests of one that has only few under way: those are served at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from lochan.base.limits.quotas import TURN_S
from lochan.transport.fair_queue import FairQueue


class Turns:
    """Work that waits for its turn; used on the loop only.

    `before` is called at the beginning of each turn, for what others wait for.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        before: Callable[[], None] = lambda: None,
        turn_s: float = TURN_S,
    ) -> None:
        self._loop = loop
        self._before = before
        self._turn_s = turn_s
        self._waiting: FairQueue[Callable[[], None]] = FairQueue()
        self._scheduled = False

    def add(self, owner: str, work: Callable[[], None]) -> None:
        """Calls `work`, which must not raise, when it is the owner's turn."""
        self._waiting.add(owner, work)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._before()
        ends = perf_counter() + self._turn_s
        waiting = self._waiting
        while waiting:
            waiting.pop()()
            if perf_counter() >= ends:
                break
        self._scheduled = bool(waiting)
        if waiting:
            self._loop.call_soon(self._run)
