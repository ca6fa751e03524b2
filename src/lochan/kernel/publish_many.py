"""Publishing the chains of several branches by one call of the store.

Where a call is a round trip and a synchronised log, branches that are written at the same time
share both. Each is won or lost for itself, and whoever does not win here goes on alone, by the
protocol of `publish.py`: nothing is decided by the company.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.base.limits import CHAIN_BYTES_MAX
from lochan.kernel.publish import Begun, Proposal, Publisher, Settled
from lochan.kv.store import Outcome


class Job(msgspec.Struct, frozen=True):
    """Those who wait for one branch, and its publisher."""

    publisher: Publisher
    proposals: Sequence[Proposal]


Answer = list[Settled] | LochanError


def publish_many(jobs: Sequence[Job]) -> list[Answer | None]:
    """Publishes what can be published together; None for a job that must go alone.

    Jobs may be of several repositories, but of one store.
    """
    answers: list[Answer | None] = [None] * len(jobs)
    begun: list[tuple[int, Begun]] = []
    for at, job in enumerate(jobs):
        try:
            planned = job.publisher.begin(job.proposals)
        except LochanError:
            # Alone it will meet the same, and answer for it.
            continue
        if planned is not None:
            begun.append((at, planned))
    for batch in _batches(begun):
        try:
            outcomes = _written(jobs, batch)
        except Unavailable:
            continue
        for (at, planned), outcome in zip(batch, outcomes, strict=True):
            try:
                answers[at] = jobs[at].publisher.end(planned, outcome)
            except LochanError as error:
                answers[at] = error
    return answers


def _written(jobs: Sequence[Job], batch: Sequence[tuple[int, Begun]]) -> Sequence[Outcome | None]:
    """Returns the outcome of each write, None where it is unknown."""
    changes = [
        (jobs[at].publisher.context.objects.adds(planned.objects), planned.condition)
        for at, planned in batch
    ]
    try:
        return jobs[batch[0][0]].publisher.context.store.apply_each(changes)
    except Unknown:
        return [None] * len(batch)


def _batches(begun: Sequence[tuple[int, Begun]]) -> list[list[tuple[int, Begun]]]:
    """Divides what was begun into writes of a size that one statement may have."""
    batches: list[list[tuple[int, Begun]]] = []
    room = 0
    for at, planned in begun:
        size = sum(len(raw) for _, raw in planned.objects)
        if not batches or size > room:
            batches.append([])
            room = CHAIN_BYTES_MAX
        batches[-1].append((at, planned))
        room -= size
    return batches
