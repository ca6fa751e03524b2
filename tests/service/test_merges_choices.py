"""Choices of callers where one key is changed more than once, made on both sides, or renamed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from lochan.base.errors import Invalid, KeysConflict
from lochan.base.keys import table_key
from lochan.base.limits import MESSAGE_BYTES_MAX
from lochan.base.names import RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import pack_table
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.publish import Published
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import Content
from lochan.model.requests import KeyResolution, RebaseRequest, RevertRequest, TransplantRequest
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from tests.service.bench import (
    ME,
    Bench,
    changed_request,
    conflicts,
    details,
    key,
    moved,
    new,
    space,
    table,
)

A = key("ns.a")


@pytest.fixture
def desk() -> Bench:
    one = Bench()
    one.fill("ns.a", "ns.b", "ns.c")
    one.branch("side")
    return one


def content(desk: Bench, name: str, spec: str = "main") -> Content:
    return desk.contents.get(ME, parse_spec(spec), key(name))[0]


def refused(desk: Bench, source: str = "side", **more: Any) -> KeysConflict:
    before = desk.head()
    with pytest.raises(KeysConflict) as caught:
        desk.merge(source, **more)
    assert desk.head() == before
    return caught.value


def pick(desk: Bench, *hashes: str, branch: str = "main", **more: Any) -> Merged:
    ask = TransplantRequest(
        branch=branch, expected=None, source="", hashes=tuple(map(parse_spec, hashes)), squash=True
    )
    return desk.run(desk.merges.cherry_pick(ME, changed_request(ask, **more)))


def rename(desk: Bench, before: str, after: str, branch: str) -> str:
    found = content(desk, before, branch)
    return desk.commit(
        Delete(key=key(before)), Put(key=key(after), content=found), branch=branch
    ).hash


def check_ids(desk: Bench, spec: str = "main") -> None:
    page = desk.contents.entries(ME, parse_spec(spec), with_content=True)
    ids = Counter(entry.content.id for entry in page.items if entry.content is not None)
    assert max(ids.values()) == 1


# Squashed picks of commits that do not follow each other


def test_a_squashed_pick_brings_the_keys_of_its_commits_only(desk):
    first = desk.change("ns.a", "one", branch="side").hash
    desk.change("ns.b", "nobody asked for it", branch="side")
    last = desk.change("ns.c", "three", branch="side").hash
    pick(desk, first, last)
    assert desk.state() == {"ns": "", "ns.a": "one", "ns.b": "ns.b", "ns.c": "three"}


def test_a_squashed_pick_in_reversed_order_loses_no_key(desk):
    first = desk.commit(new("ns.x"), branch="side").hash
    last = desk.commit(new("ns.y"), branch="side").hash
    pick(desk, last, first)
    assert {"ns.x", "ns.y"} <= set(desk.state())


def test_a_squashed_pick_of_several_branches_brings_all_of_them(desk):
    desk.branch("other")
    one = desk.change("ns.a", "side", branch="side").hash
    two = desk.change("ns.b", "other", branch="other").hash
    assert len(pick(desk, one, two).commits) == 1
    assert (desk.state()["ns.a"], desk.state()["ns.b"]) == ("side", "other")


def test_a_squashed_pick_is_what_its_commits_make_one_by_one(desk):
    """Changes of one key that follow each other are one change."""
    line = [desk.change("ns.a", f"{n}", branch="side").hash for n in range(3)]
    desk.change("ns.a", "elsewhere")
    refusal = None
    try:
        pick(desk, *line)
    except KeysConflict as error:
        refusal = error
    assert refusal is not None
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a")]
    (conflict,) = details(refusal)
    assert conflict.source == moved(content(desk, "ns.a", "side"), "2")


def test_changes_of_one_key_that_do_not_follow_each_other_are_a_conflict_squashed_or_not(desk):
    first = desk.change("ns.a", "one", branch="side").hash
    desk.change("ns.a", "two", branch="side")
    last = desk.change("ns.a", "three", branch="side").hash
    for squash in (True, False):
        with pytest.raises(KeysConflict) as caught:
            pick(desk, first, last, squash=squash)
        assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]


# Expected and resolved contents


@pytest.mark.parametrize("squash", [True, False])
def test_a_wrong_expected_target_of_a_namespace_that_both_made_is_a_conflict(desk, squash):
    desk.commit(space("both", side="side"), branch="side")
    desk.commit(space("both", side="main"))
    wrong = content(desk, "both", "side")
    keys = {("both",): KeyResolution(expected_target=wrong)}
    assert conflicts(refused(desk, keys=keys, squash=squash)) == [("CONTENT_ID_DIFFERS", "both")]


@pytest.mark.parametrize("squash", [True, False])
def test_a_namespace_that_both_made_is_resolved_as_the_caller_says(desk, squash):
    desk.commit(space("both", side="side"), branch="side")
    desk.commit(space("both", side="main"))
    seen = content(desk, "both")
    resolved = msgspec.structs.replace(seen, properties={"side": "both"})
    keys = {("both",): KeyResolution(expected_target=seen, resolved=resolved)}
    desk.merge("side", keys=keys, squash=squash)
    assert content(desk, "both") == resolved


@pytest.mark.parametrize("is_resolved", [True, False])
def test_a_key_that_a_replay_changes_twice_may_have_an_expected_target(desk, is_resolved):
    desk.change("ns.a", "one", branch="side")
    desk.change("ns.a", "two", branch="side")
    desk.change("ns.a", "main")
    wish = KeyResolution(expected_target=content(desk, "ns.a"))
    if is_resolved:
        wish = msgspec.structs.replace(wish, resolved=moved(content(desk, "ns.a"), "resolved"))
    done = desk.merge("side", keys={A: wish}, squash=False)
    assert done.applied
    assert desk.state()["ns.a"] == ("resolved" if is_resolved else "two")


def test_a_wrong_expected_target_of_a_replay_is_one_conflict(desk):
    desk.change("ns.a", "one", branch="side")
    desk.change("ns.a", "two", branch="side")
    seen = content(desk, "ns.a")
    desk.change("ns.a", "main")
    keys = {A: KeyResolution(expected_target=seen, resolved=moved(seen, "resolved"))}
    assert conflicts(refused(desk, keys=keys, squash=False)) == [("VALUE_DIFFERS", "ns.a")]


def test_a_replay_takes_the_target_for_all_changes_of_a_key(desk):
    """Though a later one of them starts from what the target holds."""
    for where in ("one", "main", "three"):
        desk.change("ns.a", where, branch="side")
    desk.change("ns.a", "main")
    desk.merge("side", squash=False, default="TAKE_TARGET_ON_CONFLICT")
    assert desk.state()["ns.a"] == "main"


def test_a_resolved_content_has_the_id_of_one_of_the_sides_or_a_new_one(desk):
    desk.change("ns.a", "side", branch="side")
    desk.change("ns.a", "main")
    stolen = moved(content(desk, "ns.b"), "stolen")
    keys = {A: KeyResolution(expected_target=content(desk, "ns.a"), resolved=stolen)}
    before = desk.head()
    with pytest.raises(Invalid, match="neither side"):
        desk.merge("side", keys=keys)
    assert desk.head() == before


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_with_nothing_left_to_do_needs_no_resolution(desk, squash):
    """Two clients resolve the same conflict in the same way; the second finds it done."""
    desk.change("ns.a", "side", branch="side")
    desk.change("ns.a", "main")
    seen = content(desk, "ns.a")
    keys = {A: KeyResolution(expected_target=seen, resolved=moved(seen, "resolved"))}
    desk.merge("side", keys=keys, squash=squash)
    rename(desk, "ns.a", "ns.renamed", "main")
    told = desk.merge("side", keys=keys, squash=squash)
    assert (told.successful, told.applied) == (True, False)


def test_a_wrong_expected_target_is_compared_with_the_target_and_not_with_the_base(desk):
    desk.remove("ns.a", branch="side")
    desk.commit(new("ns.n"), branch="side")
    keys = {key("ns.n"): KeyResolution(expected_target=content(desk, "ns.n", "side"))}
    assert conflicts(refused(desk, keys=keys)) == [("KEY_DOES_NOT_EXIST", "ns.n")]
    keys = {A: KeyResolution(expected_target=None)}
    assert conflicts(refused(desk, keys=keys)) == [("KEY_EXISTS", "ns.a")]


# One key for one content


@pytest.mark.parametrize("squash", [True, False])
def test_a_content_that_both_sides_renamed_is_a_conflict(desk, squash):
    rename(desk, "ns.a", "ns.source", "side")
    rename(desk, "ns.a", "ns.target", "main")
    refusal = refused(desk, squash=squash)
    assert conflicts(refusal) == [("KEY_CONFLICT", "ns.source")]
    assert "ns.target" in refusal.message
    told = desk.merge("side", squash=squash, conflicts_as_result=True)
    assert not told.successful


@pytest.mark.parametrize("behaviour", ["DROP", "TAKE_TARGET_ON_CONFLICT"])
@pytest.mark.parametrize("squash", [True, False])
def test_a_content_that_both_sides_renamed_may_keep_the_name_of_the_target(desk, squash, behaviour):
    rename(desk, "ns.a", "ns.source", "side")
    desk.change("ns.b", "side", branch="side")
    rename(desk, "ns.a", "ns.target", "main")
    keys = {key("ns.source"): KeyResolution(behaviour=behaviour)}
    desk.merge("side", squash=squash, keys=keys)
    assert {"ns.target", "ns.b", "ns.c"} == set(desk.state()) - {"ns"}
    assert desk.state()["ns.b"] == "side"
    check_ids(desk)


def test_a_rename_whose_old_key_is_kept_is_a_conflict(desk):
    rename(desk, "ns.a", "ns.source", "side")
    assert conflicts(refused(desk, keys={A: KeyResolution(behaviour="DROP")})) == [
        ("KEY_CONFLICT", "ns.source")
    ]
    desk.change("ns.a", "main")
    keys = {A: KeyResolution(behaviour="TAKE_TARGET_ON_CONFLICT")}
    assert conflicts(refused(desk, keys=keys)) == [("KEY_CONFLICT", "ns.source")]
    desk.merge("side", default="TAKE_TARGET_ON_CONFLICT")
    assert "ns.source" not in desk.state()
    check_ids(desk)


def test_a_rename_of_one_side_is_merged_and_may_be_renamed_again(desk):
    rename(desk, "ns.a", "ns.x", "side")
    rename(desk, "ns.x", "ns.y", "side")
    desk.merge("side", squash=False)
    assert "ns.y" in desk.state()
    check_ids(desk)


def test_a_key_that_is_shared_only_after_another_was_dropped_is_dropped_too(desk):
    made = desk.commit(new("ns.u"), branch="side").hash
    renamed = rename(desk, "ns.u", "ns.v", "side")
    pick(desk, made)
    pick(desk, renamed, made, squash=False, default="TAKE_TARGET_ON_CONFLICT")
    check_ids(desk)


def test_a_pick_of_a_creation_after_a_rename_is_a_conflict(desk):
    made = desk.commit(new("ns.n"), branch="side").hash
    pick(desk, made)
    rename(desk, "ns.n", "ns.renamed", "main")
    with pytest.raises(KeysConflict) as caught:
        pick(desk, made)
    assert conflicts(caught.value) == [("KEY_CONFLICT", "ns.n")]
    with pytest.raises(KeysConflict):
        desk.merge("side")
    check_ids(desk)


def test_a_revert_of_a_rename_that_was_renamed_since_is_a_conflict(desk):
    done = rename(desk, "ns.a", "ns.x", "main")
    rename(desk, "ns.x", "ns.y", "main")
    ask = RevertRequest(branch="main", expected=None, hashes=(parse_spec(done),))
    with pytest.raises(KeysConflict) as caught:
        desk.run(desk.merges.revert(ME, ask))
    assert conflicts(caught.value) == [("KEY_CONFLICT", "ns.a")]
    check_ids(desk)


def test_a_rebase_of_a_rename_meets_a_rename_of_the_other_side(desk):
    rename(desk, "ns.a", "ns.source", "side")
    rename(desk, "ns.a", "ns.target", "main")
    with pytest.raises(KeysConflict) as caught:
        desk.merges.rebase(ME, RebaseRequest(branch="side", onto=parse_spec("main")))
    assert conflicts(caught.value) == [("KEY_CONFLICT", "ns.source")]


class Foreign:
    """A proposal that puts a table with an id that is no UUID, as only an import does."""

    incarnation = None

    def __init__(self, desk: Bench) -> None:
        self._types = ContentTypes()
        self._context = desk.repository.context

    def plan(self, head: Head) -> list[CommitPlan]:
        content = table("foreign", "not a uuid")
        value = self._types.encode(content, "not a uuid")
        element = pack_table(self._types.payload_of(content), value[0], None)
        operation = Operation(bytes(table_key(key("ns.f"))), element)
        return [CommitPlan([operation], "import", objects=[value])]


def test_ids_that_are_no_uuid_are_looked_at_too(desk):
    (published,) = desk.publisher(RefName("main")).publish([Foreign(desk)])
    assert isinstance(published, Published)
    desk.branch("other")
    rename(desk, "ns.f", "ns.source", "other")
    rename(desk, "ns.f", "ns.target", "main")
    assert conflicts(refused(desk, "other")) == [("KEY_CONFLICT", "ns.source")]


# Messages that are made here


def test_a_squash_of_many_commits_has_a_message_within_the_limit(desk):
    line = [desk.change("ns.a", f"{n}", branch="side", message="é" * 200).hash for n in range(450)]
    pick(desk, *line)
    message = desk.messages()[0]
    assert len(message.encode()) <= MESSAGE_BYTES_MAX
    assert line[0] in message
    assert line[-1] not in message
    assert "more" in message.splitlines()[-1]


def test_a_squash_with_a_message_of_the_longest_kind_keeps_it(desk):
    line = [desk.change("ns.a", f"{n}", branch="side").hash for n in range(2)]
    longest = "x" * MESSAGE_BYTES_MAX
    pick(desk, *line, meta=CommitMeta(message=longest))
    assert desk.messages()[0] == longest


def test_a_commit_with_a_long_title_can_be_reverted(desk):
    done = desk.change("ns.a", "wrong", message="x" * MESSAGE_BYTES_MAX)
    ask = RevertRequest(branch="main", expected=None, hashes=(parse_spec(done.hash),))
    desk.run(desk.merges.revert(ME, ask))
    assert desk.state()["ns.a"] == "ns.a"
    assert desk.messages()[0].startswith(f"Revert {done.hash}: xxx")
