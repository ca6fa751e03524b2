"""Branches and tags as users see them: made, listed, moved, deleted, and what is told of them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    HeadConflict,
    Invalid,
    ReferenceNotFound,
)
from lochan.base.ids import EMPTY_ID
from lochan.base.limits import REFERENCES_PER_CALL_MAX
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
from lochan.service.calls import Call
from tests.service.bench import ME, Bench, names, new, optional_spec, pages

EMPTY = EMPTY_ID.hex()
SECOND_US = 1_000_000


@pytest.fixture
def desk() -> Bench:
    """Main has three commits."""
    one = Bench()
    one.fill("ns.a")
    one.change("ns.a", "second", message="second")
    one.change("ns.a", "third", message="third")
    return one


def make(desk: Bench, name: str, source: str | None = "main", kind: str = "BRANCH", **more):
    new = NewReference(kind=kind, name=name, source=optional_spec(source), **more)
    return desk.run(desk.references.create(ME, new))


def test_a_branch_is_made_where_a_spec_leads(desk):
    line = [entry.meta.hash for entry in desk.log()]
    places = {"main": 0, "main~1": 1, "-": 0, line[2]: 2, f"main@{line[1]}": 1}
    for number, (spec, place) in enumerate(places.items()):
        made = make(desk, f"b{number}", spec)
        assert (made.kind, made.hash) == ("BRANCH", line[place])
        assert made == desk.references.get(ME, made.name)
    assert make(desk, "bare", None).hash == EMPTY
    assert desk.state("bare") == {}
    assert desk.commit(new("t"), branch="bare").hash == desk.head("bare")


def test_a_name_is_taken_once_whatever_has_it(desk):
    make(desk, "one")
    for kind in ("BRANCH", "TAG"):
        with pytest.raises(AlreadyExists):
            make(desk, "one", kind=kind)
        with pytest.raises(AlreadyExists):
            make(desk, "main", kind=kind)


@pytest.mark.parametrize("name", ["", "-", "int/x", "HEAD", "a..b", "a b", "ab" * 32, "a~1", "a@b"])
def test_a_name_that_could_be_read_in_two_ways_is_refused(desk, name):
    with pytest.raises(Invalid):
        make(desk, name)


def test_what_makes_no_sense_is_refused(desk):
    now = desk.clock.now_us()
    with pytest.raises(Invalid, match="BRANCH or a TAG"):
        make(desk, "x", kind="DETACHED")
    with pytest.raises(Invalid, match="tag names a commit"):
        make(desk, "x", None, kind="TAG")
    with pytest.raises(Invalid, match="only a tag"):
        make(desk, "x", annotation=Annotation(message="m"))
    with pytest.raises(Invalid, match="only a branch expires"):
        make(desk, "x", kind="TAG", expires_us=now + SECOND_US)
    with pytest.raises(Invalid, match="still to come"):
        make(desk, "x", expires_us=now)
    with pytest.raises(ReferenceNotFound):
        make(desk, "x", "nowhere")
    assert names(desk.references.list(ME).items) == ["main"]


def test_several_are_made_all_or_none(desk):
    wanted = [
        NewReference(kind="BRANCH", name=f"b{n}", source=parse_spec("main")) for n in range(5)
    ]
    made = desk.run(desk.references.create_many(ME, wanted))
    assert names(made) == [f"b{n}" for n in range(5)]
    further = [
        NewReference(kind="TAG", name=name, source=parse_spec("main")) for name in ("x", "b3", "y")
    ]
    with pytest.raises(AlreadyExists):
        desk.run(desk.references.create_many(ME, further))
    assert names(desk.references.list(ME).items) == [*names(made), "main"]
    with pytest.raises(Invalid, match="1 to"):
        desk.references.create_many(ME, [wanted[0]] * (REFERENCES_PER_CALL_MAX + 1))


def test_an_annotated_tag_tells_its_message_and_its_commit(desk):
    note = Annotation(message="released", properties=(("k", ("v",)),), signature=b"\x01\xff")
    made = make(desk, "v1", "main~1", kind="TAG", annotation=note)
    assert (made.kind, made.annotation) == ("TAG", note)
    assert made.hash == desk.log()[1].meta.hash
    assert desk.references.get(ME, "v1") == made
    assert desk.references.list(ME, prefix="v").items == (made,)
    assert make(desk, "light", kind="TAG").annotation is None
    with pytest.raises(Invalid, match="not a branch"):
        desk.commit(new("t"), branch="v1", expected=None)


def test_pages_make_a_whole_while_references_come_and_go(desk):
    for number in range(7):
        make(desk, f"b{number}")
    for limit in (1, 2, 3, 8, 9):
        assert names(pages(partial(desk.references.list, ME, limit))) == [
            *[f"b{n}" for n in range(7)],
            "main",
        ]
    first = desk.references.list(ME, 3)
    desk.references.delete(ME, "b3", parse_spec(desk.head("b3")))
    make(desk, "b0a")
    rest = pages(partial(desk.references.list, ME, 3), token=first.token)
    assert names([*first.items, *rest]) == ["b0", "b1", "b2", "b4", "b5", "b6", "main"]


@pytest.mark.parametrize(
    ("prefix", "found"),
    [("b", ["b/1", "b0", "bb"]), ("b/", ["b/1"]), ("", ["b/1", "b0", "bb", "c", "main"])]
    + [(odd, []) for odd in ("zz", "int/", "\x7f", "b\x7f", "\u00bf", "\U0010ffff", "\ud800")],
)
def test_a_prefix_narrows_the_list(desk, prefix, found):
    for name in ("b0", "b/1", "bb", "c"):
        make(desk, name)
    assert names(pages(partial(desk.references.list, ME, 2, prefix=prefix))) == found
    assert names(desk.references.list(ME, prefix=prefix).items) == found


def test_a_token_of_references_goes_on_with_its_own_selection_only(desk):
    for name in ("b0", "b1", "b2"):
        make(desk, name)
    token = desk.references.list(ME, 1).token
    for more in ({"prefix": "b"}, {"filter": "true"}):
        with pytest.raises(Invalid, match="another filter"):
            desk.references.list(ME, 1, token, **more)
    assert token is not None
    for bad in (token[:-2], token[::-1], ""):
        with pytest.raises(Invalid, match="token"):
            desk.references.list(ME, 1, bad)
    with pytest.raises(Invalid, match="another listing"):
        desk.contents.entries(ME, parse_spec("main"), 1, token)
    with pytest.raises(Invalid, match="at least one"):
        desk.references.list(ME, 0)


def test_a_filtered_list_has_every_match_once(desk, monkeypatch):
    for number in range(6):
        make(desk, f"b{number}", "main~1" if number % 2 else "main")
    make(desk, "t", kind="TAG")
    only = "refType == 'BRANCH' && ref.name.startsWith('b') && commit.message == 'second'"
    for limit in (1, 2, 5, None):
        found = pages(partial(desk.references.list, ME, limit, filter=only))
        assert names(found) == ["b1", "b3", "b5"]
        assert {one.metadata for one in found} == {None}
    monkeypatch.setattr(references_room, "SCAN_ENTRIES_MAX", 2)
    monkeypatch.setattr(references_room, "PAGE_ENTRIES_MAX", 2)
    assert names(pages(partial(desk.references.list, ME, 5, filter=only))) == ["b1", "b3", "b5"]


def test_all_that_is_known_is_told_where_it_is_asked_for(desk):
    base = make(desk, "side", "main~1").hash
    desk.fill("ns.s1", branch="side")
    desk.fill("ns.s2", branch="side")
    make(desk, "tag", kind="TAG")
    make(desk, "bare", None)
    told = {one.name: one.metadata for one in desk.references.list(ME, fetch_all=True).items}
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
    assert desk.references.get(ME, "side", fetch_all=True).metadata == side
    assert desk.references.get(ME, "side").metadata is None


def test_assigning_needs_the_present_head_where_one_is_named(desk):
    line = [entry.meta.hash or "" for entry in desk.log()]
    make(desk, "b")
    with pytest.raises(HeadConflict, match="not at expected hash"):
        desk.references.assign(ME, "b", parse_spec(line[1]), parse_spec("main~2"))
    assert desk.head("b") == line[0]
    done = desk.references.assign(ME, "b", parse_spec(line[0]), parse_spec("main~2"))
    assert done.hash == desk.head("b") == line[2]
    assert desk.references.assign(ME, "b", None, parse_spec("main")).hash == line[0]
    with pytest.raises(ReferenceNotFound):
        desk.references.assign(ME, "b", parse_spec("ab" * 32), parse_spec("main"))
    with pytest.raises(ReferenceNotFound):
        desk.references.assign(ME, "nowhere", None, parse_spec("main"))
    with pytest.raises(ReferenceNotFound):
        desk.references.assign(ME, "int/refs", None, parse_spec("main"))


def test_what_is_meant_is_of_the_kind_that_was_said(desk):
    make(desk, "b")
    make(desk, "t", kind="TAG")
    for name, kind in (("b", "TAG"), ("t", "BRANCH")):
        with pytest.raises(Invalid, match="type"):
            desk.references.assign(
                ME, name, parse_spec(desk.head(name)), parse_spec("main~1"), kind=kind
            )
        with pytest.raises(Invalid, match="type"):
            desk.references.delete(ME, name, parse_spec(desk.head(name)), kind=kind)
    assert (
        desk.references.assign(
            ME, "t", parse_spec(desk.head("t")), parse_spec("main~1"), kind="TAG"
        ).kind
        == "TAG"
    )
    assert desk.references.delete(ME, "b", parse_spec(desk.head("b")), kind="BRANCH").name == "b"


def test_the_default_branch_may_be_assigned(desk):
    done = desk.references.assign(ME, "-", parse_spec(desk.head()), parse_spec("main~1"))
    assert (done.name, desk.messages()[0]) == ("main", "second")


def test_deleting_needs_the_present_head_where_one_is_named(desk):
    make(desk, "b")
    with pytest.raises(HeadConflict):
        desk.references.delete(ME, "b", parse_spec(desk.log()[1].meta.hash))
    gone = desk.references.delete(ME, "b", parse_spec(desk.head("b")))
    assert (gone.name, gone.hash) == ("b", desk.head())
    with pytest.raises(ReferenceNotFound):
        desk.references.get(ME, "b")
    with pytest.raises(ReferenceNotFound):
        desk.references.delete(ME, "b", None)
    assert make(desk, "b", "main~1").hash == desk.log()[1].meta.hash


def test_a_branch_goes_whether_it_was_merged_or_not(desk):
    make(desk, "b")
    lost = desk.fill("ns.lost", branch="b").hash
    desk.references.delete(ME, "b", parse_spec(lost))
    assert "ns.lost" in desk.state(lost)


@pytest.mark.parametrize("name", ["main", "-"])
def test_the_default_branch_is_not_deleted(desk, name):
    with pytest.raises(Invalid, match="cannot be deleted"):
        desk.references.delete(ME, name, parse_spec(desk.head()))


def test_an_annotated_tag_is_expected_by_its_commit(desk):
    note = Annotation(message="released")
    make(desk, "v1", kind="TAG", annotation=note)
    with pytest.raises(HeadConflict):
        desk.references.delete(ME, "v1", parse_spec(desk.log()[1].meta.hash))
    moved = desk.references.assign(ME, "v1", parse_spec(desk.head()), parse_spec("main~1"))
    assert (moved.hash, moved.annotation) == (desk.log()[1].meta.hash, None)
    make(desk, "v2", kind="TAG", annotation=note)
    assert desk.references.delete(ME, "v2", parse_spec(desk.head())).annotation == note


def test_every_kind_of_operation_is_told_in_the_ref_log(desk):
    make(desk, "b", "main~1")
    desk.fill("ns.x", branch="b")
    one = Call(principal="one")
    merge = MergeRequest(branch="b", expected=None, source=parse_spec("main"))
    desk.run(desk.merges.merge(one, merge))
    make(desk, "side", "main")
    desk.fill("ns.y", branch="side")
    picked = desk.fill("ns.z", branch="side").hash
    carry = TransplantRequest(
        branch="b", expected=None, source="side", hashes=(parse_spec(f"{picked}~1"),)
    )
    desk.run(desk.merges.transplant(one, carry))
    pick = TransplantRequest(branch="b", expected=None, source="", hashes=(parse_spec(picked),))
    desk.run(desk.merges.cherry_pick(one, pick))
    revert = RevertRequest(branch="b", expected=None, hashes=(parse_spec(desk.head("b")),))
    desk.run(desk.merges.revert(one, revert))
    desk.merges.rebase(one, RebaseRequest(branch="b", onto=parse_spec("side")))
    desk.merges.force(one, MoveRequest(branch="b", source=parse_spec("main")))
    desk.merges.fast_forward(one, MoveRequest(branch="b", source=parse_spec("side")))
    desk.references.assign(one, "b", None, parse_spec("main"))
    last = desk.head("b")
    desk.references.delete(one, "b", parse_spec(last))
    make(desk, "b", "side")
    moves = desk.references.log(ME, "b").items
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
        assert pages(partial(desk.references.log, ME, "b", limit)) == list(moves)


def test_the_ref_log_of_a_name_that_never_was_is_not_found(desk):
    with pytest.raises(ReferenceNotFound):
        desk.references.log(ME, "never")
    with pytest.raises(ReferenceNotFound):
        desk.references.log(ME, "int/refs")
    assert desk.references.log(ME, "-").items == desk.references.log(ME, "main").items


def test_where_a_reference_pointed_lately_is_told(desk):
    line = [entry.meta.hash for entry in desk.log()]
    told = desk.references.recent_changes(ME, "main", scan_commits=True)
    assert told.reference.name == "main"
    assert (told.current.hash, told.current.consistent) == (line[0], True)
    assert [one.hash for one in told.previous] == [*line[1:], EMPTY]
    assert all(one.consistent for one in told.previous)
    unread = desk.references.recent_changes(ME, "main")
    assert {one.consistent for one in (unread.current, *unread.previous)} == {None}


def test_a_branch_that_is_committed_to_while_it_is_deleted_is_one_or_the_other(desk, monkeypatch):
    make(desk, "b")
    rival = desk.again()
    right = ReferenceIndex.remove

    def remove(self, name, decide, who, **more):
        rival.fill("ns.late", branch="b")
        return right(self, name, decide, who, **more)

    monkeypatch.setattr(ReferenceIndex, "remove", remove)
    with pytest.raises(Conflict):
        desk.references.delete(ME, "b", parse_spec(desk.head("b")))
    assert "ns.late" in desk.state("b")


@pytest.mark.parametrize("name", ["\ud800", "x" * 5_000, "a\0b", "", " main", "main\n", "é"])
def test_a_name_that_nobody_can_have_is_not_found_or_invalid(desk, name):
    for ask in (
        partial(desk.references.get, ME, name),
        partial(desk.references.log, ME, name),
        partial(desk.references.assign, ME, name, None, parse_spec("main")),
        partial(desk.references.delete, ME, name, None),
        partial(desk.commit, new("t"), branch=name, expected=None),
        partial(desk.merge, "main", name),
    ):
        with pytest.raises((ReferenceNotFound, Invalid)):
            ask()
