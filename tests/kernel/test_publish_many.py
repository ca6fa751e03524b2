"""Branches written together: each is published, refused or sent away as it would be alone."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import KeysConflict, LochanError
from lochan.base.ids import EMPTY_ID
from lochan.base.names import RefName
from lochan.codec.objects import object_id
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.publish_many import BranchBatch, publish_many
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import Fault, FaultKind, FaultyStore
from tests.kernel.workbench import (
    Bench,
    OnCalls,
    Wants,
    branch,
    counted,
    element,
    operations,
    plan,
    published,
    put,
    table,
    wants,
)

NAMES = [RefName(f"b{number}") for number in range(5)]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.names.create_many([branch(name, EMPTY_ID) for name in NAMES], UNNAMED)
    return made


def warm(bench: Bench) -> list[Publisher]:
    publishers = [Publisher(bench.context, name) for name in NAMES]
    for number, publisher in enumerate(publishers):
        publisher.publish([wants(100 + number)])
    return publishers


def logs(bench: Bench) -> list[list[str]]:
    return [operations(bench.log(name))[1:] for name in NAMES]


def test_five_branches_are_one_call():
    plain = Bench()
    store, counts = counted(plain.store)
    bench = plain.again(store)
    bench.names.create_many([branch(name, EMPTY_ID) for name in NAMES], UNNAMED)
    publishers = warm(bench)
    counts.reset()
    answers = publish_many([BranchBatch(one, [wants(1), wants(2)]) for one in publishers])
    assert counts.calls == {"apply_each": 1}
    for name, answer in zip(NAMES, answers, strict=True):
        assert isinstance(answer, list)
        assert published(answer[-1]).head == bench.head(name)
    assert logs(bench) == [["put 1", "put 2"]] * 5
    assert isinstance(counts, CallCounts)


def test_who_does_not_know_its_row_goes_alone(bench):
    publishers = [*warm(bench)[:4], Publisher(bench.context, NAMES[4])]
    answers = publish_many([BranchBatch(one, [wants(1)]) for one in publishers])
    assert [answer is None for answer in answers] == [False] * 4 + [True]
    assert logs(bench) == [["put 1"]] * 4 + [[]]


def test_who_was_overtaken_is_sent_away_and_writes_nothing(bench):
    publishers = warm(bench)
    Publisher(bench.context, NAMES[2]).publish([wants(7)])
    answers = publish_many([BranchBatch(one, [wants(1)]) for one in publishers])
    assert [at for at, answer in enumerate(answers) if answer is None] == [2]
    assert logs(bench)[2] == ["put 7"]
    (settled,) = publishers[2].publish([wants(1)])
    assert isinstance(settled, Published)
    assert logs(bench)[2] == ["put 7", "put 1"]


def test_a_branch_with_more_objects_than_one_apply_takes_is_published_alone(bench):
    publishers = warm(bench)
    count = bench.store.capabilities.apply_items_max + 1
    values = [(object_id(raw), raw) for raw in (b"%d" % number for number in range(count))]
    many = Wants(plan([put(table(1), element(1))], "many values", objects=values))
    answers = publish_many(
        [BranchBatch(publishers[0], [many]), BranchBatch(publishers[1], [wants(1)])]
    )
    assert answers[0] is None
    assert isinstance(answers[1], list)
    assert logs(bench)[:2] == [[], ["put 1"]]


def test_a_refused_member_is_refused_beside_others(bench):
    publishers = warm(bench)
    refused = Wants(plan([put(table(100), element(5), None)], "refused"))
    answers = publish_many(
        [BranchBatch(publishers[0], [refused, wants(1)]), BranchBatch(publishers[1], [wants(1)])]
    )
    assert isinstance(answers[0], list)
    assert isinstance(answers[0][0], KeysConflict)
    assert logs(bench)[:2] == [["put 1"], ["put 1"]]
    assert publish_many([BranchBatch(publishers[0], [refused])]) == [None]


@pytest.mark.parametrize("kind", [FaultKind.LOST_REPLY, FaultKind.NOT_APPLIED])
@pytest.mark.parametrize("call", range(5))
def test_a_lost_reply_publishes_each_once(bench, kind, call):
    """Whatever was written before the fault, each branch has its commit once in the end."""
    seen: list[None] = []

    def choose(planned):
        if planned.operation != "apply":
            return None
        seen.append(None)
        return Fault(kind) if len(seen) == 6 + call else None

    faulty = bench.again(FaultyStore(bench.store, OnCalls(choose)))
    publishers = warm(faulty)
    assert len(seen) == 5
    batches = [BranchBatch(one, [wants(1)]) for one in publishers]
    for batch, answer in zip(batches, publish_many(batches), strict=True):
        if answer is None:
            answer = batch.publisher.publish(batch.proposals)
        assert not isinstance(answer, LochanError)
        published(answer[0])
    assert logs(bench) == [["put 1"]] * 5


def test_together_or_alone_makes_the_same_history(bench):
    pick = Random(3)
    publishers = warm(bench)
    expected: list[list[str]] = [[] for _ in NAMES]
    for number in range(60):
        chosen = pick.sample(range(5), pick.randrange(1, 6))
        if pick.random() < 0.2:
            rival = pick.choice(chosen)
            Publisher(bench.context, NAMES[rival]).publish([wants(1_000 + number)])
            expected[rival].append(f"put {1_000 + number}")
        batches = [BranchBatch(publishers[at], [wants(number)]) for at in chosen]
        for batch, answer in zip(batches, publish_many(batches), strict=True):
            if answer is None:
                batch.publisher.publish(batch.proposals)
        for at in chosen:
            expected[at].append(f"put {number}")
    assert logs(bench) == expected
