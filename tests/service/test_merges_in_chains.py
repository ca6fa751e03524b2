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
def bench() -> Bench:
    """Main and side share two tables; both are at "base"."""
    one = Bench()
    one.fill("ns.a", "ns.b")
    one.change("ns.a", "base")
    one.change("ns.b", "base")
    one.branch("side")
    return one


def merge(bench: Bench, source: str, **more: Any) -> PendingWrite[Merged]:
    return bench.merges.merge(
        ME, MergeRequest(branch="main", expected=None, source=parse_spec(source), **more)
    )


def together(bench: Bench, *asked: PendingWrite[Any]) -> list[Merged]:
    """Answers of one chain in which nobody is refused."""
    answers = bench.run_together(*asked)
    for answer in answers:
        assert isinstance(answer, Merged), answer
    return [answer for answer in answers if isinstance(answer, Merged)]


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_behind_a_merge_of_the_same_source_brings_what_came_between(bench, squash):
    """From base to side and back to base: seen from the published head, nothing has changed."""
    bench.change("ns.a", "side", branch="side")
    first = merge(bench, f"side@{bench.head('side')}", squash=squash)
    middle = bench.head("side")
    bench.change("ns.a", "base", branch="side")
    second = merge(bench, f"side@{bench.head('side')}", squash=squash)
    answers = together(bench, first, second)
    assert answers[1].applied
    assert answers[1].common_ancestor == middle
    assert bench.state()["ns.a"] == "base"


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_behind_a_merge_meets_no_conflict_with_what_that_one_brought(bench, squash):
    bench.change("ns.a", "side 1", branch="side")
    first = merge(bench, f"side@{bench.head('side')}", squash=squash)
    bench.change("ns.a", "side 2", branch="side")
    second = merge(bench, f"side@{bench.head('side')}", squash=squash)
    together(bench, first, second)
    assert bench.state()["ns.a"] == "side 2"


def test_a_forced_merge_behind_a_merge_leaves_a_newer_value_of_the_target_alone(bench):
    """The source did not change the key since the first merge, so there is nothing to force."""
    bench.change("ns.a", "side", branch="side")
    first = merge(bench, f"side@{bench.head('side')}")
    content, _ = bench.contents.get(ME, parse_spec("side"), ("ns", "a"))
    put = bench.changed("ns.a", "newer", "side")
    between = bench.commits.commit(
        ME,
        "main",
        None,
        CommitMeta(message="newer"),
        [Put(key=put.key, content=put.content, expected=content)],
    )
    bench.change("ns.b", "side", branch="side")
    second = merge(bench, f"side@{bench.head('side')}", default="FORCE")
    bench.run_together(first, between, second)
    assert bench.state()["ns.a"] == "newer"
    assert bench.state()["ns.b"] == "side"


def test_a_merge_through_another_branch_is_seen_in_the_same_chain(bench):
    """The first source has merged the second one, so the second brings only what is newer."""
    bench.branch("third")
    bench.change("ns.a", "side", branch="side")
    bench.merge("side", "third")
    base = bench.head("side")
    first = merge(bench, "third")
    bench.change("ns.a", "base", branch="side")
    answers = together(bench, first, merge(bench, "side"))
    assert answers[1].common_ancestor == base
    assert bench.state()["ns.a"] == "base"


def test_a_replay_behind_a_merge_of_a_merge_does_not_bring_the_targets_own_changes_back(bench):
    """What the source's merge took from the target is the target's own, in the chain as well."""
    bench.branch("third")
    bench.change("ns.b", "third", branch="third")
    bench.merge("third", "side")
    bench.change("ns.a", "side", branch="side")
    first = merge(bench, "third")
    put = bench.changed("ns.b", "newer", "third")
    seen, _ = bench.contents.get(ME, parse_spec("third"), ("ns", "b"))
    between = bench.commits.commit(
        ME,
        "main",
        None,
        CommitMeta(message="newer"),
        [Put(key=put.key, content=put.content, expected=seen)],
    )
    answers = bench.run_together(first, between, merge(bench, "side", squash=False))
    assert isinstance(answers[2], Merged), answers[2]
    assert bench.state()["ns.b"] == "newer"
    assert bench.state()["ns.a"] == "side"


def test_a_revert_is_refused_only_if_its_own_head_lacks_the_commit(bench):
    done = bench.change("ns.a", "wrong")
    ask = RevertRequest(branch="main", expected=None, hashes=(parse_spec(done.hash),))
    other = bench.commits.commit(ME, "main", None, CommitMeta(message="other"), [new("ns.z")])
    bench.run_together(other, bench.merges.revert(ME, ask))
    assert bench.state()["ns.a"] == "base"
    prepared = bench.merges.revert(
        ME, RevertRequest(branch="side", expected=None, hashes=(parse_spec(done.hash),))
    )
    (refusal,) = bench.run_together(prepared)
    assert "Could not find commit" in str(refusal)


def test_a_conflict_is_reported_against_the_head_of_the_chain(bench):
    bench.change("ns.a", "side", branch="side")
    put = bench.changed("ns.a", "main")
    first = bench.commits.commit(
        ME, "main", parse_spec(bench.head()), CommitMeta(message="first"), [put]
    )
    answers = bench.run_together(first, merge(bench, "side", conflicts_as_result=False))
    assert conflicts(answers[1]) == [("VALUE_DIFFERS", "ns.a")]
