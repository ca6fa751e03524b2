"""Merges that are planned behind other writes of one chain, and what they read about history."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.model.commits import CommitMeta, Put
from lochan.model.requests import MergeRequest, RevertRequest
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from lochan.service.pending_writes import PendingWrite
from tests.service.bench import ME, Bench, conflicts, new


@pytest.fixture
def desk() -> Bench:
    """Main and side share two tables; both are at "base"."""
    one = Bench()
    one.fill("ns.a", "ns.b")
    one.change("ns.a", "base")
    one.change("ns.b", "base")
    one.branch("side")
    return one


def merge(desk: Bench, source: str, **more: Any) -> PendingWrite[Merged]:
    return desk.merges.merge(
        ME, MergeRequest(branch="main", expected=None, source=parse_spec(source), **more)
    )


def together(desk: Bench, *asked: PendingWrite[Any]) -> list[Merged]:
    """Answers of one chain in which nobody is refused."""
    answers = desk.run_together(*asked)
    for answer in answers:
        assert isinstance(answer, Merged), answer
    return [answer for answer in answers if isinstance(answer, Merged)]


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_behind_a_merge_of_the_same_source_brings_what_came_between(desk, squash):
    """From base to side and back to base: seen from the published head, nothing has changed."""
    desk.change("ns.a", "side", branch="side")
    first = merge(desk, f"side@{desk.head('side')}", squash=squash)
    middle = desk.head("side")
    desk.change("ns.a", "base", branch="side")
    second = merge(desk, f"side@{desk.head('side')}", squash=squash)
    answers = together(desk, first, second)
    assert answers[1].applied
    assert answers[1].common_ancestor == middle
    assert desk.state()["ns.a"] == "base"


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_behind_a_merge_meets_no_conflict_with_what_that_one_brought(desk, squash):
    desk.change("ns.a", "side 1", branch="side")
    first = merge(desk, f"side@{desk.head('side')}", squash=squash)
    desk.change("ns.a", "side 2", branch="side")
    second = merge(desk, f"side@{desk.head('side')}", squash=squash)
    together(desk, first, second)
    assert desk.state()["ns.a"] == "side 2"


def test_a_forced_merge_behind_a_merge_leaves_a_newer_value_of_the_target_alone(desk):
    """The source did not change the key since the first merge, so there is nothing to force."""
    desk.change("ns.a", "side", branch="side")
    first = merge(desk, f"side@{desk.head('side')}")
    content, _ = desk.contents.get(ME, parse_spec("side"), ("ns", "a"))
    put = desk.changed("ns.a", "newer", "side")
    between = desk.commits.commit(
        ME,
        "main",
        None,
        CommitMeta(message="newer"),
        [Put(key=put.key, content=put.content, expected=content)],
    )
    desk.change("ns.b", "side", branch="side")
    second = merge(desk, f"side@{desk.head('side')}", default="FORCE")
    desk.run_together(first, between, second)
    assert desk.state()["ns.a"] == "newer"
    assert desk.state()["ns.b"] == "side"


def test_a_merge_through_another_branch_is_seen_in_the_same_chain(desk):
    """The first source has merged the second one, so the second brings only what is newer."""
    desk.branch("third")
    desk.change("ns.a", "side", branch="side")
    desk.merge("side", "third")
    base = desk.head("side")
    first = merge(desk, "third")
    desk.change("ns.a", "base", branch="side")
    answers = together(desk, first, merge(desk, "side"))
    assert answers[1].common_ancestor == base
    assert desk.state()["ns.a"] == "base"


def test_a_replay_behind_a_merge_of_a_merge_does_not_bring_the_targets_own_changes_back(desk):
    """What the source's merge took from the target is the target's own, in the chain as well."""
    desk.branch("third")
    desk.change("ns.b", "third", branch="third")
    desk.merge("third", "side")
    desk.change("ns.a", "side", branch="side")
    first = merge(desk, "third")
    put = desk.changed("ns.b", "newer", "third")
    seen, _ = desk.contents.get(ME, parse_spec("third"), ("ns", "b"))
    between = desk.commits.commit(
        ME,
        "main",
        None,
        CommitMeta(message="newer"),
        [Put(key=put.key, content=put.content, expected=seen)],
    )
    answers = desk.run_together(first, between, merge(desk, "side", squash=False))
    assert isinstance(answers[2], Merged), answers[2]
    assert desk.state()["ns.b"] == "newer"
    assert desk.state()["ns.a"] == "side"


def test_a_revert_is_refused_only_if_its_own_head_lacks_the_commit(desk):
    done = desk.change("ns.a", "wrong")
    ask = RevertRequest(branch="main", expected=None, hashes=(parse_spec(done.hash),))
    other = desk.commits.commit(ME, "main", None, CommitMeta(message="other"), [new("ns.z")])
    desk.run_together(other, desk.merges.revert(ME, ask))
    assert desk.state()["ns.a"] == "base"
    prepared = desk.merges.revert(
        ME, RevertRequest(branch="side", expected=None, hashes=(parse_spec(done.hash),))
    )
    (refusal,) = desk.run_together(prepared)
    assert "Could not find commit" in str(refusal)


def test_a_conflict_is_reported_against_the_head_of_the_chain(desk):
    desk.change("ns.a", "side", branch="side")
    put = desk.changed("ns.a", "main")
    first = desk.commits.commit(
        ME, "main", parse_spec(desk.head()), CommitMeta(message="first"), [put]
    )
    answers = desk.run_together(first, merge(desk, "side", conflicts_as_result=False))
    assert conflicts(answers[1]) == [("VALUE_DIFFERS", "ns.a")]
