"""Merges, as users see them: what they bring, what they refuse, what the caller may choose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lochan.base.errors import Conflict, Invalid, KeysConflict, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import Content, Namespace
from lochan.model.requests import KeyResolution, MergeRequest, MoveRequest, NewReference
from lochan.model.specs import parse_spec
from lochan.service.calls import Call
from tests.service.bench import (
    ME,
    Bench,
    conflicts,
    details,
    forked,
    key,
    moved,
    new,
    space,
    table,
    where,
)

EMPTY = EMPTY_ID.hex()
A = key("ns.a")


@pytest.fixture
def desk() -> Bench:
    return forked()


def content(desk: Bench, name: str, spec: str = "main") -> Content:
    return desk.contents.get(ME, parse_spec(spec), key(name))[0]


def refused(desk: Bench, source: str = "side", **more: Any) -> KeysConflict:
    before = desk.head()
    with pytest.raises(KeysConflict) as caught:
        desk.merge(source, **more)
    assert desk.head() == before
    return caught.value


def test_a_squashing_merge_is_one_commit_with_both_parents(desk):
    base = desk.head()
    done = desk.merge("side", expected=base, meta=CommitMeta(message="why"))
    assert (done.applied, done.successful) == (True, True)
    assert done.hash == desk.head()
    assert done.commits == (done.hash,)
    assert (done.effective_target, done.common_ancestor) == (base, base)
    assert done.expected == base
    assert [(".".join(one.key), one.behaviour, one.conflict) for one in done.keys] == [
        ("ns.a", "NORMAL", None),
        ("ns.c", "NORMAL", None),
        ("ns.d", "NORMAL", None),
    ]
    (entry,) = desk.history.log(ME, parse_spec("main"), 1).items
    assert entry.meta.parents == (base, desk.head("side"))
    assert (entry.meta.message, entry.meta.committer) == ("why", "me")
    assert desk.state() == desk.state("side")


def test_a_merge_says_what_it_did_where_nobody_else_does(desk):
    aside = desk.head("side")
    desk.merge("side")
    assert desk.messages()[0] == f"Merged side at {aside} into main"


def test_a_replaying_merge_makes_the_commits_again_in_their_order(desk):
    desk.change("ns.b", "main")
    done = desk.merge("side", squash=False)
    assert len(done.commits) == 2
    assert desk.messages()[:2] == ["side 2", "side 1"]
    assert desk.state() == {**desk.state("side"), "ns.b": "main"}
    (entry,) = desk.history.log(ME, parse_spec("main"), 1).items
    assert entry.meta.parents[1:] == (desk.head("side"),)


@pytest.mark.parametrize("squash", [True, False])
def test_what_was_merged_is_not_merged_again(desk, squash):
    desk.change("ns.b", "main")
    first = desk.merge("side", squash=squash)
    again = desk.merge("side", squash=squash)
    assert (again.applied, again.successful, again.hash) == (False, True, first.hash)
    desk.change("ns.a", "later", branch="side")
    third = desk.merge("side", squash=squash)
    assert [".".join(one.key) for one in third.keys] == ["ns.a"]
    assert desk.state()["ns.a"] == "later"


def test_a_merge_of_an_earlier_commit_brings_what_was_there_by_then(desk):
    desk.merge(f"side@{desk.log('side')[1].meta.hash}")
    assert desk.state() == {"ns": "", "ns.a": "side", "ns.b": "ns.b", "ns.c": "ns.c"}


def test_conflicts_carry_base_source_and_target(desk):
    desk.change("ns.a", "main")
    desk.change("ns.c", "main too")
    refusal = refused(desk)
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a"), ("VALUE_DIFFERS", "ns.c")]
    one, other = details(refusal)
    assert [where(side) for side in (one.base, one.source, one.target)] == ["ns.a", "side", "main"]
    assert [where(side) for side in (other.base, other.target)] == ["ns.c", "main too"]
    assert other.source is None
    desk.remove("ns.a")
    assert conflicts(refused(desk))[0] == ("KEY_DOES_NOT_EXIST", "ns.a")
    desk.commit(new("ns.d", "mine"))
    assert ("KEY_EXISTS", "ns.d") in conflicts(refused(desk))


@pytest.mark.parametrize("squash", [True, False])
def test_conflicts_may_be_told_as_a_result(desk, squash):
    desk.change("ns.a", "main")
    target = desk.head()
    done = desk.merge("side", conflicts_as_result=True, squash=squash)
    assert (done.applied, done.successful, done.hash) == (False, False, None)
    assert done.effective_target == target
    told = {".".join(one.key): one.conflict for one in done.keys}
    assert list(told) == ["ns.a", "ns.c", "ns.d"]
    assert told["ns.a"] is not None
    assert where(told["ns.a"].target) == "main"
    assert told["ns.d"] is None
    assert desk.head() == target


def test_both_sides_may_do_the_same(desk):
    desk.change("ns.a", "side")
    done = desk.merge("side")
    assert done.applied
    assert desk.state() == desk.state("side")


@pytest.mark.parametrize(
    ("behaviour", "a"),
    [("FORCE", "side"), ("DROP", "main"), ("TAKE_TARGET_ON_CONFLICT", "main")],
)
@pytest.mark.parametrize("squash", [True, False])
def test_what_becomes_of_a_key_is_the_callers_choice(desk, behaviour, a, squash):
    desk.change("ns.a", "main")
    done = desk.merge("side", keys={A: KeyResolution(behaviour=behaviour)}, squash=squash)
    assert desk.state() == {"ns": "", "ns.a": a, "ns.b": "ns.b", "ns.d": "ns.d"}
    assert {one.behaviour for one in done.keys if one.key == A} == {behaviour}


@pytest.mark.parametrize(
    ("behaviour", "state"),
    [
        ("FORCE", {"ns.a": "side", "ns.b": "ns.b", "ns.d": "ns.d"}),
        ("DROP", {"ns.a": "main", "ns.b": "ns.b", "ns.c": "ns.c"}),
        ("TAKE_TARGET_ON_CONFLICT", {"ns.a": "main", "ns.b": "ns.b", "ns.d": "ns.d"}),
    ],
)
def test_a_default_holds_for_all_keys_that_are_not_named(desk, behaviour, state):
    desk.change("ns.a", "main")
    desk.merge("side", default=behaviour)
    assert desk.state() == {"ns": "", **state}


def test_a_choice_for_a_key_goes_before_the_default(desk):
    desk.change("ns.a", "main")
    desk.merge("side", default="DROP", keys={A: KeyResolution(behaviour="FORCE")})
    assert desk.state() == {"ns": "", "ns.a": "side", "ns.b": "ns.b", "ns.c": "ns.c"}


def test_choices_that_make_no_sense_are_refused(desk):
    with pytest.raises(Invalid, match="behaviour"):
        desk.merge("side", default="SOMEHOW")
    with pytest.raises(Invalid, match="not changed"):
        desk.merge("side", keys={key("ns.b"): KeyResolution(behaviour="DROP")})
    resolved = KeyResolution(resolved=content(desk, "ns.a"))
    with pytest.raises(Invalid, match="expected target"):
        desk.merge("side", keys={A: resolved})
    forced = KeyResolution(
        behaviour="FORCE", resolved=content(desk, "ns.a"), expected_target=content(desk, "ns.a")
    )
    with pytest.raises(Invalid, match="NORMAL"):
        desk.merge("side", keys={A: forced})
    with pytest.raises(Invalid, match="content ID"):
        desk.merge("side", keys={A: KeyResolution(expected_target=table("without id"))})


def test_who_has_seen_the_target_may_overrule_it(desk):
    desk.change("ns.a", "main")
    seen = content(desk, "ns.a")
    desk.merge("side", keys={A: KeyResolution(expected_target=seen)})
    assert desk.state()["ns.a"] == "side"


def test_who_has_seen_an_old_target_is_refused(desk):
    desk.change("ns.a", "main")
    seen = content(desk, "ns.a")
    desk.change("ns.a", "main again")
    refusal = refused(desk, keys={A: KeyResolution(expected_target=seen)})
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a")]
    assert where(details(refusal)[0].target) == "main again"
    gone = refused(desk, keys={A: KeyResolution(expected_target=None)})
    assert [name for _, name in conflicts(gone)] == ["ns.a"]


@pytest.mark.parametrize("squash", [True, False])
def test_a_resolved_content_takes_the_place_of_both(desk, squash):
    desk.change("ns.a", "main")
    seen = content(desk, "ns.a")
    wish = KeyResolution(expected_target=seen, resolved=moved(seen, "both"))
    desk.merge("side", keys={A: wish}, squash=squash)
    assert desk.state()["ns.a"] == "both"
    assert content(desk, "ns.a").id == seen.id
    without_id = msgspec.structs.replace(seen, id=None, metadata_location="no id")
    desk.change("ns.a", "later", branch="side")
    desk.change("ns.a", "later too")
    now = content(desk, "ns.a")
    desk.merge(
        "side", keys={A: KeyResolution(expected_target=now, resolved=without_id)}, squash=squash
    )
    assert (content(desk, "ns.a").id, desk.state()["ns.a"]) == (seen.id, "no id")


def test_a_conflict_may_be_resolved_by_removing_the_key(desk):
    desk.change("ns.a", "main")
    wish = KeyResolution(expected_target=content(desk, "ns.a"), resolved=None)
    desk.merge("side", keys={A: wish})
    assert "ns.a" not in desk.state()


def test_a_table_that_both_made_may_be_resolved_though_the_target_has_none(desk):
    wish = KeyResolution(expected_target=None, resolved=table("resolved"))
    desk.merge("side", keys={key("ns.d"): wish})
    assert desk.state()["ns.d"] == "resolved"
    assert content(desk, "ns.d").id


@pytest.mark.parametrize("squash", [True, False])
def test_two_sides_that_made_the_same_namespace_agree(desk, squash):
    desk.commit(space("both", side="side"), new("both.s"), branch="side")
    desk.commit(space("both", side="main"), new("both.m"))
    kept = content(desk, "both")
    desk.merge("side", squash=squash)
    assert {"both", "both.s", "both.m"} <= set(desk.state())
    assert content(desk, "both") == kept


def test_a_namespace_against_a_table_of_the_same_name_is_a_conflict(desk):
    desk.commit(space("both"), branch="side")
    desk.commit(new("both"))
    assert conflicts(refused(desk)) == [("KEY_EXISTS", "both")]


def test_a_merge_never_leaves_a_table_without_its_namespace(desk):
    desk.commit(space("deep"))
    desk.merge("main", "side")
    desk.commit(new("deep.t"), branch="side")
    desk.remove("deep")
    refusal = refused(desk)
    assert conflicts(refusal) == [("NAMESPACE_ABSENT", "deep")]
    told = desk.merge("side", conflicts_as_result=True)
    assert [one.conflict.kind for one in told.keys if one.conflict] == ["NAMESPACE_ABSENT"]


def test_a_merge_never_takes_a_namespace_from_around_a_table(desk):
    desk.commit(space("deep"))
    desk.merge("main", "side")
    desk.remove("deep", branch="side")
    desk.commit(new("deep.t"))
    assert conflicts(refused(desk)) == [("NAMESPACE_NOT_EMPTY", "deep")]


def test_a_merge_never_makes_a_table_of_a_namespace_that_holds_something(desk):
    desk.commit(space("deep"))
    desk.merge("main", "side")
    desk.commit(
        Delete(key=("deep",)), Put(key=("deep",), content=table("no namespace")), branch="side"
    )
    desk.commit(new("deep.t"))
    assert conflicts(refused(desk)) == [("NAMESPACE_NOT_EMPTY", "deep")]


def test_no_commit_of_a_replay_leaves_a_table_without_its_namespace(desk):
    """Not even one that a later commit of the same replay makes good."""
    desk.commit(space("deep"))
    desk.merge("main", "side")
    desk.commit(new("deep.t"), branch="side")
    desk.remove("deep.t", branch="side")
    desk.commit(new("ns.e"), branch="side")
    desk.remove("deep")
    refusal = refused(desk, squash=False)
    assert conflicts(refusal) == [("NAMESPACE_ABSENT", "deep")]
    assert desk.merge("side").applied


def test_a_merge_that_comes_second_in_a_chain_has_nothing_left_to_do(desk):
    """Though what the first one brought was changed in between, by the same chain."""
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"))
    first = desk.merges.merge(ME, ask)
    meta = CommitMeta(message="between")
    seen = content(desk, "ns.a", "side")
    put = Put(key=A, content=moved(seen, "main"), expected=seen)
    between = desk.commits.commit(ME, "main", None, meta, [put])
    second = desk.merges.merge(ME, msgspec.structs.replace(ask, squash=False))
    settled = desk.publisher(first.branch).publish(
        [first.proposal, between.proposal, second.proposal]
    )
    assert first.finish(settled[0]).applied
    done = between.finish(settled[1])
    told = second.finish(settled[2])
    assert (told.applied, told.successful, told.hash) == (False, True, done.hash)
    assert desk.messages()[0] == "between"


def test_a_dropped_namespace_takes_no_tables(desk):
    desk.commit(space("deep"), new("deep.t"), branch="side")
    refusal = refused(desk, keys={("deep",): KeyResolution(behaviour="DROP")})
    assert conflicts(refusal) == [("NAMESPACE_ABSENT", "deep")]


def test_the_empty_hash_is_nothing_to_merge(desk):
    for source in (EMPTY, f"@{EMPTY}"):
        with pytest.raises(Invalid, match="empty"):
            desk.merge(source)
    with pytest.raises(Invalid, match="empty"):
        desk.merges.force(ME, MoveRequest(branch="main", source=parse_spec(EMPTY)))
    desk.branch("bare", None)
    with pytest.raises(Invalid, match="empty"):
        desk.merge("bare")


def test_an_empty_branch_takes_a_merge(desk):
    desk.branch("bare", None)
    done = desk.merge("side", "bare")
    assert done.common_ancestor in (None, EMPTY)
    assert desk.state("bare") == desk.state("side")


def test_a_hash_is_one_of_the_reference_that_it_is_named_with(desk):
    desk.branch("other", None)
    desk.commit(new("t"), branch="other")
    with pytest.raises(ReferenceNotFound, match="in reference 'side'"):
        desk.merge(f"side@{desk.head('other')}")
    with pytest.raises(ReferenceNotFound, match="in reference 'main'"):
        desk.merge("side", expected=desk.head("side"))
    with pytest.raises(ReferenceNotFound):
        desk.merge("side", "nowhere")


def test_an_expected_hash_of_a_merge_may_be_behind_the_head(desk):
    old = desk.head()
    desk.change("ns.b", "main")
    assert desk.merge("side", expected=old).applied


def test_a_merge_meets_a_commit_of_the_same_chain(desk):
    """What is in conflict with it is told with its content, which is not stored yet."""
    put = desk.changed("ns.a", "just now")
    first = desk.commits.commit(ME, "main", parse_spec(desk.head()), CommitMeta(message="m"), [put])
    second = desk.merges.merge(
        ME, MergeRequest(branch="main", expected=None, source=parse_spec("side"))
    )
    settled = desk.publisher(first.branch).publish([first.proposal, second.proposal])
    first.finish(settled[0])
    with pytest.raises(KeysConflict) as caught:
        second.finish(settled[1])
    assert where(details(caught.value)[0].target) == "just now"


def test_merges_say_who_made_them(desk):
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"))
    desk.run(desk.merges.merge(Call(principal="somebody"), ask))
    move = desk.references.log(ME, "main", 1).items[0]
    assert (move.kind, move.who, move.source) == ("merge", "somebody", "side")
    assert move.base == desk.log()[1].meta.hash


def test_a_tag_takes_no_merge_and_may_be_merged(desk):
    desk.run(
        desk.references.create(ME, NewReference(kind="TAG", name="v1", source=parse_spec("side")))
    )
    with pytest.raises((Invalid, Conflict)):
        desk.merge("main", "v1")
    assert desk.merge("v1").applied
    assert isinstance(content(desk, "ns"), Namespace)
