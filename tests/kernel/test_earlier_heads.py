"""Members that were prepared on an earlier head: two lookups for one, and the proof of descent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from lochan.base.names import RefName
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Publisher
from lochan.kernel.views import EMPTY_VIEW, CommitView
from tests.kernel.workbench import (
    MAIN,
    Bench,
    Reacts,
    Wants,
    branch,
    element,
    file_element,
    path,
    plan,
    published,
    put,
    table,
    wants,
)

KEYS = [*(table(n) for n in range(300)), *(path(n) for n in range(300))]


def grown(commits: int) -> tuple[Bench, list[CommitView]]:
    """A history of puts and removes of both universes, over several spills."""
    bench, pick = Bench(), Random(7)
    views = [EMPTY_VIEW]
    there: set[bytes] = set()
    for number in range(commits):
        puts = []
        for key in pick.sample(KEYS, 12):
            gone = key in there and pick.random() < 0.4
            value = element(number) if key[:1] == b"t" else file_element(number)
            puts.append(put(key, None if gone else value))
            (there.discard if gone else there.add)(key)
        views.append(bench.commit(Wants(plan(puts)))[0].head)
    return bench, views


def ask(bench: Bench, question: Callable[[Head], None], *before: int) -> None:
    """Asks on the head of a chain that is not published yet."""

    def react(head: Head) -> list[CommitPlan]:
        question(head)
        return []

    settled = bench.publisher.preview([*(wants(n) for n in before), Reacts(react)])
    assert [published(one) for one in settled]


@pytest.mark.parametrize("before", [(), (1, 200)], ids=["published", "in a chain"])
def test_looking_in_two_commits_is_the_same_as_looking_in_each(before):
    bench, views = grown(120)
    roots = {view.tables.root for view in views} | {view.files.root for view in views}
    assert len(roots) > 5

    def question(head: Head) -> None:
        for other in (*views, head.view):
            for keys in ([], KEYS[3:4], KEYS[::-1], [table(1), path(1), table(1)]):
                at_other, at_head = head.find_both(other, keys)
                assert at_other == head.builder.find(other, keys)
                assert at_head == head.find(keys)

    ask(bench, question, *before)


def test_a_tree_that_two_commits_share_is_read_once():
    bench, views = grown(120)
    shared, nodes = views[-2], bench.context.nodes
    assert shared.tables.root == views[-1].tables.root is not None
    absent = [table(150) + b"x"]
    # One who has published all these commits knows more, see test_recent.py.
    bench.publisher = Publisher(bench.context, MAIN)

    def reads(look: Callable[[], object]) -> int:
        before = nodes.hits + nodes.misses
        look()
        return nodes.hits + nodes.misses - before

    def question(head: Head) -> None:
        once = reads(lambda: head.find(absent))
        assert reads(lambda: head.find_both(shared, absent)) == once > 0
        assert reads(lambda: head.find_both(EMPTY_VIEW, absent)) == once
        assert reads(lambda: head.find_both(views[60], absent)) == 2 * once

    ask(bench, question)


def test_a_head_stands_on_all_before_it_and_on_nothing_else():
    bench, views = grown(90)
    fork = RefName("fork")
    bench.names.create_many([branch("fork", views[40].obj_id)], UNNAMED)
    (strange,) = Publisher(bench.context, fork).publish([wants(500)])
    (sibling,) = bench.publisher.preview([wants(501)])
    heads: list[CommitView] = []

    def question(head: Head) -> None:
        assert all(head.stands_on(view) for view in (*views, *heads, head.view))
        assert not head.stands_on(published(strange).head)
        assert not head.stands_on(published(sibling).head)
        heads.append(head.view)

    def react(head: Head) -> list[CommitPlan]:
        question(head)
        return [plan([put(table(900 + len(heads)), element(1))])]

    settled = bench.publisher.publish([Reacts(react) for _ in range(45)])
    assert len({published(one).head.obj_id for one in settled}) == 45


def test_a_commit_that_was_built_for_a_refused_member_is_no_ancestor():
    bench, _ = grown(3)
    built: list[CommitView] = []

    def refused(head: Head) -> list[CommitPlan]:
        good = plan([put(table(700), element(1))])
        built.append(head.builder.build(head.view, good).view)
        return [good, plan([put(table(701), None)])]

    def question(head: Head) -> list[CommitPlan]:
        assert not head.stands_on(built[0])
        return []

    bench.publisher.publish([Reacts(refused), Reacts(question), wants(5), Reacts(question)])
    assert len(built) == 1
