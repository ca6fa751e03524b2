"""Transplants, picks and reverts, as users see them."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.model.commits import CommitMeta, Delete
from lochan.model.requests import KeyResolution, RevertRequest, TransplantRequest
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from tests.service.bench import (
    ME,
    Bench,
    changed_request,
    conflicts,
    forked,
    key,
    new,
)

EMPTY = EMPTY_ID.hex()
A = key("ns.a")


@pytest.fixture
def bench() -> Bench:
    return forked()


def transplant(bench: Bench, *hashes: str, kind: str = "transplant", **more: Any) -> Merged:
    ask = TransplantRequest(
        branch="main", expected=None, source="side", hashes=tuple(map(parse_spec, hashes))
    )
    method = bench.merges.transplant if kind == "transplant" else bench.merges.cherry_pick
    return bench.run(method(ME, changed_request(ask, **more)))


def hashes(bench: Bench, spec: str = "side") -> list[str]:
    """Those of the two commits of side, oldest first."""
    return [entry.meta.hash or "" for entry in bench.history.log(ME, parse_spec(spec), 2).items][
        ::-1
    ]


def test_a_transplant_makes_commits_again_one_by_one(bench):
    bench.change("ns.b", "main")
    line = hashes(bench)
    done = transplant(bench, *line)
    assert done.applied
    assert len(done.commits) == 2
    assert bench.messages()[:2] == ["side 2", "side 1"]
    assert bench.state() == {**bench.state("side"), "ns.b": "main"}
    assert len(bench.log()[0].meta.parents) == 1


def test_a_squashed_transplant_is_one_commit_that_lists_them(bench):
    line = hashes(bench)
    done = transplant(bench, *line, squash=True, meta=CommitMeta(message="both"))
    assert len(done.commits) == 1
    message = bench.messages()[0]
    assert message.startswith("both\n")
    assert all(one in message for one in line)
    assert bench.state() == bench.state("side")


def test_the_commits_of_a_transplant_follow_each_other(bench):
    bench.change("ns.b", "side", branch="side")
    first, second, third = (
        entry.meta.hash or ""
        for entry in list(bench.history.log(ME, parse_spec("side"), 3).items)[::-1]
    )
    for wrong in ((second, first), (first, third), (first, first)):
        with pytest.raises(Invalid, match="contiguous"):
            transplant(bench, *wrong)
    with pytest.raises(Invalid, match="No hashes"):
        transplant(bench)
    assert transplant(bench, second).applied
    assert transplant(bench, third).applied


def test_the_commits_of_a_transplant_are_those_of_its_source(bench):
    bench.branch("other")
    with pytest.raises(ReferenceNotFound, match="in reference 'other'"):
        transplant(bench, *hashes(bench), source="other")


def test_a_cherry_pick_takes_any_commits_in_any_order(bench):
    bench.change("ns.b", "side", branch="side", message="side 3")
    entries = list(bench.history.log(ME, parse_spec("side"), 3).items)
    done = transplant(bench, entries[0].meta.hash, entries[2].meta.hash, kind="cherry-pick")
    assert len(done.commits) == 2
    assert bench.messages()[:2] == ["side 1", "side 3"]
    assert bench.state() == {"ns": "", "ns.a": "side", "ns.b": "side", "ns.c": "ns.c"}


def test_a_transplant_obeys_choices_and_tells_conflicts(bench):
    bench.change("ns.a", "main")
    line = hashes(bench)
    with pytest.raises(KeysConflict) as caught:
        transplant(bench, *line)
    assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]
    told = transplant(bench, *line, conflicts_as_result=True)
    assert not told.successful
    transplant(bench, *line, keys={A: KeyResolution(behaviour="DROP")})
    assert bench.state() == {"ns": "", "ns.a": "main", "ns.b": "ns.b", "ns.d": "ns.d"}
    assert bench.messages()[0] == "side 2"


def test_a_single_commit_may_be_carried_under_another_message(bench):
    first, _ = hashes(bench)
    transplant(bench, first, meta=CommitMeta(message="other words"))
    assert bench.messages()[0] == "other words"


def revert(bench: Bench, *which: str, **more: Any) -> Merged:
    ask = RevertRequest(branch="main", expected=None, hashes=tuple(map(parse_spec, which)))
    return bench.run(bench.merges.revert(ME, changed_request(ask, **more)))


def test_a_revert_undoes_commits_newest_first(bench):
    before = bench.state()
    one = bench.change("ns.a", "wrong", message="wrong").hash
    two = bench.commit(new("ns.e"), Delete(key=key("ns.c")), message="wrong too").hash
    bench.change("ns.b", "right")
    done = revert(bench, two, one)
    assert len(done.commits) == 2
    assert bench.messages()[:2] == [f"Revert {one}: wrong", f"Revert {two}: wrong too"]
    assert bench.state() == {**before, "ns.b": "right"}


def test_a_revert_of_what_was_changed_since_is_a_conflict(bench):
    one = bench.change("ns.a", "wrong").hash
    bench.change("ns.a", "built upon")
    with pytest.raises(KeysConflict) as caught:
        revert(bench, one)
    assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]
    assert not revert(bench, one, conflicts_as_result=True).successful


def test_only_commits_of_the_branch_are_reverted(bench):
    with pytest.raises(ReferenceNotFound, match="in reference 'main'"):
        revert(bench, hashes(bench)[0])
    with pytest.raises(Invalid):
        revert(bench)


@pytest.mark.parametrize("squash", [True, False])
def test_the_empty_commit_is_neither_carried_nor_undone(bench, squash):
    with pytest.raises(Invalid, match="empty"):
        revert(bench, EMPTY)
    for kind in ("transplant", "cherry-pick"):
        with pytest.raises(Invalid, match="empty"):
            transplant(bench, EMPTY, kind=kind, squash=squash)


def test_a_revert_of_a_merge_takes_away_what_it_brought(bench):
    before = bench.state()
    merged = bench.merge("side").hash
    revert(bench, merged or "", meta=CommitMeta(message="not yet"))
    assert bench.state() == before
    assert bench.messages()[0] == "not yet"
