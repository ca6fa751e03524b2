"""Choices of callers where one key is changed more than once, made on both sides, or renamed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from lochan.base.errors import Invalid, KeysConflict
from lochan.base.keys import table_key
from lochan.base.limits.commits import MESSAGE_BYTES_MAX
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
def bench() -> Bench:
    one = Bench()
    one.fill("ns.a", "ns.b", "ns.c")
    one.branch("side")
    return one


def content(bench: Bench, name: str, spec: str = "main") -> Content:
    return bench.contents.get(ME, parse_spec(spec), key(name))[0]


def refused(bench: Bench, source: str = "side", **more: Any) -> KeysConflict:
    before = bench.head()
    with pytest.raises(KeysConflict) as caught:
        bench.merge(source, **more)
    assert bench.head() == before
    return caught.value


def pick(bench: Bench, *hashes: str, branch: str = "main", **more: Any) -> Merged:
    ask = TransplantRequest(
        branch=branch, expected=None, source="", hashes=tuple(map(parse_spec, hashes)), squash=True
    )
    return bench.run(bench.merges.cherry_pick(ME, changed_request(ask, **more)))


def rename(bench: Bench, before: str, after: str, branch: str) -> str:
    found = content(bench, before, branch)
    return bench.commit(
        Delete(key=key(before)), Put(key=key(after), content=found), branch=branch
    ).hash


def check_ids(bench: Bench, spec: str = "main") -> None:
    page = bench.contents.entries(ME, parse_spec(spec), with_content=True)
    ids = Counter(entry.content.id for entry in page.items if entry.content is not None)
    assert max(ids.values()) == 1


# Squashed picks of commits that do not follow each other


def test_a_squashed_pick_brings_the_keys_of_its_commits_only(bench):
    first = bench.change("ns.a", "one", branch="side").hash
    bench.change("ns.b", "nobody asked for it", branch="side")
    last = bench.change("ns.c", "three", branch="side").hash
    pick(bench, first, last)
    assert bench.state() == {"ns": "", "ns.a": "one", "ns.b": "ns.b", "ns.c": "three"}


def test_a_squashed_pick_in_reversed_order_loses_no_key(bench):
    first = bench.commit(new("ns.x"), branch="side").hash
    last = bench.commit(new("ns.y"), branch="side").hash
    pick(bench, last, first)
    assert {"ns.x", "ns.y"} <= set(bench.state())


def test_a_squashed_pick_of_several_branches_brings_all_of_them(bench):
    bench.branch("other")
    one = bench.change("ns.a", "side", branch="side").hash
    two = bench.change("ns.b", "other", branch="other").hash
    assert len(pick(bench, one, two).commits) == 1
    assert (bench.state()["ns.a"], bench.state()["ns.b"]) == ("side", "other")


def test_a_squashed_pick_is_what_its_commits_make_one_by_one(bench):
    """Changes of one key that follow each other are one change."""
    line = [bench.change("ns.a", f"{n}", branch="side").hash for n in range(3)]
    bench.change("ns.a", "elsewhere")
    refusal = None
    try:
        pick(bench, *line)
    except KeysConflict as error:
        refusal = error
    assert refusal is not None
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a")]
    (conflict,) = details(refusal)
    assert conflict.source == moved(content(bench, "ns.a", "side"), "2")


def test_changes_of_one_key_that_do_not_follow_each_other_are_a_conflict_squashed_or_not(bench):
    first = bench.change("ns.a", "one", branch="side").hash
    bench.change("ns.a", "two", branch="side")
    last = bench.change("ns.a", "three", branch="side").hash
    for squash in (True, False):
        with pytest.raises(KeysConflict) as caught:
            pick(bench, first, last, squash=squash)
        assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]


# Expected and resolved contents


@pytest.mark.parametrize("squash", [True, False])
def test_a_wrong_expected_target_of_a_namespace_that_both_made_is_a_conflict(bench, squash):
    bench.commit(space("both", side="side"), branch="side")
    bench.commit(space("both", side="main"))
    wrong = content(bench, "both", "side")
    keys = {("both",): KeyResolution(expected_target=wrong)}
    assert conflicts(refused(bench, keys=keys, squash=squash)) == [("CONTENT_ID_DIFFERS", "both")]


@pytest.mark.parametrize("squash", [True, False])
def test_a_namespace_that_both_made_is_resolved_as_the_caller_says(bench, squash):
    bench.commit(space("both", side="side"), branch="side")
    bench.commit(space("both", side="main"))
    seen = content(bench, "both")
    resolved = msgspec.structs.replace(seen, properties={"side": "both"})
    keys = {("both",): KeyResolution(expected_target=seen, resolved=resolved)}
    bench.merge("side", keys=keys, squash=squash)
    assert content(bench, "both") == resolved


@pytest.mark.parametrize("is_resolved", [True, False])
def test_a_key_that_a_replay_changes_twice_may_have_an_expected_target(bench, is_resolved):
    bench.change("ns.a", "one", branch="side")
    bench.change("ns.a", "two", branch="side")
    bench.change("ns.a", "main")
    wish = KeyResolution(expected_target=content(bench, "ns.a"))
    if is_resolved:
        wish = msgspec.structs.replace(wish, resolved=moved(content(bench, "ns.a"), "resolved"))
    done = bench.merge("side", keys={A: wish}, squash=False)
    assert done.applied
    assert bench.state()["ns.a"] == ("resolved" if is_resolved else "two")


def test_a_wrong_expected_target_of_a_replay_is_one_conflict(bench):
    bench.change("ns.a", "one", branch="side")
    bench.change("ns.a", "two", branch="side")
    seen = content(bench, "ns.a")
    bench.change("ns.a", "main")
    keys = {A: KeyResolution(expected_target=seen, resolved=moved(seen, "resolved"))}
    assert conflicts(refused(bench, keys=keys, squash=False)) == [("VALUE_DIFFERS", "ns.a")]


def test_a_replay_takes_the_target_for_all_changes_of_a_key(bench):
    """Though a later one of them starts from what the target holds."""
    for where in ("one", "main", "three"):
        bench.change("ns.a", where, branch="side")
    bench.change("ns.a", "main")
    bench.merge("side", squash=False, default="TAKE_TARGET_ON_CONFLICT")
    assert bench.state()["ns.a"] == "main"


def test_a_resolved_content_has_the_id_of_one_of_the_sides_or_a_new_one(bench):
    bench.change("ns.a", "side", branch="side")
    bench.change("ns.a", "main")
    stolen = moved(content(bench, "ns.b"), "stolen")
    keys = {A: KeyResolution(expected_target=content(bench, "ns.a"), resolved=stolen)}
    before = bench.head()
    with pytest.raises(Invalid, match="neither side"):
        bench.merge("side", keys=keys)
    assert bench.head() == before


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_with_nothing_left_to_do_needs_no_resolution(bench, squash):
    """Two clients resolve the same conflict in the same way; the second finds it done."""
    bench.change("ns.a", "side", branch="side")
    bench.change("ns.a", "main")
    seen = content(bench, "ns.a")
    keys = {A: KeyResolution(expected_target=seen, resolved=moved(seen, "resolved"))}
    bench.merge("side", keys=keys, squash=squash)
    rename(bench, "ns.a", "ns.renamed", "main")
    told = bench.merge("side", keys=keys, squash=squash)
    assert (told.successful, told.applied) == (True, False)


def test_a_wrong_expected_target_is_compared_with_the_target_and_not_with_the_base(bench):
    bench.remove("ns.a", branch="side")
    bench.commit(new("ns.n"), branch="side")
    keys = {key("ns.n"): KeyResolution(expected_target=content(bench, "ns.n", "side"))}
    assert conflicts(refused(bench, keys=keys)) == [("KEY_DOES_NOT_EXIST", "ns.n")]
    keys = {A: KeyResolution(expected_target=None)}
    assert conflicts(refused(bench, keys=keys)) == [("KEY_EXISTS", "ns.a")]


# One key for one content


@pytest.mark.parametrize("squash", [True, False])
def test_a_content_that_both_sides_renamed_is_a_conflict(bench, squash):
    rename(bench, "ns.a", "ns.source", "side")
    rename(bench, "ns.a", "ns.target", "main")
    refusal = refused(bench, squash=squash)
    assert conflicts(refusal) == [("KEY_CONFLICT", "ns.source")]
    assert "ns.target" in refusal.message
    told = bench.merge("side", squash=squash, conflicts_as_result=True)
    assert not told.successful


@pytest.mark.parametrize("behaviour", ["DROP", "TAKE_TARGET_ON_CONFLICT"])
@pytest.mark.parametrize("squash", [True, False])
def test_a_content_that_both_sides_renamed_may_keep_the_name_of_the_target(
    bench, squash, behaviour
):
    rename(bench, "ns.a", "ns.source", "side")
    bench.change("ns.b", "side", branch="side")
    rename(bench, "ns.a", "ns.target", "main")
    keys = {key("ns.source"): KeyResolution(behaviour=behaviour)}
    bench.merge("side", squash=squash, keys=keys)
    assert {"ns.target", "ns.b", "ns.c"} == set(bench.state()) - {"ns"}
    assert bench.state()["ns.b"] == "side"
    check_ids(bench)


def test_a_rename_whose_old_key_is_kept_is_a_conflict(bench):
    rename(bench, "ns.a", "ns.source", "side")
    assert conflicts(refused(bench, keys={A: KeyResolution(behaviour="DROP")})) == [
        ("KEY_CONFLICT", "ns.source")
    ]
    bench.change("ns.a", "main")
    keys = {A: KeyResolution(behaviour="TAKE_TARGET_ON_CONFLICT")}
    assert conflicts(refused(bench, keys=keys)) == [("KEY_CONFLICT", "ns.source")]
    bench.merge("side", default="TAKE_TARGET_ON_CONFLICT")
    assert "ns.source" not in bench.state()
    check_ids(bench)


def test_a_rename_of_one_side_is_merged_and_may_be_renamed_again(bench):
    rename(bench, "ns.a", "ns.x", "side")
    rename(bench, "ns.x", "ns.y", "side")
    bench.merge("side", squash=False)
    assert "ns.y" in bench.state()
    check_ids(bench)


def test_a_key_that_is_shared_only_after_another_was_dropped_is_dropped_too(bench):
    made = bench.commit(new("ns.u"), branch="side").hash
    renamed = rename(bench, "ns.u", "ns.v", "side")
    pick(bench, made)
    pick(bench, renamed, made, squash=False, default="TAKE_TARGET_ON_CONFLICT")
    check_ids(bench)


def test_a_pick_of_a_creation_after_a_rename_is_a_conflict(bench):
    made = bench.commit(new("ns.n"), branch="side").hash
    pick(bench, made)
    rename(bench, "ns.n", "ns.renamed", "main")
    with pytest.raises(KeysConflict) as caught:
        pick(bench, made)
    assert conflicts(caught.value) == [("KEY_CONFLICT", "ns.n")]
    with pytest.raises(KeysConflict):
        bench.merge("side")
    check_ids(bench)


def test_a_revert_of_a_rename_that_was_renamed_since_is_a_conflict(bench):
    done = rename(bench, "ns.a", "ns.x", "main")
    rename(bench, "ns.x", "ns.y", "main")
    ask = RevertRequest(branch="main", expected=None, hashes=(parse_spec(done),))
    with pytest.raises(KeysConflict) as caught:
        bench.run(bench.merges.revert(ME, ask))
    assert conflicts(caught.value) == [("KEY_CONFLICT", "ns.a")]
    check_ids(bench)


def test_a_rebase_of_a_rename_meets_a_rename_of_the_other_side(bench):
    rename(bench, "ns.a", "ns.source", "side")
    rename(bench, "ns.a", "ns.target", "main")
    with pytest.raises(KeysConflict) as caught:
        bench.merges.rebase(ME, RebaseRequest(branch="side", onto=parse_spec("main")))
    assert conflicts(caught.value) == [("KEY_CONFLICT", "ns.source")]


class Foreign:
    """A proposal that puts a table with an id that is no UUID, as only an import does."""

    incarnation = None

    def __init__(self, bench: Bench) -> None:
        self._types = ContentTypes()
        self._context = bench.repository.context

    def plan(self, head: Head) -> list[CommitPlan]:
        content = table("foreign", "not a uuid")
        value = self._types.encode(content, "not a uuid")
        element = pack_table(self._types.payload_of(content), value[0], None)
        operation = Operation(bytes(table_key(key("ns.f"))), element)
        return [CommitPlan([operation], "import", objects=[value])]


def test_ids_that_are_no_uuid_are_looked_at_too(bench):
    (published,) = bench.publisher(RefName("main")).publish([Foreign(bench)])
    assert isinstance(published, Published)
    bench.branch("other")
    rename(bench, "ns.f", "ns.source", "other")
    rename(bench, "ns.f", "ns.target", "main")
    assert conflicts(refused(bench, "other")) == [("KEY_CONFLICT", "ns.source")]


# Messages that are made here


def test_a_squash_of_many_commits_has_a_message_within_the_limit(bench):
    line = [bench.change("ns.a", f"{n}", branch="side", message="é" * 200).hash for n in range(450)]
    pick(bench, *line)
    message = bench.messages()[0]
    assert len(message.encode()) <= MESSAGE_BYTES_MAX
    assert line[0] in message
    assert line[-1] not in message
    assert "more" in message.splitlines()[-1]


def test_a_squash_with_a_message_of_the_longest_kind_keeps_it(bench):
    line = [bench.change("ns.a", f"{n}", branch="side").hash for n in range(2)]
    longest = "x" * MESSAGE_BYTES_MAX
    pick(bench, *line, meta=CommitMeta(message=longest))
    assert bench.messages()[0] == longest


def test_a_commit_with_a_long_title_can_be_reverted(bench):
    done = bench.change("ns.a", "wrong", message="x" * MESSAGE_BYTES_MAX)
    ask = RevertRequest(branch="main", expected=None, hashes=(parse_spec(done.hash),))
    bench.run(bench.merges.revert(ME, ask))
    assert bench.state()["ns.a"] == "ns.a"
    assert bench.messages()[0].startswith(f"Revert {done.hash}: xxx")
