"""Publishing the chains of several branches by one call of the store.

Where a call is a round trip and a synchronised log, branches that are written at the same time
share both. Each is won or lost by itself. A branch that does not win is published on its own, by
the protocol of `publish.py`: the result of one branch never depends on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from lochan.base.errors import Exhausted, LochanError, Unavailable, Unknown
from lochan.base.limits.commits import CHAIN_BYTES_MAX
from lochan.kernel.publish import Begun, Proposal, Publisher, Settled
from lochan.kernel.settled import observed
from lochan.kv.store import Outcome


class BranchBatch(msgspec.Struct, frozen=True):
    """The proposals that wait for one branch, and the publisher of the branch."""

    publisher: Publisher
    proposals: Sequence[Proposal]


Answer = list[Settled] | LochanError


def publish_many(batches: Sequence[BranchBatch]) -> list[Answer | None]:
    """Publishes what can be published together; None for a batch that must be published alone.

    Batches may be of several repositories, but of one store.
    """
    with ExitStack() as stack:
        for batch in batches:
            if batch.publisher.context.observer is not None:
                stack.enter_context(observed(batch.publisher.context, [batch.publisher.name]))
        return _publish_many(batches)


def _publish_many(batches: Sequence[BranchBatch]) -> list[Answer | None]:
    answers: list[Answer | None] = [None] * len(batches)
    begun: list[tuple[int, Begun]] = []
    for at, batch in enumerate(batches):
        try:
            planned = batch.publisher.begin(batch.proposals)
        except LochanError:
            # Published alone, it fails in the same way and reports it.
            continue
        if planned is not None:
            begun.append((at, planned))
    for group in _groups(begun):
        try:
            outcomes = _written(batches, group)
        except (Exhausted, Unavailable):
            continue
        for (at, planned), outcome in zip(group, outcomes, strict=True):
            try:
                answers[at] = batches[at].publisher.end(planned, outcome)
            except LochanError as error:
                answers[at] = error
    return answers


def _written(
    batches: Sequence[BranchBatch], group: Sequence[tuple[int, Begun]]
) -> Sequence[Outcome | None]:
    """Returns the outcome of each write, None where it is unknown."""
    changes = [
        (batches[at].publisher.context.objects.adds(planned.objects), planned.condition)
        for at, planned in group
    ]
    try:
        return batches[group[0][0]].publisher.context.store.apply_each(changes)
    except Unknown:
        return [None] * len(group)


def _groups(begun: Sequence[tuple[int, Begun]]) -> list[list[tuple[int, Begun]]]:
    """Divides what was begun into writes of a size that one statement may have."""
    batches: list[list[tuple[int, Begun]]] = []
    bytes_left = 0
    for at, planned in begun:
        size = sum(len(raw) for _, raw in planned.objects)
        if not batches or size > bytes_left:
            batches.append([])
            bytes_left = CHAIN_BYTES_MAX
        batches[-1].append((at, planned))
        bytes_left -= size
    return batches
