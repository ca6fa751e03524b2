"""The lanes of all branches, driven by the event loop.

Who is offered to a lane that is free is published on the next turn of the loop, together with all
who came in the same turn: one chain, one compare-and-swap, one write. On a store that answers at
once this happens on the loop, unless a proposal is heavy; else in a thread, one at a time for each
branch, while others wait in the lane and are chained next. Branches that are ready at the same time
are written together.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

from lochan.base.errors import LochanError
from lochan.base.limits import LANES_MAX, WRITES_TOGETHER_MAX
from lochan.base.names import RefName
from lochan.http.error_boundary import attempt
from lochan.http.pool import Pool
from lochan.kernel.lane import Lane
from lochan.kernel.publish import Proposal, Publisher, Settled
from lochan.kernel.publish_many import Job, publish_many

OpenPublisher = Callable[[RefName], Publisher]

LaneName = tuple[str, RefName]
"""Repository and branch."""

Within = Callable[[Any, Callable[[], Sequence[Settled]]], Sequence[Settled]]
"""Runs a call as a part of what a trace mark stands for."""


class Waiter:
    """One who waits in a lane, and whom to tell what became of it."""

    __slots__ = ("done", "driven", "heavy", "mark", "proposal")

    def __init__(
        self, proposal: Proposal, heavy: bool, done: Callable[[Settled], None], mark: Any
    ) -> None:
        self.proposal = proposal
        self.heavy = heavy
        self.done = done
        self.mark = mark
        self.driven: _Driven | None = None


class _Driven:
    """A lane and its publisher; the lock is for proposals that join from a thread."""

    __slots__ = ("lane", "lock", "name", "publisher", "scheduled")

    def __init__(self, name: LaneName, publisher: Publisher) -> None:
        self.name = name
        self.publisher = publisher
        self.lane: Lane[Waiter] = Lane()
        self.lock = Lock()
        self.scheduled = False

    @property
    def is_idle(self) -> bool:
        return not self.scheduled and self.lane.is_idle

    def join(self) -> Sequence[Proposal]:
        with self.lock:
            return [waiter.proposal for waiter in self.lane.take_more()]


_Taken = tuple[_Driven, Sequence[Waiter]]
_Answers = Sequence[Sequence[Settled] | LochanError | None] | LochanError


class Lanes:
    """Every lane of this server; used on the loop only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: Pool,
        *,
        inline: bool,
        published: Callable[[int], None],
        within: Within | None = None,
        lanes_max: int = LANES_MAX,
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._inline = inline
        self._published = published
        self._within = within
        self._lanes_max = lanes_max
        self._lanes: OrderedDict[LaneName, _Driven] = OrderedDict()
        self._ready: list[_Driven] = []
        self._writing = 0
        self.inside = 0
        """How many wait or are being published, over all lanes."""

    def __len__(self) -> int:
        return len(self._lanes)

    def offer(self, name: LaneName, open_publisher: OpenPublisher, waiter: Waiter) -> None:
        """Puts one at the end of the lane; Exhausted if its queue is full."""
        driven = self._lanes.get(name)
        if driven is None:
            self._forget_idle()
            driven = self._lanes[name] = _Driven(name, open_publisher(name[1]))
        with driven.lock:
            driven.lane.offer(waiter)
        self.inside += 1
        waiter.driven = driven
        self._schedule(driven)

    def cancel(self, waiter: Waiter) -> bool:
        """Takes one back who still waits; False once it is being published."""
        driven = waiter.driven
        if driven is None:
            return False
        with driven.lock:
            taken_back = driven.lane.cancel(waiter)
        self.inside -= taken_back
        return taken_back

    def _schedule(self, driven: _Driven) -> None:
        if not driven.scheduled and driven.lane.may_take:
            driven.scheduled = True
            self._ready.append(driven)
            if len(self._ready) == 1:
                self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Takes all lanes that are ready, unless enough is being written already."""
        if not self._ready or self._writing == WRITES_TOGETHER_MAX:
            return
        taken: list[_Taken] = []
        for driven in self._ready:
            driven.scheduled = False
            with driven.lock:
                batch = driven.lane.take()
            if batch:
                taken.append((driven, batch))
        self._ready = []
        together: list[_Taken] = []
        for driven, batch in taken:
            if len(taken) > 1 and not any(one.heavy or one.mark is not None for one in batch):
                together.append((driven, batch))
            else:
                self._publish_alone(driven, batch)
        if together:
            self._publish_together(together)

    def _publish_together(self, together: Sequence[_Taken]) -> None:
        jobs = [
            Job(driven.publisher, [waiter.proposal for waiter in batch])
            for driven, batch in together
        ]
        work = partial(publish_many, jobs)
        if self._inline:
            self._written(together, attempt(work))
        else:
            self._writing += 1
            self._pool.submit(work, partial(self._written_in_thread, together), must=True)

    def _written_in_thread(self, together: Sequence[_Taken], answers: _Answers) -> None:
        self._writing -= 1
        self._written(together, answers)
        self._turn()

    def _written(self, together: Sequence[_Taken], answers: _Answers) -> None:
        if isinstance(answers, LochanError):
            answers = [answers] * len(together)
        for (driven, batch), answer in zip(together, answers, strict=True):
            if answer is None:
                self._publish_alone(driven, batch)
            else:
                self._settle(driven, answer)

    def _publish_alone(self, driven: _Driven, batch: Sequence[Waiter]) -> None:
        publish = partial(self._publish, driven, batch)
        if self._inline and not any(waiter.heavy for waiter in batch):
            self._settle(driven, attempt(publish))
        else:
            # Others depend on it: what was taken must be published, however full the pool is.
            self._pool.submit(publish, partial(self._settle, driven), must=True)

    def _publish(self, driven: _Driven, batch: Sequence[Waiter]) -> Sequence[Settled]:
        proposals = [waiter.proposal for waiter in batch]
        publish = partial(driven.publisher.publish, proposals, driven.join)
        if self._within is not None:
            mark = next((waiter.mark for waiter in batch if waiter.mark is not None), None)
            return self._within(mark, publish)
        return publish()

    def _settle(self, driven: _Driven, answers: Sequence[Settled] | LochanError) -> None:
        with driven.lock:
            batch = driven.lane.settle()
        self.inside -= len(batch)
        self._published(len(batch))
        if isinstance(answers, LochanError):
            answers = [answers] * len(batch)
        self._lanes.move_to_end(driven.name)
        self._schedule(driven)
        for waiter, answer in zip(batch, answers, strict=True):
            attempt(waiter.done, answer)

    def _forget_idle(self) -> None:
        """Drops the lane that was not used for longest, if nobody is in it."""
        while len(self._lanes) >= self._lanes_max:
            oldest = next((each for each in self._lanes.values() if each.is_idle), None)
            if oldest is None:
                return
            del self._lanes[oldest.name]
