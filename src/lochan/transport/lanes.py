"""The lanes of all branches, driven by the event loop.

All writes that are offered to a free lane during one turn of the loop are published on the next
turn: one chain, one compare-and-swap, one write. On a store that answers at once this happens on
the loop, unless a proposal is heavy; else in a thread, one batch at a time for each branch, while
further writes wait in the lane for the next batch. Branches that are ready at the same time are
written together, those of callers with many requests beside other callers by themselves, so that
the others do not wait for them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

from lochan.base.errors import LochanError
from lochan.base.limits.server import LANES_MAX, WRITES_TOGETHER_MAX
from lochan.base.names import RefName
from lochan.kernel.lane import Lane
from lochan.kernel.publish import Proposal, Publisher, Settled
from lochan.kernel.publish_many import BranchBatch, publish_many
from lochan.transport.error_boundary import attempt
from lochan.transport.pool import Pool

OpenPublisher = Callable[[RefName], Publisher]

LaneName = tuple[str, RefName]
"""Repository and branch."""

RunInTrace = Callable[[Any, Callable[[], Sequence[Settled]]], Sequence[Settled]]
"""Runs a call as a part of a trace."""


class QueuedWrite:
    """A write that waits in a lane; `done` is called with its outcome."""

    __slots__ = ("branch_lane", "crowded", "done", "heavy", "owner", "proposal", "trace")

    def __init__(
        self,
        proposal: Proposal,
        heavy: bool,
        done: Callable[[Settled], None],
        trace: Any,
        owner: str = "",
        *,
        crowded: bool = False,
    ) -> None:
        self.proposal = proposal
        self.crowded = crowded
        self.owner = owner
        self.heavy = heavy
        self.done = done
        self.trace = trace
        self.branch_lane: _BranchLane | None = None


class _BranchLane:
    """A lane and its publisher; the lock is for proposals that join from a thread."""

    __slots__ = ("lane", "lock", "name", "publisher", "scheduled")

    def __init__(self, name: LaneName, publisher: Publisher) -> None:
        self.name = name
        self.publisher = publisher
        self.lane: Lane[QueuedWrite] = Lane()
        self.lock = Lock()
        self.scheduled = False

    @property
    def is_idle(self) -> bool:
        return not self.scheduled and self.lane.is_idle

    def join(self) -> Sequence[Proposal]:
        with self.lock:
            return [queued.proposal for queued in self.lane.take_more()]


_Taken = tuple[_BranchLane, Sequence[QueuedWrite]]
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
        run_in_trace: RunInTrace | None = None,
        lanes_max: int = LANES_MAX,
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._inline = inline
        self._published = published
        self._run_in_trace = run_in_trace
        self._lanes_max = lanes_max
        self._lanes: OrderedDict[LaneName, _BranchLane] = OrderedDict()
        self._ready: list[_BranchLane] = []
        self._crowded: list[_BranchLane] = []
        self._writing = 0
        self.unsettled = 0
        """How many writes wait or are being published, over all lanes."""

    def __len__(self) -> int:
        return len(self._lanes)

    def offer(self, name: LaneName, open_publisher: OpenPublisher, queued: QueuedWrite) -> None:
        """Puts a write at the end of its lane; Exhausted if the queue is full."""
        branch_lane = self._lanes.get(name)
        if branch_lane is None:
            self._forget_idle()
            branch_lane = self._lanes[name] = _BranchLane(name, open_publisher(name[1]))
        with branch_lane.lock:
            branch_lane.lane.offer(queued)
        self.unsettled += 1
        queued.branch_lane = branch_lane
        self._schedule(branch_lane)

    def cancel(self, queued: QueuedWrite) -> bool:
        """Removes a write that still waits; returns whether it did."""
        branch_lane = queued.branch_lane
        if branch_lane is None:
            return False
        with branch_lane.lock:
            was_waiting = branch_lane.lane.cancel(queued)
        if was_waiting:
            self.unsettled -= 1
        return was_waiting

    def publish_ready(self) -> None:
        """Publishes what is ready now instead of on the next turn of the loop, but no crowd's."""
        if self._ready:
            self._turn()

    def _schedule(self, branch_lane: _BranchLane) -> None:
        if not branch_lane.scheduled and branch_lane.lane.may_take:
            branch_lane.scheduled = True
            first = branch_lane.lane.first_waiting
            if self._inline and first is not None and first.crowded:
                self._crowded.append(branch_lane)
                if len(self._crowded) == 1:
                    self._loop.call_soon(self._crowded_turn)
                return
            self._ready.append(branch_lane)
            if len(self._ready) == 1:
                self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Takes all lanes that are ready, unless enough is being written already."""
        if not self._ready or self._writing == WRITES_TOGETHER_MAX:
            return
        ready, self._ready = self._ready, []
        self._take(ready)

    def _crowded_turn(self) -> None:
        ready, self._crowded = self._crowded, []
        self._take(ready)

    def _take(self, ready: Sequence[_BranchLane]) -> None:
        taken: list[_Taken] = []
        for branch_lane in ready:
            branch_lane.scheduled = False
            with branch_lane.lock:
                batch = branch_lane.lane.take()
            if batch:
                taken.append((branch_lane, batch))
        together: list[_Taken] = []
        for branch_lane, batch in taken:
            if len(taken) > 1 and not any(each.heavy or each.trace is not None for each in batch):
                together.append((branch_lane, batch))
            else:
                self._publish_alone(branch_lane, batch)
        if together:
            self._publish_together(together)

    def _publish_together(self, together: Sequence[_Taken]) -> None:
        jobs = [
            BranchBatch(branch_lane.publisher, [queued.proposal for queued in batch])
            for branch_lane, batch in together
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
        for (branch_lane, batch), answer in zip(together, answers, strict=True):
            if answer is None:
                self._publish_alone(branch_lane, batch)
            else:
                self._settle(branch_lane, answer)

    def _publish_alone(self, branch_lane: _BranchLane, batch: Sequence[QueuedWrite]) -> None:
        publish = partial(self._publish, branch_lane, batch)
        if self._inline and not any(queued.heavy for queued in batch):
            self._settle(branch_lane, attempt(publish))
        else:
            # Clients wait for it: what was taken must be published, however full the pool is.
            settle = partial(self._settle, branch_lane)
            self._pool.submit(publish, settle, owner=batch[0].owner, must=True)

    def _publish(self, branch_lane: _BranchLane, batch: Sequence[QueuedWrite]) -> Sequence[Settled]:
        proposals = [queued.proposal for queued in batch]
        publish = partial(branch_lane.publisher.publish, proposals, branch_lane.join)
        if self._run_in_trace is not None:
            trace = next((queued.trace for queued in batch if queued.trace is not None), None)
            return self._run_in_trace(trace, publish)
        return publish()

    def _settle(self, branch_lane: _BranchLane, answers: Sequence[Settled] | LochanError) -> None:
        with branch_lane.lock:
            batch = branch_lane.lane.settle()
        self.unsettled -= len(batch)
        self._published(len(batch))
        if isinstance(answers, LochanError):
            answers = [answers] * len(batch)
        self._lanes.move_to_end(branch_lane.name)
        self._schedule(branch_lane)
        for queued, answer in zip(batch, answers, strict=True):
            attempt(queued.done, answer)

    def _forget_idle(self) -> None:
        """Drops the lane that was idle for longest, while there are too many."""
        while len(self._lanes) >= self._lanes_max:
            oldest = next((each for each in self._lanes.values() if each.is_idle), None)
            if oldest is None:
                return
            del self._lanes[oldest.name]
