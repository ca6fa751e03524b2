"""Merges, as users see them: what they bring, what they refuse, what the caller may choose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import Conflict, Invalid, KeysConflict, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import Content, Namespace
from lochan.model.requests import KeyResolution, MergeRequest, MoveRequest, NewReference
from lochan.model.specs import parse_spec
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
def bench() -> Bench:
    return forked()


def content(bench: Bench, name: str, spec: str = "main") -> Content:
    return bench.contents.get(ME, parse_spec(spec), key(name))[0]


def refused(bench: Bench, source: str = "side", **more: Any) -> KeysConflict:
    before = bench.head()
    with pytest.raises(KeysConflict) as caught:
        bench.merge(source, **more)
    assert bench.head() == before
    return caught.value


def test_a_squashing_merge_is_one_commit_with_both_parents(bench):
    base = bench.head()
    done = bench.merge("side", expected=base, meta=CommitMeta(message="why"))
    assert (done.applied, done.successful) == (True, True)
    assert done.hash == bench.head()
    assert done.commits == (done.hash,)
    assert (done.effective_target, done.common_ancestor) == (base, base)
    assert done.expected == base
    assert [(".".join(one.key), one.behaviour, one.conflict) for one in done.keys] == [
        ("ns.a", "NORMAL", None),
        ("ns.c", "NORMAL", None),
        ("ns.d", "NORMAL", None),
    ]
    (entry,) = bench.history.log(ME, parse_spec("main"), 1).items
    assert entry.meta.parents == (base, bench.head("side"))
    assert (entry.meta.message, entry.meta.committer) == ("why", "me")
    assert bench.state() == bench.state("side")


def test_a_merge_says_what_it_did_where_nobody_else_does(bench):
    aside = bench.head("side")
    bench.merge("side")
    assert bench.messages()[0] == f"Merged side at {aside} into main"


def test_a_replaying_merge_makes_the_commits_again_in_their_order(bench):
    bench.change("ns.b", "main")
    done = bench.merge("side", squash=False)
    assert len(done.commits) == 2
    assert bench.messages()[:2] == ["side 2", "side 1"]
    assert bench.state() == {**bench.state("side"), "ns.b": "main"}
    (entry,) = bench.history.log(ME, parse_spec("main"), 1).items
    assert entry.meta.parents[1:] == (bench.head("side"),)


@pytest.mark.parametrize("squash", [True, False])
def test_what_was_merged_is_not_merged_again(bench, squash):
    bench.change("ns.b", "main")
    first = bench.merge("side", squash=squash)
    again = bench.merge("side", squash=squash)
    assert (again.applied, again.successful, again.hash) == (False, True, first.hash)
    bench.change("ns.a", "later", branch="side")
    third = bench.merge("side", squash=squash)
    assert [".".join(one.key) for one in third.keys] == ["ns.a"]
    assert bench.state()["ns.a"] == "later"


def test_a_merge_of_an_earlier_commit_brings_what_was_there_by_then(bench):
    bench.merge(f"side@{bench.log('side')[1].meta.hash}")
    assert bench.state() == {"ns": "", "ns.a": "side", "ns.b": "ns.b", "ns.c": "ns.c"}


def test_conflicts_carry_base_source_and_target(bench):
    bench.change("ns.a", "main")
    bench.change("ns.c", "main too")
    refusal = refused(bench)
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a"), ("VALUE_DIFFERS", "ns.c")]
    one, other = details(refusal)
    assert [where(side) for side in (one.base, one.source, one.target)] == ["ns.a", "side", "main"]
    assert [where(side) for side in (other.base, other.target)] == ["ns.c", "main too"]
    assert other.source is None
    bench.remove("ns.a")
    assert conflicts(refused(bench))[0] == ("KEY_DOES_NOT_EXIST", "ns.a")
    bench.commit(new("ns.d", "mine"))
    assert ("KEY_EXISTS", "ns.d") in conflicts(refused(bench))


@pytest.mark.parametrize("squash", [True, False])
def test_conflicts_may_be_told_as_a_result(bench, squash):
    bench.change("ns.a", "main")
    target = bench.head()
    done = bench.merge("side", conflicts_as_result=True, squash=squash)
    assert (done.applied, done.successful, done.hash) == (False, False, None)
    assert done.effective_target == target
    told = {".".join(one.key): one.conflict for one in done.keys}
    assert list(told) == ["ns.a", "ns.c", "ns.d"]
    assert told["ns.a"] is not None
    assert where(told["ns.a"].target) == "main"
    assert told["ns.d"] is None
    assert bench.head() == target


def test_both_sides_may_do_the_same(bench):
    bench.change("ns.a", "side")
    done = bench.merge("side")
    assert done.applied
    assert bench.state() == bench.state("side")


@pytest.mark.parametrize(
    ("behaviour", "a"),
    [("FORCE", "side"), ("DROP", "main"), ("TAKE_TARGET_ON_CONFLICT", "main")],
)
@pytest.mark.parametrize("squash", [True, False])
def test_what_becomes_of_a_key_is_the_callers_choice(bench, behaviour, a, squash):
    bench.change("ns.a", "main")
    done = bench.merge("side", keys={A: KeyResolution(behaviour=behaviour)}, squash=squash)
    assert bench.state() == {"ns": "", "ns.a": a, "ns.b": "ns.b", "ns.d": "ns.d"}
    assert {one.behaviour for one in done.keys if one.key == A} == {behaviour}


@pytest.mark.parametrize(
    ("behaviour", "state"),
    [
        ("FORCE", {"ns.a": "side", "ns.b": "ns.b", "ns.d": "ns.d"}),
        ("DROP", {"ns.a": "main", "ns.b": "ns.b", "ns.c": "ns.c"}),
        ("TAKE_TARGET_ON_CONFLICT", {"ns.a": "main", "ns.b": "ns.b", "ns.d": "ns.d"}),
    ],
)
def test_a_default_holds_for_all_keys_that_are_not_named(bench, behaviour, state):
    bench.change("ns.a", "main")
    bench.merge("side", default=behaviour)
    assert bench.state() == {"ns": "", **state}


def test_a_choice_for_a_key_goes_before_the_default(bench):
    bench.change("ns.a", "main")
    bench.merge("side", default="DROP", keys={A: KeyResolution(behaviour="FORCE")})
    assert bench.state() == {"ns": "", "ns.a": "side", "ns.b": "ns.b", "ns.c": "ns.c"}


def test_choices_that_make_no_sense_are_refused(bench):
    with pytest.raises(Invalid, match="behaviour"):
        bench.merge("side", default="SOMEHOW")
    with pytest.raises(Invalid, match="not changed"):
        bench.merge("side", keys={key("ns.b"): KeyResolution(behaviour="DROP")})
    resolved = KeyResolution(resolved=content(bench, "ns.a"))
    with pytest.raises(Invalid, match="expected target"):
        bench.merge("side", keys={A: resolved})
    forced = KeyResolution(
        behaviour="FORCE", resolved=content(bench, "ns.a"), expected_target=content(bench, "ns.a")
    )
    with pytest.raises(Invalid, match="NORMAL"):
        bench.merge("side", keys={A: forced})
    with pytest.raises(Invalid, match="content ID"):
        bench.merge("side", keys={A: KeyResolution(expected_target=table("without id"))})


def test_who_has_seen_the_target_may_overrule_it(bench):
    bench.change("ns.a", "main")
    seen = content(bench, "ns.a")
    bench.merge("side", keys={A: KeyResolution(expected_target=seen)})
    assert bench.state()["ns.a"] == "side"


def test_who_has_seen_an_old_target_is_refused(bench):
    bench.change("ns.a", "main")
    seen = content(bench, "ns.a")
    bench.change("ns.a", "main again")
    refusal = refused(bench, keys={A: KeyResolution(expected_target=seen)})
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a")]
    assert where(details(refusal)[0].target) == "main again"
    gone = refused(bench, keys={A: KeyResolution(expected_target=None)})
    assert [name for _, name in conflicts(gone)] == ["ns.a"]


@pytest.mark.parametrize("squash", [True, False])
def test_a_resolved_content_takes_the_place_of_both(bench, squash):
    bench.change("ns.a", "main")
    seen = content(bench, "ns.a")
    wish = KeyResolution(expected_target=seen, resolved=moved(seen, "both"))
    bench.merge("side", keys={A: wish}, squash=squash)
    assert bench.state()["ns.a"] == "both"
    assert content(bench, "ns.a").id == seen.id
    without_id = msgspec.structs.replace(seen, id=None, metadata_location="no id")
    bench.change("ns.a", "later", branch="side")
    bench.change("ns.a", "later too")
    now = content(bench, "ns.a")
    bench.merge(
        "side", keys={A: KeyResolution(expected_target=now, resolved=without_id)}, squash=squash
    )
    assert (content(bench, "ns.a").id, bench.state()["ns.a"]) == (seen.id, "no id")


def test_a_conflict_may_be_resolved_by_removing_the_key(bench):
    bench.change("ns.a", "main")
    wish = KeyResolution(expected_target=content(bench, "ns.a"), resolved=None)
    bench.merge("side", keys={A: wish})
    assert "ns.a" not in bench.state()


def test_a_table_that_both_made_may_be_resolved_though_the_target_has_none(bench):
    wish = KeyResolution(expected_target=None, resolved=table("resolved"))
    bench.merge("side", keys={key("ns.d"): wish})
    assert bench.state()["ns.d"] == "resolved"
    assert content(bench, "ns.d").id


@pytest.mark.parametrize("squash", [True, False])
def test_two_sides_that_made_the_same_namespace_agree(bench, squash):
    bench.commit(space("both", side="side"), new("both.s"), branch="side")
    bench.commit(space("both", side="main"), new("both.m"))
    kept = content(bench, "both")
    bench.merge("side", squash=squash)
    assert {"both", "both.s", "both.m"} <= set(bench.state())
    assert content(bench, "both") == kept


def test_a_namespace_against_a_table_of_the_same_name_is_a_conflict(bench):
    bench.commit(space("both"), branch="side")
    bench.commit(new("both"))
    assert conflicts(refused(bench)) == [("KEY_EXISTS", "both")]


def test_a_merge_never_leaves_a_table_without_its_namespace(bench):
    bench.commit(space("deep"))
    bench.merge("main", "side")
    bench.commit(new("deep.t"), branch="side")
    bench.remove("deep")
    refusal = refused(bench)
    assert conflicts(refusal) == [("NAMESPACE_ABSENT", "deep")]
    told = bench.merge("side", conflicts_as_result=True)
    assert [one.conflict.kind for one in told.keys if one.conflict] == ["NAMESPACE_ABSENT"]


def test_a_merge_never_takes_a_namespace_from_around_a_table(bench):
    bench.commit(space("deep"))
    bench.merge("main", "side")
    bench.remove("deep", branch="side")
    bench.commit(new("deep.t"))
    assert conflicts(refused(bench)) == [("NAMESPACE_NOT_EMPTY", "deep")]


def test_a_merge_never_makes_a_table_of_a_namespace_that_holds_something(bench):
    bench.commit(space("deep"))
    bench.merge("main", "side")
    bench.commit(
        Delete(key=("deep",)), Put(key=("deep",), content=table("no namespace")), branch="side"
    )
    bench.commit(new("deep.t"))
    assert conflicts(refused(bench)) == [("NAMESPACE_NOT_EMPTY", "deep")]


def test_no_commit_of_a_replay_leaves_a_table_without_its_namespace(bench):
    """Not even one that a later commit of the same replay makes good."""
    bench.commit(space("deep"))
    bench.merge("main", "side")
    bench.commit(new("deep.t"), branch="side")
    bench.remove("deep.t", branch="side")
    bench.commit(new("ns.e"), branch="side")
    bench.remove("deep")
    refusal = refused(bench, squash=False)
    assert conflicts(refusal) == [("NAMESPACE_ABSENT", "deep")]
    assert bench.merge("side").applied


def test_a_merge_that_comes_second_in_a_chain_has_nothing_left_to_do(bench):
    """Though what the first one brought was changed in between, by the same chain."""
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"))
    first = bench.merges.merge(ME, ask)
    meta = CommitMeta(message="between")
    seen = content(bench, "ns.a", "side")
    put = Put(key=A, content=moved(seen, "main"), expected=seen)
    between = bench.commits.commit(ME, "main", None, meta, [put])
    second = bench.merges.merge(ME, msgspec.structs.replace(ask, squash=False))
    settled = bench.publisher(first.branch).publish(
        [first.proposal, between.proposal, second.proposal]
    )
    assert first.finish(settled[0]).applied
    done = between.finish(settled[1])
    told = second.finish(settled[2])
    assert (told.applied, told.successful, told.hash) == (False, True, done.hash)
    assert bench.messages()[0] == "between"


def test_a_dropped_namespace_takes_no_tables(bench):
    bench.commit(space("deep"), new("deep.t"), branch="side")
    refusal = refused(bench, keys={("deep",): KeyResolution(behaviour="DROP")})
    assert conflicts(refusal) == [("NAMESPACE_ABSENT", "deep")]


def test_the_empty_hash_is_nothing_to_merge(bench):
    for source in (EMPTY, f"@{EMPTY}"):
        with pytest.raises(Invalid, match="empty"):
            bench.merge(source)
    with pytest.raises(Invalid, match="empty"):
        bench.merges.force(ME, MoveRequest(branch="main", source=parse_spec(EMPTY)))
    bench.branch("bare", None)
    with pytest.raises(Invalid, match="empty"):
        bench.merge("bare")


def test_an_empty_branch_takes_a_merge(bench):
    bench.branch("bare", None)
    done = bench.merge("side", "bare")
    assert done.common_ancestor in (None, EMPTY)
    assert bench.state("bare") == bench.state("side")


def test_a_hash_is_one_of_the_reference_that_it_is_named_with(bench):
    bench.branch("other", None)
    bench.commit(new("t"), branch="other")
    with pytest.raises(ReferenceNotFound, match="in reference 'side'"):
        bench.merge(f"side@{bench.head('other')}")
    with pytest.raises(ReferenceNotFound, match="in reference 'main'"):
        bench.merge("side", expected=bench.head("side"))
    with pytest.raises(ReferenceNotFound):
        bench.merge("side", "nowhere")


def test_an_expected_hash_of_a_merge_may_be_behind_the_head(bench):
    old = bench.head()
    bench.change("ns.b", "main")
    assert bench.merge("side", expected=old).applied


def test_a_merge_meets_a_commit_of_the_same_chain(bench):
    """What is in conflict with it is told with its content, which is not stored yet."""
    put = bench.changed("ns.a", "just now")
    first = bench.commits.commit(
        ME, "main", parse_spec(bench.head()), CommitMeta(message="m"), [put]
    )
    second = bench.merges.merge(
        ME, MergeRequest(branch="main", expected=None, source=parse_spec("side"))
    )
    settled = bench.publisher(first.branch).publish([first.proposal, second.proposal])
    first.finish(settled[0])
    with pytest.raises(KeysConflict) as caught:
        second.finish(settled[1])
    assert where(details(caught.value)[0].target) == "just now"


def test_merges_say_who_made_them(bench):
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"))
    bench.run(bench.merges.merge(Call(principal="somebody"), ask))
    move = bench.references.log(ME, "main", 1).items[0]
    assert (move.kind, move.who, move.source) == ("merge", "somebody", "side")
    assert move.base == bench.log()[1].meta.hash


def test_a_tag_takes_no_merge_and_may_be_merged(bench):
    bench.run(
        bench.references.create(ME, NewReference(kind="TAG", name="v1", source=parse_spec("side")))
    )
    with pytest.raises((Invalid, Conflict)):
        bench.merge("main", "v1")
    assert bench.merge("v1").applied
    assert isinstance(content(bench, "ns"), Namespace)
