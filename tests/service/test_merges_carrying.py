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
def desk() -> Bench:
    return forked()


def transplant(desk: Bench, *hashes: str, kind: str = "transplant", **more: Any) -> Merged:
    ask = TransplantRequest(
        branch="main", expected=None, source="side", hashes=tuple(map(parse_spec, hashes))
    )
    method = desk.merges.transplant if kind == "transplant" else desk.merges.cherry_pick
    return desk.run(method(ME, changed_request(ask, **more)))


def hashes(desk: Bench, spec: str = "side") -> list[str]:
    """Those of the two commits of side, oldest first."""
    return [entry.meta.hash or "" for entry in desk.history.log(ME, parse_spec(spec), 2).items][
        ::-1
    ]


def test_a_transplant_makes_commits_again_one_by_one(desk):
    desk.change("ns.b", "main")
    line = hashes(desk)
    done = transplant(desk, *line)
    assert done.applied
    assert len(done.commits) == 2
    assert desk.messages()[:2] == ["side 2", "side 1"]
    assert desk.state() == {**desk.state("side"), "ns.b": "main"}
    assert len(desk.log()[0].meta.parents) == 1


def test_a_squashed_transplant_is_one_commit_that_lists_them(desk):
    line = hashes(desk)
    done = transplant(desk, *line, squash=True, meta=CommitMeta(message="both"))
    assert len(done.commits) == 1
    message = desk.messages()[0]
    assert message.startswith("both\n")
    assert all(one in message for one in line)
    assert desk.state() == desk.state("side")


def test_the_commits_of_a_transplant_follow_each_other(desk):
    desk.change("ns.b", "side", branch="side")
    first, second, third = (
        entry.meta.hash or ""
        for entry in list(desk.history.log(ME, parse_spec("side"), 3).items)[::-1]
    )
    for wrong in ((second, first), (first, third), (first, first)):
        with pytest.raises(Invalid, match="contiguous"):
            transplant(desk, *wrong)
    with pytest.raises(Invalid, match="No hashes"):
        transplant(desk)
    assert transplant(desk, second).applied
    assert transplant(desk, third).applied


def test_the_commits_of_a_transplant_are_those_of_its_source(desk):
    desk.branch("other")
    with pytest.raises(ReferenceNotFound, match="in reference 'other'"):
        transplant(desk, *hashes(desk), source="other")


def test_a_cherry_pick_takes_any_commits_in_any_order(desk):
    desk.change("ns.b", "side", branch="side", message="side 3")
    entries = list(desk.history.log(ME, parse_spec("side"), 3).items)
    done = transplant(desk, entries[0].meta.hash, entries[2].meta.hash, kind="cherry-pick")
    assert len(done.commits) == 2
    assert desk.messages()[:2] == ["side 1", "side 3"]
    assert desk.state() == {"ns": "", "ns.a": "side", "ns.b": "side", "ns.c": "ns.c"}


def test_a_transplant_obeys_choices_and_tells_conflicts(desk):
    desk.change("ns.a", "main")
    line = hashes(desk)
    with pytest.raises(KeysConflict) as caught:
        transplant(desk, *line)
    assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]
    told = transplant(desk, *line, conflicts_as_result=True)
    assert not told.successful
    transplant(desk, *line, keys={A: KeyResolution(behaviour="DROP")})
    assert desk.state() == {"ns": "", "ns.a": "main", "ns.b": "ns.b", "ns.d": "ns.d"}
    assert desk.messages()[0] == "side 2"


def test_a_single_commit_may_be_carried_under_another_message(desk):
    first, _ = hashes(desk)
    transplant(desk, first, meta=CommitMeta(message="other words"))
    assert desk.messages()[0] == "other words"


def revert(desk: Bench, *which: str, **more: Any) -> Merged:
    ask = RevertRequest(branch="main", expected=None, hashes=tuple(map(parse_spec, which)))
    return desk.run(desk.merges.revert(ME, changed_request(ask, **more)))


def test_a_revert_undoes_commits_newest_first(desk):
    before = desk.state()
    one = desk.change("ns.a", "wrong", message="wrong").hash
    two = desk.commit(new("ns.e"), Delete(key=key("ns.c")), message="wrong too").hash
    desk.change("ns.b", "right")
    done = revert(desk, two, one)
    assert len(done.commits) == 2
    assert desk.messages()[:2] == [f"Revert {one}: wrong", f"Revert {two}: wrong too"]
    assert desk.state() == {**before, "ns.b": "right"}


def test_a_revert_of_what_was_changed_since_is_a_conflict(desk):
    one = desk.change("ns.a", "wrong").hash
    desk.change("ns.a", "built upon")
    with pytest.raises(KeysConflict) as caught:
        revert(desk, one)
    assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]
    assert not revert(desk, one, conflicts_as_result=True).successful


def test_only_commits_of_the_branch_are_reverted(desk):
    with pytest.raises(ReferenceNotFound, match="in reference 'main'"):
        revert(desk, hashes(desk)[0])
    with pytest.raises(Invalid):
        revert(desk)


@pytest.mark.parametrize("squash", [True, False])
def test_the_empty_commit_is_neither_carried_nor_undone(desk, squash):
    with pytest.raises(Invalid, match="empty"):
        revert(desk, EMPTY)
    for kind in ("transplant", "cherry-pick"):
        with pytest.raises(Invalid, match="empty"):
            transplant(desk, EMPTY, kind=kind, squash=squash)


def test_a_revert_of_a_merge_takes_away_what_it_brought(desk):
    before = desk.state()
    merged = desk.merge("side").hash
    revert(desk, merged or "", meta=CommitMeta(message="not yet"))
    assert desk.state() == before
    assert desk.messages()[0] == "not yet"
