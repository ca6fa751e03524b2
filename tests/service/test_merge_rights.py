"""Rights over keys in merges and moves of whole branches: what lacks one is refused as a whole.

Nothing is written then, and the refusal names nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from lochan.access.policy import Action, Call
from lochan.base.errors import KeysConflict
from lochan.model.commits import Delete, Put, RecordJob
from lochan.model.requests import (
    KeyResolution,
    NewReference,
    RevertRequest,
)
from lochan.service.repository import Repository
from tests.service.bench import ME, Bench, details, key
from tests.service.key_policies import ANY_REFERENCE, CANARY, limited, shown, written
from tests.service.rights_world import (
    ADDED,
    CALLS,
    CHANGED,
    DELETE,
    MAIN,
    MERGES,
    MOVES,
    READ,
    REMOVED,
    SIDE,
    WHOLE,
    WRITE,
    assign,
    do,
    fast_forward,
    force,
    line,
    merge,
    parted,
    rebase,
    refused,
    transplant,
)


@pytest.fixture
def bench() -> Bench:
    return parted()


@CALLS
@pytest.mark.parametrize("name", [*MERGES, *MOVES])
@pytest.mark.parametrize(
    "missing", [(WRITE, "main", CHANGED), (WRITE, "main", ADDED), (DELETE, "main", REMOVED)]
)
def test_one_key_that_may_not_be_written_in_the_target_refuses_the_whole(
    bench, name, missing, call
):
    server, policy, counts = limited(bench, missing)
    before = bench.head("main")
    refused(server, (MERGES | MOVES)[name], call)
    assert not written(counts)
    assert bench.head("main") == before
    assert policy.audited == [(missing[0], "main")]


@CALLS
@pytest.mark.parametrize("name", MERGES)
@pytest.mark.parametrize("missing", [CHANGED, ADDED, REMOVED])
def test_one_key_that_may_not_be_read_in_the_source_refuses_the_whole(bench, name, missing, call):
    server, policy, counts = limited(bench, (READ, "side", missing))
    refused(server, MERGES[name], call)
    assert not written(counts)
    assert policy.audited == [(READ, "side")]


@pytest.mark.parametrize("name", MERGES)
def test_a_denial_comes_before_any_conflict(bench, name):
    bench.change("ns.a", "main")
    for missing in [(READ, "side", CHANGED), (WRITE, "main", ADDED), (DELETE, "main", REMOVED)]:
        server, _, _ = limited(bench, missing)
        refused(server, MERGES[name])


@pytest.mark.parametrize("name", MERGES)
def test_rights_over_keys_that_do_not_change_are_not_needed(bench, name):
    server, _, _ = limited(
        bench, (READ, "side", "ns.b"), (WRITE, "main", "ns.t9"), (DELETE, "main", CHANGED)
    )
    answer = do(server, MERGES[name])
    assert answer.successful


def test_what_the_target_holds_already_needs_no_right(bench):
    """Of what side has changed, main has all but one key."""
    assert do(bench, merge).applied
    bench.change("ns.b", "later", branch="side")
    server, _, _ = limited(bench, (WRITE, "main", CHANGED), (DELETE, "main", REMOVED))
    assert do(server, transplant).successful


def test_a_key_that_is_dropped_is_read_but_not_written(bench):
    dropped = {key(CHANGED): KeyResolution(behaviour="DROP")}
    server, _, _ = limited(bench, (READ, "side", CHANGED))
    refused(server, lambda one, call: merge(one, call, keys=dropped))
    server, _, _ = limited(bench, (WRITE, "main", CHANGED))
    assert do(server, lambda one, call: merge(one, call, keys=dropped)).applied


def test_a_choice_does_not_show_whether_a_hidden_key_was_changed(bench):
    """`ns.b` was not changed, which is an error of the caller, if the caller may know that."""
    bench.fill(f"ns.{CANARY}4")
    for hidden in (CHANGED, f"ns.{CANARY}4"):
        server, _, _ = limited(bench, (READ, "side", hidden))
        keys = {key(hidden): KeyResolution(behaviour="FORCE")}
        error = refused(server, partial(merge, keys=keys))
        assert "may not" in error.message


def both_changed(bench: Bench) -> None:
    bench.change(CHANGED, f"{CANARY} of main")


@pytest.mark.parametrize("name", sorted({*MERGES, "rebase"} - {"merge by force"}))
def test_a_conflict_shows_no_content_that_may_not_be_read_in_the_target(bench, name):
    """The source and its keys may be read, the key in the target may only be written."""
    both_changed(bench)
    server, _, counts = limited(bench, (READ, "main", CHANGED))
    refused(server, (MERGES | MOVES)[name])
    assert not written(counts)


@pytest.mark.parametrize("name", MERGES)
def test_a_key_in_conflict_needs_the_right_to_write_it(bench, name):
    both_changed(bench)
    server, _, counts = limited(bench, (WRITE, "main", CHANGED))
    refused(server, MERGES[name])
    assert not written(counts)


def test_a_conflict_shows_keys_that_may_be_read(bench):
    bench.change("ns.a", "main")
    server, _, _ = limited(bench, (READ, "main", "ns.t9"), (WRITE, "main", "ns.t9"))
    with pytest.raises(KeysConflict) as caught:
        do(server, merge)
    (conflict,) = details(caught.value)
    assert conflict.key == key("ns.a")
    assert conflict.target is not None


def test_a_caller_that_names_what_the_target_holds_must_be_allowed_to_read_it(bench):
    both_changed(bench)
    known, _ = bench.contents.get(ME, MAIN, key(CHANGED))
    keys = {key(CHANGED): KeyResolution(expected_target=known, resolved=known)}
    server, _, _ = limited(bench, (READ, "main", CHANGED))
    error = refused(server, lambda one, call: merge(one, call, keys=keys))
    assert "may not read" in error.message


def test_a_content_that_is_under_a_hidden_key_already_is_not_named(bench):
    """Both sides have renamed one content; the other key is hidden."""
    old, _ = bench.contents.get(ME, SIDE, key("ns.b"))
    for branch, name in (("main", f"ns.{CANARY}5"), ("side", "ns.renamed")):
        bench.commit(Delete(key=key("ns.b")), Put(key=key(name), content=old), branch=branch)
    with pytest.raises(KeysConflict, match=CANARY):
        do(bench, merge)
    server, _, _ = limited(bench, (READ, "main", f"ns.{CANARY}5"))
    refused(server, merge)


@pytest.mark.parametrize("name", MERGES)
def test_two_branches_with_hidden_keys_are_not_merged(bench, name):
    """Neither side of a merge may be used to get at the other."""
    hidden = [(action, ANY_REFERENCE, "ns") for action in (READ, WRITE, DELETE)]
    server, _, counts = limited(bench, *hidden)
    refused(server, MERGES[name])
    assert not written(counts)


# Whole branches: what may be seen under the target afterwards.


@CALLS
@pytest.mark.parametrize("action", [READ, Action.READ_ENTRIES])
@pytest.mark.parametrize("name", WHOLE)
def test_a_source_that_may_be_read_in_part_is_not_taken_as_a_whole(bench, name, action, call):
    """The key is far away from what differs; under the new name it could be read."""
    server, _, counts = limited(bench, (action, "side", "ns.t9"))
    error = refused(server, WHOLE[name], call)
    assert "ns.t9" not in shown(error)
    assert not written(counts)
    assert [one.name for one in bench.references.list(ME).items] == ["main", "old", "side"]


@pytest.mark.parametrize("name", WHOLE)
def test_a_source_is_taken_as_a_whole_where_the_rights_to_read_stay_the_same(bench, name):
    hidden = [(one, ANY_REFERENCE, "ns.t9") for one in (READ, Action.READ_ENTRIES)]
    server, _, _ = limited(bench, *hidden)
    do(server, WHOLE[name])
    if name in MOVES and name != "rebase dry":
        assert bench.head("main") == bench.head("side")


LOG = Action.READ_LOG
QUOTES = sorted(name for name in MERGES if name.startswith(("transplant", "cherry", "merge rep")))


@CALLS
@pytest.mark.parametrize("name", [*WHOLE, *QUOTES])
def test_messages_that_may_not_be_read_are_not_copied(bench, name, call):
    """They would be in the log of the target."""
    write = (WHOLE | MERGES)[name]
    server, _, counts = limited(bench, (LOG, "side", "ns"))
    refused(server, write, call)
    assert not written(counts)
    server, _, _ = limited(bench, (LOG, ANY_REFERENCE, "ns"))
    do(server, write, call)


@pytest.mark.parametrize("name", sorted({*MERGES} - {*QUOTES}))
def test_a_merge_as_one_commit_quotes_no_message(bench, name):
    server, _, _ = limited(bench, (LOG, "side", "ns"))
    answer = do(server, MERGES[name])
    assert answer.successful
    assert not answer.applied or CANARY not in bench.messages("main")[0]


def test_a_bare_branch_has_no_source_to_be_read(bench):
    server, _, _ = limited(bench, (READ, ANY_REFERENCE, "ns"))
    bare = NewReference(name="bare", source=None)
    assert do(server, lambda one, call: one.references.create(call, bare)).name == "bare"


def test_a_rebase_needs_rights_over_what_the_branch_gets(bench):
    """Its own commits are made again, so only the keys of the other branch change."""
    bench.change("ns.t5", "main")
    allowed, _, _ = limited(bench, (WRITE, "main", "ns.t5"))
    do(allowed, lambda one, call: rebase(one, call, dry_run=True))
    server, _, counts = limited(bench, (WRITE, "main", CHANGED))
    refused(server, rebase)
    assert not written(counts)
    assert do(allowed, rebase).applied
    assert bench.state("main")["ns.t5"] == "main"


def test_records_of_jobs_do_not_change_beside_rights(bench):
    """The job has written the same content again: only its record differs."""
    put = bench.changed(CHANGED, f"{CANARY} changed", "side")
    job = RecordJob(key=key(CHANGED), job="nightly")
    bench.references.assign(ME, "main", None, SIDE)
    bench.commit(put, job, branch="side")
    server, _, _ = limited(bench, (WRITE, "main", CHANGED))
    for write in (assign, force, fast_forward):
        refused(server, write)


@pytest.mark.parametrize(
    "missing", [(READ, "side", CHANGED), (WRITE, "side", CHANGED), (WRITE, "side", "ns.a")]
)
def test_a_revert_needs_rights_over_the_keys_that_come_back(bench, missing):
    def revert(one: Repository, call: Call) -> Any:
        request = RevertRequest(branch="side", hashes=line(one)[:2][::-1])
        return one.merges.revert(call, request)

    server, _, counts = limited(bench, missing)
    refused(server, revert)
    assert not written(counts)
    server, _, _ = limited(bench, (READ, "main", CHANGED), (DELETE, "side", CHANGED))
    assert do(server, revert).applied
