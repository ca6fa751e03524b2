"""What a publisher remembers of the latest commits never changes an answer."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.ids import ObjId
from lochan.kernel import recent as recent_room
from lochan.kernel.build import Builder, Head
from lochan.kernel.history import is_ancestor
from lochan.kernel.plan import CommitPlan
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Publisher
from lochan.kernel.recent import Recent
from lochan.kernel.views import CommitView
from tests.kernel.workbench import MAIN, Bench, Wants, element, plan, put, table

KEYS = [table(n) for n in range(40)]


class Asking:
    """A proposal that compares every answer with that of a builder who remembers nothing."""

    incarnation = None

    def __init__(self, bench: Bench, seen: list[CommitView], number: int, pick: Random) -> None:
        self._bench = bench
        self._seen = seen
        self._number = number
        self._keys = pick.sample(KEYS, 3)

    def plan(self, head: Head) -> list[CommitPlan]:
        context = self._bench.context
        plain = Builder(
            context.views, context.nodes, context.rule, context.clock, head.builder.base
        )
        for other in self._seen:
            assert head.stands_on(other) == is_ancestor(context.views, other, head.builder.base)
            at_other, at_head = head.find_both(other, KEYS)
            assert at_other == plain.find(other, KEYS)
            assert at_head == head.find(KEYS)
        assert head.find_steady(KEYS) == plain.find(head.view, KEYS)
        return [plan([put(key, element(self._number)) for key in self._keys])]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_one_who_remembers_nothing(seed, monkeypatch):
    monkeypatch.setattr(recent_room, "RECENT_COMMITS_MAX", 7)
    monkeypatch.setattr(recent_room, "RECENT_KEYS_MAX", 30)
    pick = Random(seed)
    bench = Bench()
    rival = bench.again()
    seen: list[CommitView] = []
    for number in range(120):
        turn = pick.random()
        if turn < 0.15:
            # Another server commits, or moves the branch back.
            keys = pick.sample(KEYS, 2)
            rival.publisher = Publisher(rival.context, MAIN)
            seen.append(
                rival.commit(Wants(plan([put(key, element(1_000 + number)) for key in keys])))[
                    0
                ].head
            )
        elif turn < 0.2 and len(seen) > 3:
            row = bench.row()
            bench.names.assign(MAIN, ObjId(row.pointer), pick.choice(seen).obj_id, UNNAMED)
        proposals = [
            Asking(bench, seen[-25:], number * 10 + at, pick) for at in range(pick.randrange(1, 4))
        ]
        for settled in bench.commit(*proposals):  # type: ignore[arg-type]
            seen.append(settled.head)


def test_a_commit_that_does_not_follow_makes_it_forget():
    bench = Bench()
    first, second, third = (
        bench.commit(Wants(plan([put(table(n), element(n))])))[0].head for n in range(3)
    )
    recent = Recent(first)
    recent.add(second)
    assert recent.knows(first.obj_id)
    assert recent.last_touched(table(1)) == second.sequence
    other = Recent(first)
    other.add(third)
    assert not other.knows(first.obj_id)
    assert other.knows(third.obj_id)
    assert other.last_touched(table(1)) == 0


def test_what_it_remembers_is_bounded(monkeypatch):
    monkeypatch.setattr(recent_room, "RECENT_COMMITS_MAX", 5)
    bench = Bench()
    views = [bench.commit(Wants(plan([put(table(n), element(n))])))[0].head for n in range(40)]
    recent = Recent(views[0])
    for view in views[1:]:
        recent.add(view)
    known = [view for view in views if recent.knows(view.obj_id)]
    assert 5 <= len(known) <= 10
    assert known == views[-len(known) :]
