"""Resets of staged files, and the sweep of what dead tokens leave behind."""

from __future__ import annotations

import pytest

from lochan.base.errors import StagedWork
from lochan.base.keys import file_key
from lochan.kernel.provenance import Initiator
from lochan.staging.committer import CommitTexts
from lochan.staging.sweeper import sweep_tokens
from tests.staging.workbench import HOUR_US, MAIN, SIDE, StagingBench

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
    from tests.staging.workbench import entry_of

    return RecordWrite(file_key(path), encode_file(entry_of(path)))
