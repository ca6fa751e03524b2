"""Reads on a store where each is a round trip: those that wait together share one.

What a brief read needs of the store is mostly the row of its reference. Requests that come while
others are being served are served together: one thread reads all their rows by one call, and then
runs their handlers one after the other. Every row is read after its request came, so an answer is
as fresh as if the request had been served alone. Owners of reads take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from lochan.base.errors import Exhausted, LochanError
from lochan.base.limits.server import POOL_QUEUE_MAX, READS_TOGETHER_MAX, READS_UNDER_WAY_MAX
from lochan.service.pending_writes import PendingWrite
from lochan.transport.error_boundary import attempt
from lochan.transport.exchange import LongWork, Response
from lochan.transport.fair_queue import FairQueue
from lochan.transport.pool import Pool

if TYPE_CHECKING:
    from lochan.service.repository import Repository

Outcome = Response | PendingWrite[Response] | LongWork | LochanError


class BatchedRead(msgspec.Struct, frozen=True):
    """One read: its reference, its handler, and the call that takes the outcome."""

    repository: Repository
    reference: str
    handle: Callable[[], Outcome]
    done: Callable[[Outcome], None]
    owner: str = ""


class ReadBatches:
    """The reads of this server; used on the loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool) -> None:
        self._loop = loop
        self._pool = pool
        self._waiting: FairQueue[BatchedRead] = FairQueue()
        self._under_way = 0
        self._scheduled = False

    def add(self, reading: BatchedRead) -> None:
        """Takes a read; Exhausted if too many wait, and some of its owner."""
        if len(self._waiting) >= POOL_QUEUE_MAX and self._waiting.has(reading.owner):
            text = f"{len(self._waiting)} reads wait already; try again later"
            raise Exhausted(text, public=text)
        self._waiting.add(reading.owner, reading)
        if self._under_way:
            self._schedule()
        else:
            # The first read is served at once; it does not wait for others that may not come.
            self._turn()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled and self._under_way < READS_UNDER_WAY_MAX:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if not self._waiting:
            return
        count = min(len(self._waiting), READS_TOGETHER_MAX)
        batch = [self._waiting.pop() for _ in range(count)]
        self._under_way += 1
        self._pool.submit(partial(read_together, batch), partial(self._read, batch), must=True)
        self._schedule()

    def _read(
        self, batch: Sequence[BatchedRead], outcomes: Sequence[Outcome] | LochanError
    ) -> None:
        self._under_way -= 1
        self._schedule()
        if isinstance(outcomes, LochanError):
            outcomes = [outcomes] * len(batch)
        for reading, outcome in zip(batch, outcomes, strict=True):
            attempt(reading.done, outcome)


def read_together(batch: Sequence[BatchedRead]) -> list[Outcome]:
    """Serves reads, those of one repository with one look at their rows."""
    outcomes: dict[int, Outcome] = {}
    groups: dict[int, list[int]] = {}
    for at, reading in enumerate(batch):
        groups.setdefault(id(reading.repository), []).append(at)
    for places in groups.values():
        repository = batch[places[0]].repository
        if len(places) == 1:
            outcomes[places[0]] = attempt(batch[places[0]].handle)
            continue
        with repository.reading([batch[at].reference for at in places]):
            for at in places:
                outcomes[at] = attempt(batch[at].handle)
    return [outcomes[at] for at in range(len(batch))]
