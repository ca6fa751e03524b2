"""A chain on the head of another server reads each level of the tree once, whatever its length."""

from __future__ import annotations

from itertools import count

import pytest

from lochan.kernel.history import iterate_ancestors
from lochan.kernel.publish import Published
from lochan.testing.faults import FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import Bench, OnCalls, Wants, counted, element, plan, put, table


class Knows(Wants):
    """Puts one table, and names its key beforehand."""

    def __init__(self, number: int) -> None:
        super().__init__(plan([put(table(number), element(number))], f"put {number}"))
        self.keys = [table(number)]


def chain(kind: type, numbers: range) -> list:
    if kind is Knows:
        return [Knows(number) for number in numbers]
    return [Wants(plan([put(table(n), element(n))], f"put {n}")) for n in numbers]


@pytest.mark.parametrize("kind", [Knows, Wants])
def test_reads_of_a_chain_on_a_foreign_head(kind):
    bench = Bench()
    bench.commit(Wants(plan([put(table(n), element(n)) for n in range(0, 3_000, 3)], "fill")))
    bench.commit(Wants(plan([put(table(n), element(n, 2)) for n in range(0, 3_000, 9)], "again")))
    store, counts = counted(bench.store)
    rival = bench.again(store)
    counts.reset()
    settled = rival.publisher.publish(chain(kind, range(1, 3_000, 96)))
    assert all(isinstance(answer, Published) for answer in settled)
    reads = counts.calls["get_many"]
    if kind is Knows:
        # The head, its root, the leaves; and what a spill looks at beyond them.
        assert reads <= 6
    else:
        assert reads > 15
    # On one's own head nothing is read at all but what a spill needs.
    counts.reset()
    rival.publisher.publish(chain(kind, range(2, 3_000, 96)))
    assert counts.calls["get_many"] <= 2


def test_a_chain_whose_reply_was_lost_is_remembered_like_any_other():
    bench = Bench()
    store, counts = counted(bench.store)
    calls = count()

    def choose(call: PlannedCall) -> FaultKind | None:
        """Every reply is lost; what is sent again is answered."""
        return FaultKind.LOST_REPLY if call.operation == "apply" and not next(calls) % 2 else None

    server = bench.again(FaultyStore(store, OnCalls(choose)))
    for first in range(0, 600, 60):
        server.publisher.publish(chain(Wants, range(first, first + 60)))
    assert len(bench.again().log()) == 600
    assert counts.calls["apply"] == 2 * 10
    # The head that the walk begins at; everything else is at hand.
    assert counts.calls["get_many"] == 10


def test_a_log_of_all_parents_is_fetched_in_batches():
    bench = Bench()
    for number in range(100):
        bench.commit(Wants(plan([put(table(number), element(number))], f"put {number}")))
    store, counts = counted(bench.store)
    rival = bench.again(store)
    head = rival.head()
    counts.reset()
    found = list(iterate_ancestors(rival.context.views, head.obj_id))
    assert [view.sequence for view in found] == list(range(100, 0, -1))
    assert head.body is not None
    assert counts.calls["get_many"] <= 100 // len(head.body.tail) + 1
