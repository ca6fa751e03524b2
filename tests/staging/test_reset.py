"""Resets of staged files, and the sweep of what dead tokens leave behind."""

from __future__ import annotations

import pytest

from lochan.base.errors import (
    ConditionFailed,
    KeysConflict,
    NothingToCommit,
    StagedWork,
    Unavailable,
    Unknown,
)
from lochan.base.ids import INSTANCE_ID_BYTES
from lochan.base.keys import file_key
from lochan.base.limits.commits import COMMIT_OWN_KEYS_MAX
from lochan.kernel.provenance import Initiator
from lochan.kv.store import Kind
from lochan.staging.committer import CommitTexts
from lochan.staging.conditions import IfAbsent, IfMatches
from lochan.staging.sweeper import sweep_tokens
from lochan.testing.faults import Fault, FaultKind, FaultyStore
from tests.kernel.workbench import OnCalls
from tests.staging.test_listing import listed
from tests.staging.test_merges import merge
from tests.staging.workbench import HOUR_US, MAIN, SIDE, FilePut, StagingBench, entry_of

WHO = Initiator("test")


@pytest.fixture
def bench():
    bench = StagingBench()
    bench.put("a/1", "old")
    bench.put("b/1", "old")
    bench.commit_files()
    bench.put("a/1", "new")
    bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    bench.put("a/2", "new")
    bench.delete("b/1")
    return bench


def changed(bench):
    return [one.path for one in bench.staging.uncommitted.page(MAIN).changes]


def test_a_reset_branch_shows_its_head(bench):
    bench.staging.resets.reset_branch(MAIN)
    assert [bench.read(path) for path in ("a/1", "a/2", "b/1")] == ["old", None, "old"]
    assert changed(bench) == []
    assert bench.row().sealed_tokens == ()
    bench.staging.resets.reset_branch(MAIN)
    bench.put("c")
    bench.commit_files()
    assert bench.files() == {"a/1": "old", "b/1": "old", "c": "c"}


def test_a_reset_prefix_leaves_the_rest_staged(bench):
    assert bench.staging.resets.reset_prefix(MAIN, "a/") == 2
    assert changed(bench) == ["b/1"]
    assert [bench.read(path) for path in ("a/1", "a/2", "b/1")] == ["old", None, None]
    assert bench.staging.resets.reset_prefix(MAIN, "a/") == 0
    bench.commit_files()
    assert bench.files() == {"a/1": "old"}


def test_a_reset_file_leaves_the_rest_staged(bench):
    assert bench.staging.resets.reset_key(MAIN, file_key("b/1"))
    assert not bench.staging.resets.reset_key(MAIN, file_key("b/1"))
    assert not bench.staging.resets.reset_key(MAIN, file_key("nothing"))
    assert changed(bench) == ["a/1", "a/2"]


def test_after_a_reset_nothing_is_staged_so_a_merge_is_no_conflict(bench):
    bench.branch(SIDE)
    for path in ("a/1", "a/2"):
        bench.put(path, "side", SIDE)
    bench.delete("b/1", SIDE)
    bench.commit_files(branch=SIDE)
    with pytest.raises(KeysConflict, match="2 files are staged"):
        merge(bench)
    bench.staging.resets.reset_prefix(MAIN, "a/")
    bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    bench.put("b/1", "again")
    bench.staging.resets.reset_key(MAIN, file_key("b/1"))
    merge(bench)
    assert [bench.read(path) for path in ("a/1", "a/2", "b/1")] == ["side", "side", None]
    assert listed(bench) == [("a/1", "side"), ("a/2", "side")]
    assert changed(bench) == []
    with pytest.raises(NothingToCommit):
        bench.commit_files()
    assert bench.row().sealed_tokens == ()


def test_a_reset_gives_up_a_file_that_is_as_the_head_has_it(bench):
    bench.put("b/1", "old")
    assert bench.staging.resets.reset_key(MAIN, file_key("b/1"))
    bench.branch(SIDE)
    bench.put("b/1", "side", SIDE)
    bench.commit_files(branch=SIDE)
    merge(bench)
    assert bench.read("b/1") == "side"


def test_a_commit_beside_a_reset_leaves_nothing_staged(bench):
    """What was sealed before the reset is published, and nothing is staged over it."""
    commit = bench.staging.committer.prepare(MAIN, CommitTexts("beside"))
    assert bench.staging.resets.reset_key(MAIN, file_key("a/1"))
    assert bench.read("a/1") == "old"
    bench.publisher.publish([commit])
    assert bench.read("a/1") == "new"
    assert changed(bench) == []


def test_conditions_look_through_a_reset_at_the_head(bench):
    writer, resets = bench.staging.writer, bench.staging.resets
    resets.reset_prefix(MAIN, "")
    for path, condition in (("a/1", IfAbsent()), ("a/2", IfMatches())):
        with pytest.raises(ConditionFailed):
            writer.put(MAIN, file_key(path), entry_of("new"), condition)
    writer.put(MAIN, file_key("a/1"), entry_of("new"), IfMatches("etag-old"))
    writer.put(MAIN, file_key("a/2"), entry_of("new"), IfAbsent())
    assert [bench.read(path) for path in ("a/1", "a/2", "b/1")] == ["new", "new", "old"]
    assert bench.delete("b/1")
    resets.reset_key(MAIN, file_key("b/1"))
    writer.put(MAIN, file_key("b/1"), entry_of("new"), IfMatches("etag-old"))
    assert changed(bench) == ["a/1", "a/2", "b/1"]


@pytest.mark.parametrize("count", [3, 3 * COMMIT_OWN_KEYS_MAX], ids=["few files", "many files"])
def test_a_commit_leaves_out_what_was_reset(count):
    bench = StagingBench()
    bench.put("kept", "old")
    bench.commit_files()
    paths = [f"f{number:05}" for number in range(count)]
    bench.staging.writer.put_many(MAIN, [(file_key(path), entry_of("x")) for path in paths])
    bench.put("kept", "new")
    bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    for path in (paths[1], "kept"):
        assert bench.staging.resets.reset_key(MAIN, file_key(path))
    bench.commit_files()
    expected = dict.fromkeys(paths, "x") | {"kept": "old"}
    del expected[paths[1]]
    assert bench.files() == expected
    assert listed(bench) == sorted(expected.items())


def test_a_hard_reset_refuses_staged_work_unless_told(bench):
    first = bench.head().obj_id
    with pytest.raises(StagedWork):
        bench.staging.resets.hard_reset(MAIN, first, WHO)
    assert changed(bench) == ["a/1", "a/2", "b/1"]
    bench.staging.resets.hard_reset(MAIN, first, WHO, discard_staged=True)
    assert changed(bench) == []
    assert bench.read("a/1") == "old"
    assert bench.row().moves[-1].kind == "reset"


def test_a_hard_reset_of_a_clean_branch_leaves_no_record_that_would_be_a_change(bench):
    first = bench.head().obj_id
    bench.commit_files()
    bench.put("a/1", "new")
    bench.staging.resets.hard_reset(MAIN, first, WHO)
    assert changed(bench) == []
    assert bench.read("a/1") == "old"


def test_dead_tokens_are_dropped_twice_an_hour_apart(bench):
    bench.commit_files()
    alive = bench.row().staging_token
    dead = [token for token in bench.partitions() if token != alive]
    sweep_tokens(bench.context)
    assert sum(bench.partitions().values()) > 0
    bench.clock.advance_us(HOUR_US)
    sweep_tokens(bench.context)
    assert set(bench.partitions().values()) == {0}
    assert set(bench.partitions()) == {alive, *dead}
    # A writer that was late.
    bench.staging.writer._records.put_each(dead[0], [write("late")])
    sweep_tokens(bench.context)
    assert sum(bench.partitions().values()) == 1
    bench.clock.advance_us(HOUR_US)
    assert sweep_tokens(bench.context).removed == len(dead)
    assert bench.partitions() == {alive: 0}
    assert list(bench.records.iterate(dead[0])) == []
    bench.put("c")
    bench.clock.advance_us(10 * HOUR_US)
    sweep_tokens(bench.context)
    assert bench.read("c") == "c"


def test_tokens_of_deleted_branches_are_swept(bench):
    bench.branch(SIDE)
    bench.put("x", branch=SIDE)
    bench.staging.committer.prepare(SIDE, CommitTexts("sealed"))
    bench.put("y", branch=SIDE)
    bench.drop(SIDE)
    bench.branch(SIDE)
    bench.put("z", branch=SIDE)
    for _ in range(2):
        bench.clock.advance_us(HOUR_US)
        sweep_tokens(bench.context)
    assert bench.read("z", SIDE) == "z"
    names = [found.row.name for found in bench.token_rows.scan(b"", 100).rows]
    assert names.count(SIDE) == 1


def write(path):
    from lochan.codec.elements import encode_file
    from lochan.persist.staged import RecordWrite

    return RecordWrite(file_key(path), encode_file(entry_of(path)))


def test_a_reset_that_gives_up_after_its_first_put_is_unknown(bench):
    """An error that states "nothing was changed" would be wrong: a file was reset."""
    cleared = []

    def choose(call):
        if call.operation == "set_if" and call.key == file_key("a/2"):
            cleared.append(call)
        # Then it reads the row of the branch, to see whether its token was sealed meanwhile.
        return FaultKind.NOT_APPLIED if cleared and call.operation == "get" else None

    server = bench.other(FaultyStore(bench.store, OnCalls(choose)))
    with pytest.raises(Unknown):
        server.staging.resets.reset_key(MAIN, file_key("a/2"))
    assert cleared
    assert bench.read("a/2") is None
    server = bench.other(
        FaultyStore(
            bench.store,
            OnCalls(lambda call: FaultKind.NOT_APPLIED if call.operation == "scan" else None),
        )
    )
    with pytest.raises(Unavailable):
        server.staging.resets.reset_key(MAIN, file_key("a/1"))
    assert bench.read("a/1") == "new"


def test_a_write_whose_outcome_is_unknown_loses_to_a_reset_of_its_path(bench):
    """The reset finds nothing staged; the write is still under way, and takes effect later."""

    def choose(call):
        if call.operation == "set_if" and call.key == file_key("late"):
            return Fault(FaultKind.LATE, 1_000)
        return FaultKind.NOT_APPLIED if call.operation == "get" and late.late_writes else None

    late = FaultyStore(bench.store, OnCalls(choose))
    with pytest.raises(Unknown):
        bench.other(late).put("late", "late")
    assert late.late_writes
    assert not bench.staging.resets.reset_key(MAIN, file_key("late"))
    late.settle()
    assert bench.read("late") is None
    assert listed(bench) == [("a/1", "new"), ("a/2", "new")]


@pytest.mark.parametrize(
    "look",
    [lambda server: server.read("a/1"), lambda server: dict(listed(server)).get("a/1")],
    ids=["a reader", "a listing"],
)
def test_a_file_that_was_reset_is_not_shown_as_an_older_head_has_it(bench, look):
    """Between the reads of the row and of its records the head moves, and then the file is reset.

    So the branch shows first the staged file, then that of the new head, and never the old one.
    """
    begun = []

    def choose(call):
        if not begun and call.partition and call.partition[INSTANCE_ID_BYTES] == Kind.STAGING:
            begun.append(call)
            bench.publisher.publish([FilePut("a/1", "merged")])
            assert bench.staging.resets.reset_key(MAIN, file_key("a/1"))

    server = bench.other(FaultyStore(bench.store, OnCalls(choose)))
    assert look(server) == "merged"
    assert begun
