"""Branches and tags as users see them: made, listed, moved, deleted, and what is told of them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from lochan.access.policy import Call
from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    HeadConflict,
    Invalid,
    ReferenceNotFound,
)
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.requests import REFERENCES_PER_CALL_MAX
from lochan.kernel.references import ReferenceIndex
from lochan.model.references import Annotation
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import parse_spec
from lochan.service import references as references_room
from tests.service.bench import ME, Bench, names, new, optional_spec, pages

EMPTY = EMPTY_ID.hex()
SECOND_US = 1_000_000


@pytest.fixture
def bench() -> Bench:
    """Main has three commits."""
    one = Bench()
    one.fill("ns.a")
    one.change("ns.a", "second", message="second")
    one.change("ns.a", "third", message="third")
    return one


def make(bench: Bench, name: str, source: str | None = "main", kind: str = "BRANCH", **more):
    new = NewReference(kind=kind, name=name, source=optional_spec(source), **more)
    return bench.run(bench.references.create(ME, new))


def test_a_branch_is_made_where_a_spec_leads(bench):
    line = [entry.meta.hash for entry in bench.log()]
    places = {"main": 0, "main~1": 1, "-": 0, line[2]: 2, f"main@{line[1]}": 1}
    for number, (spec, place) in enumerate(places.items()):
        made = make(bench, f"b{number}", spec)
        assert (made.kind, made.hash) == ("BRANCH", line[place])
        assert made == bench.references.get(ME, made.name)
    assert make(bench, "bare", None).hash == EMPTY
    assert bench.state("bare") == {}
    assert bench.commit(new("t"), branch="bare").hash == bench.head("bare")


def test_a_name_is_taken_once_whatever_has_it(bench):
    make(bench, "one")
    for kind in ("BRANCH", "TAG"):
        with pytest.raises(AlreadyExists):
            make(bench, "one", kind=kind)
        with pytest.raises(AlreadyExists):
            make(bench, "main", kind=kind)


@pytest.mark.parametrize("name", ["", "-", "int/x", "HEAD", "a..b", "a b", "ab" * 32, "a~1", "a@b"])
def test_a_name_that_could_be_read_in_two_ways_is_refused(bench, name):
    with pytest.raises(Invalid):
        make(bench, name)


def test_what_makes_no_sense_is_refused(bench):
    now = bench.clock.now_us()
    with pytest.raises(Invalid, match="BRANCH or a TAG"):
        make(bench, "x", kind="DETACHED")
    with pytest.raises(Invalid, match="tag names a commit"):
        make(bench, "x", None, kind="TAG")
    with pytest.raises(Invalid, match="only a tag"):
        make(bench, "x", annotation=Annotation(message="m"))
    with pytest.raises(Invalid, match="only a branch expires"):
        make(bench, "x", kind="TAG", expires_us=now + SECOND_US)
    with pytest.raises(Invalid, match="still to come"):
        make(bench, "x", expires_us=now)
    with pytest.raises(ReferenceNotFound):
        make(bench, "x", "nowhere")
    assert names(bench.references.list(ME).items) == ["main"]


def test_several_are_made_all_or_none(bench):
    wanted = [
        NewReference(kind="BRANCH", name=f"b{n}", source=parse_spec("main")) for n in range(5)
    ]
    made = bench.run(bench.references.create_many(ME, wanted))
    assert names(made) == [f"b{n}" for n in range(5)]
    further = [
        NewReference(kind="TAG", name=name, source=parse_spec("main")) for name in ("x", "b3", "y")
    ]
    with pytest.raises(AlreadyExists):
        bench.run(bench.references.create_many(ME, further))
    assert names(bench.references.list(ME).items) == [*names(made), "main"]
    with pytest.raises(Invalid, match="1 to"):
        bench.references.create_many(ME, [wanted[0]] * (REFERENCES_PER_CALL_MAX + 1))


def test_an_annotated_tag_tells_its_message_and_its_commit(bench):
    note = Annotation(message="released", properties=(("k", ("v",)),), signature=b"\x01\xff")
    made = make(bench, "v1", "main~1", kind="TAG", annotation=note)
    assert (made.kind, made.annotation) == ("TAG", note)
    assert made.hash == bench.log()[1].meta.hash
    assert bench.references.get(ME, "v1") == made
    assert bench.references.list(ME, prefix="v").items == (made,)
    assert make(bench, "light", kind="TAG").annotation is None
    with pytest.raises(Invalid, match="not a branch"):
        bench.commit(new("t"), branch="v1", expected=None)


def test_pages_make_a_whole_while_references_come_and_go(bench):
    for number in range(7):
        make(bench, f"b{number}")
    for limit in (1, 2, 3, 8, 9):
        assert names(pages(partial(bench.references.list, ME, limit))) == [
            *[f"b{n}" for n in range(7)],
            "main",
        ]
    first = bench.references.list(ME, 3)
    bench.references.delete(ME, "b3", parse_spec(bench.head("b3")))
    make(bench, "b0a")
    rest = pages(partial(bench.references.list, ME, 3), token=first.token)
    assert names([*first.items, *rest]) == ["b0", "b1", "b2", "b4", "b5", "b6", "main"]


@pytest.mark.parametrize(
    ("prefix", "found"),
    [("b", ["b/1", "b0", "bb"]), ("b/", ["b/1"]), ("", ["b/1", "b0", "bb", "c", "main"])]
    + [(odd, []) for odd in ("zz", "int/", "\x7f", "b\x7f", "\u00bf", "\U0010ffff", "\ud800")],
)
def test_a_prefix_narrows_the_list(bench, prefix, found):
    for name in ("b0", "b/1", "bb", "c"):
        make(bench, name)
    assert names(pages(partial(bench.references.list, ME, 2, prefix=prefix))) == found
    assert names(bench.references.list(ME, prefix=prefix).items) == found


def test_a_token_of_references_goes_on_with_its_own_selection_only(bench):
    for name in ("b0", "b1", "b2"):
        make(bench, name)
    token = bench.references.list(ME, 1).token
    for more in ({"prefix": "b"}, {"filter": "true"}):
        with pytest.raises(Invalid, match="another filter"):
            bench.references.list(ME, 1, token, **more)
    assert token is not None
    for bad in (token[:-2], token[::-1], ""):
        with pytest.raises(Invalid, match="token"):
            bench.references.list(ME, 1, bad)
    with pytest.raises(Invalid, match="another listing"):
        bench.contents.entries(ME, parse_spec("main"), 1, token)
    with pytest.raises(Invalid, match="at least one"):
        bench.references.list(ME, 0)


def test_a_filtered_list_has_every_match_once(bench, monkeypatch):
    for number in range(6):
        make(bench, f"b{number}", "main~1" if number % 2 else "main")
    make(bench, "t", kind="TAG")
    only = "refType == 'BRANCH' && ref.name.startsWith('b') && commit.message == 'second'"
    for limit in (1, 2, 5, None):
        found = pages(partial(bench.references.list, ME, limit, filter=only))
        assert names(found) == ["b1", "b3", "b5"]
        assert {one.metadata for one in found} == {None}
    monkeypatch.setattr(references_room, "SCAN_ENTRIES_MAX", 2)
    monkeypatch.setattr(references_room, "PAGE_ENTRIES_MAX", 2)
    assert names(pages(partial(bench.references.list, ME, 5, filter=only))) == ["b1", "b3", "b5"]


def test_all_that_is_known_is_told_where_it_is_asked_for(bench):
    base = make(bench, "side", "main~1").hash
    bench.fill("ns.s1", branch="side")
    bench.fill("ns.s2", branch="side")
    make(bench, "tag", kind="TAG")
    make(bench, "bare", None)
    told = {one.name: one.metadata for one in bench.references.list(ME, fetch_all=True).items}
    side, bare = told["side"], told["bare"]
    assert side is not None
    assert (side.total, side.ahead, side.behind, side.common_ancestor) == (4, 2, 1, base)
    assert side.head is not None
    assert side.head.message == "fill ns.s2"
    for name in ("main", "tag"):
        alone = told[name]
        assert alone is not None
        assert (alone.total, alone.ahead, alone.behind) == (3, None, None)
    assert bare is not None
    assert (bare.head, bare.total, bare.ahead, bare.behind) == (None, 0, 0, 3)
    assert bench.references.get(ME, "side", fetch_all=True).metadata == side
    assert bench.references.get(ME, "side").metadata is None


def test_assigning_needs_the_present_head_where_one_is_named(bench):
    line = [entry.meta.hash or "" for entry in bench.log()]
    make(bench, "b")
    with pytest.raises(HeadConflict, match="not at expected hash"):
        bench.references.assign(ME, "b", parse_spec(line[1]), parse_spec("main~2"))
    assert bench.head("b") == line[0]
    done = bench.references.assign(ME, "b", parse_spec(line[0]), parse_spec("main~2"))
    assert done.hash == bench.head("b") == line[2]
    assert bench.references.assign(ME, "b", None, parse_spec("main")).hash == line[0]
    with pytest.raises(ReferenceNotFound):
        bench.references.assign(ME, "b", parse_spec("ab" * 32), parse_spec("main"))
    with pytest.raises(ReferenceNotFound):
        bench.references.assign(ME, "nowhere", None, parse_spec("main"))
    with pytest.raises(ReferenceNotFound):
        bench.references.assign(ME, "int/refs", None, parse_spec("main"))


def test_what_is_meant_is_of_the_kind_that_was_said(bench):
    make(bench, "b")
    make(bench, "t", kind="TAG")
    for name, kind in (("b", "TAG"), ("t", "BRANCH")):
        with pytest.raises(Invalid, match="type"):
            bench.references.assign(
                ME, name, parse_spec(bench.head(name)), parse_spec("main~1"), kind=kind
            )
        with pytest.raises(Invalid, match="type"):
            bench.references.delete(ME, name, parse_spec(bench.head(name)), kind=kind)
    assert (
        bench.references.assign(
            ME, "t", parse_spec(bench.head("t")), parse_spec("main~1"), kind="TAG"
        ).kind
        == "TAG"
    )
    assert bench.references.delete(ME, "b", parse_spec(bench.head("b")), kind="BRANCH").name == "b"


def test_the_default_branch_may_be_assigned(bench):
    done = bench.references.assign(ME, "-", parse_spec(bench.head()), parse_spec("main~1"))
    assert (done.name, bench.messages()[0]) == ("main", "second")


def test_deleting_needs_the_present_head_where_one_is_named(bench):
    make(bench, "b")
    with pytest.raises(HeadConflict):
        bench.references.delete(ME, "b", parse_spec(bench.log()[1].meta.hash))
    gone = bench.references.delete(ME, "b", parse_spec(bench.head("b")))
    assert (gone.name, gone.hash) == ("b", bench.head())
    with pytest.raises(ReferenceNotFound):
        bench.references.get(ME, "b")
    with pytest.raises(ReferenceNotFound):
        bench.references.delete(ME, "b", None)
    assert make(bench, "b", "main~1").hash == bench.log()[1].meta.hash


def test_a_branch_goes_whether_it_was_merged_or_not(bench):
    make(bench, "b")
    lost = bench.fill("ns.lost", branch="b").hash
    bench.references.delete(ME, "b", parse_spec(lost))
    assert "ns.lost" in bench.state(lost)


@pytest.mark.parametrize("name", ["main", "-"])
def test_the_default_branch_is_not_deleted(bench, name):
    with pytest.raises(Invalid, match="cannot be deleted"):
        bench.references.delete(ME, name, parse_spec(bench.head()))


def test_an_annotated_tag_is_expected_by_its_commit(bench):
    note = Annotation(message="released")
    make(bench, "v1", kind="TAG", annotation=note)
    with pytest.raises(HeadConflict):
        bench.references.delete(ME, "v1", parse_spec(bench.log()[1].meta.hash))
    moved = bench.references.assign(ME, "v1", parse_spec(bench.head()), parse_spec("main~1"))
    assert (moved.hash, moved.annotation) == (bench.log()[1].meta.hash, None)
    make(bench, "v2", kind="TAG", annotation=note)
    assert bench.references.delete(ME, "v2", parse_spec(bench.head())).annotation == note


def test_every_kind_of_operation_is_told_in_the_ref_log(bench):
    make(bench, "b", "main~1")
    bench.fill("ns.x", branch="b")
    one = Call(principal="one")
    merge = MergeRequest(branch="b", expected=None, source=parse_spec("main"))
    bench.run(bench.merges.merge(one, merge))
    make(bench, "side", "main")
    bench.fill("ns.y", branch="side")
    picked = bench.fill("ns.z", branch="side").hash
    carry = TransplantRequest(
        branch="b", expected=None, source="side", hashes=(parse_spec(f"{picked}~1"),)
    )
    bench.run(bench.merges.transplant(one, carry))
    pick = TransplantRequest(branch="b", expected=None, source="", hashes=(parse_spec(picked),))
    bench.run(bench.merges.cherry_pick(one, pick))
    revert = RevertRequest(branch="b", expected=None, hashes=(parse_spec(bench.head("b")),))
    bench.run(bench.merges.revert(one, revert))
    bench.merges.rebase(one, RebaseRequest(branch="b", onto=parse_spec("side")))
    bench.merges.force(one, MoveRequest(branch="b", source=parse_spec("main")))
    bench.merges.fast_forward(one, MoveRequest(branch="b", source=parse_spec("side")))
    bench.references.assign(one, "b", None, parse_spec("main"))
    last = bench.head("b")
    bench.references.delete(one, "b", parse_spec(last))
    make(bench, "b", "side")
    moves = bench.references.log(ME, "b").items
    assert [move.kind for move in moves] == [
        "create",
        "delete",
        "assign",
        "fast-forward",
        "force",
        "rebase",
        "revert",
        "cherry-pick",
        "transplant",
        "merge",
        "commit",
        "create",
    ]
    assert [move.who for move in moves] == ["me"] + ["one"] * 9 + ["me"] * 2
    assert (moves[0].old, moves[-1].old) == (None, None)
    for newer, older in pairwise(moves[2:]):
        assert newer.old == older.new
    sources = {move.kind: move.source for move in moves[:-1]}
    assert sources["merge"] == sources["assign"] == sources["force"] == "main"
    assert sources["rebase"] == sources["transplant"] == sources["fast-forward"] == "side"
    assert {move.incarnation for move in moves[1:]} != {moves[0].incarnation}
    for limit in (1, 5):
        assert pages(partial(bench.references.log, ME, "b", limit)) == list(moves)


def test_the_ref_log_of_a_name_that_never_was_is_not_found(bench):
    with pytest.raises(ReferenceNotFound):
        bench.references.log(ME, "never")
    with pytest.raises(ReferenceNotFound):
        bench.references.log(ME, "int/refs")
    assert bench.references.log(ME, "-").items == bench.references.log(ME, "main").items


def test_where_a_reference_pointed_lately_is_told(bench):
    line = [entry.meta.hash for entry in bench.log()]
    told = bench.references.recent_changes(ME, "main", scan_commits=True)
    assert told.reference.name == "main"
    assert (told.current.hash, told.current.consistent) == (line[0], True)
    assert [one.hash for one in told.previous] == [*line[1:], EMPTY]
    assert all(one.consistent for one in told.previous)
    unread = bench.references.recent_changes(ME, "main")
    assert {one.consistent for one in (unread.current, *unread.previous)} == {None}


def test_a_branch_that_is_committed_to_while_it_is_deleted_is_one_or_the_other(bench, monkeypatch):
    make(bench, "b")
    rival = bench.again()
    right = ReferenceIndex.remove

    def remove(self, name, decide, who, **more):
        rival.fill("ns.late", branch="b")
        return right(self, name, decide, who, **more)

    monkeypatch.setattr(ReferenceIndex, "remove", remove)
    with pytest.raises(Conflict):
        bench.references.delete(ME, "b", parse_spec(bench.head("b")))
    assert "ns.late" in bench.state("b")


@pytest.mark.parametrize("name", ["\ud800", "x" * 5_000, "a\0b", "", " main", "main\n", "é"])
def test_a_name_that_nobody_can_have_is_not_found_or_invalid(bench, name):
    for ask in (
        partial(bench.references.get, ME, name),
        partial(bench.references.log, ME, name),
        partial(bench.references.assign, ME, name, None, parse_spec("main")),
        partial(bench.references.delete, ME, name, None),
        partial(bench.commit, new("t"), branch=name, expected=None),
        partial(bench.merge, "main", name),
    ):
        with pytest.raises((ReferenceNotFound, Invalid)):
            ask()
