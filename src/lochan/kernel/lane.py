"""The lane of one branch on one server: which commits wait, and which are being published.

A pure state machine. A commit is *offered* to the lane; when no batch is under way, a driver
*takes* all that wait (up to a bound), publishes them as one batch, and *settles* the lane, which
returns the batch. A driver decides how a commit waits: by thread, event loop or simulated greenlet.

So waiting commits are chained and published by one compare-and-swap, in the order of their arrival:
a committer of ten operations makes the same progress as one of one operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from lochan.base.checks import check
from lochan.base.errors import Exhausted
from lochan.base.limits.commits import CHAIN_PROPOSALS_MAX, LANE_QUEUE_MAX

_Waiter = TypeVar("_Waiter")


class Lane(Generic[_Waiter]):
    """First in, first out; one batch at a time."""

    def __init__(
        self, queue_max: int = LANE_QUEUE_MAX, batch_max: int = CHAIN_PROPOSALS_MAX
    ) -> None:
        self._queue_max = queue_max
        self._batch_max = batch_max
        self._waiting: deque[_Waiter] = deque()
        self._under_way: tuple[_Waiter, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no batch is under way; such a lane may be dropped."""
        return not self._waiting and not self._under_way

    @property
    def may_take(self) -> bool:
        """Whether a commit waits and no batch is under way."""
        return bool(self._waiting) and not self._under_way

    @property
    def first_waiting(self) -> _Waiter | None:
        """The first of the next batch."""
        return self._waiting[0] if self._waiting else None

    def offer(self, waiter: _Waiter) -> None:
        """Appends a waiter to the queue; Exhausted if it is full."""
        if len(self._waiting) >= self._queue_max:
            text = f"{len(self._waiting)} commits wait for this branch already; try again later"
            raise Exhausted(text, public=text)
        self._waiting.append(waiter)

    def take(self) -> Sequence[_Waiter]:
        """Returns the next batch, which is under way then; empty if one is or if nothing waits."""
        if self._under_way:
            return ()
        count = min(len(self._waiting), self._batch_max)
        self._under_way = tuple([self._waiting.popleft() for _ in range(count)])
        return self._under_way

    def take_more(self) -> Sequence[_Waiter]:
        """Moves waiters that arrived meanwhile into the batch under way, and returns them."""
        check(bool(self._under_way), "a batch is under way before others join it")
        count = min(len(self._waiting), self._batch_max - len(self._under_way))
        joined = tuple([self._waiting.popleft() for _ in range(count)])
        self._under_way += joined
        return joined

    def settle(self) -> Sequence[_Waiter]:
        """Ends the batch under way and returns it."""
        check(bool(self._under_way), "a lane is settled after it was taken")
        done, self._under_way = self._under_way, ()
        return done

    def cancel(self, waiter: _Waiter) -> bool:
        """Removes a waiter from the queue; False if it is being published already."""
        try:
            self._waiting.remove(waiter)
        except ValueError:
            return False
        return True
