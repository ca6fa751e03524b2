"""Staged files: written, read through the branch, committed; what the branch shows meanwhile."""

from __future__ import annotations

import pytest

from lochan.base.errors import (
    ConditionFailed,
    KeysConflict,
    NotABranch,
    NothingToCommit,
    PathNotFound,
    ReferenceNotFound,
)
from lochan.base.keys import file_key
from lochan.base.names import RefName
from lochan.staging.committer import CommitTexts
from lochan.staging.conditions import IfAbsent, IfMatches
from tests.staging.workbench import MAIN, SIDE, StagingBench, TablePut, entry_of, messages

TEXTS = CommitTexts("files")


@pytest.fixture
def bench():
    return StagingBench()


def test_a_staged_file_is_read_through_its_branch_and_is_in_no_commit(bench):
    entry = bench.put("a/b", "one")
    assert bench.staging.reader.get(MAIN, file_key("a/b")) == entry
    assert bench.files() == {}
    assert bench.other().read("a/b") == "one"


def test_a_file_that_is_not_there_is_not_found(bench):
    assert bench.read("a") is None
    with pytest.raises(PathNotFound, match="'a' on 'main'"):
        bench.staging.reader.get(MAIN, file_key("a"))
    with pytest.raises(ReferenceNotFound):
        bench.read("a", RefName("nowhere"))


def test_a_commit_takes_everything_that_is_staged(bench):
    bench.put("a", "one")
    bench.put("b", "two")
    bench.put("a", "three")
    published = bench.commit_files("first")
    assert bench.files() == {"a": "three", "b": "two"}
    assert [view.body.message for view in published.commits] == ["first"]
    assert bench.row().sealed_tokens == ()
    assert bench.read("a") == "three"


def test_a_deleted_file_is_gone_before_and_after_the_commit(bench):
    bench.put("a")
    bench.commit_files()
    assert bench.delete("a")
    assert bench.read("a") is None
    assert bench.files() == {"a": "a"}
    bench.commit_files()
    assert bench.files() == {}
    assert not bench.delete("a")


def test_many_files_are_staged_and_deleted_at_once(bench):
    bench.staging.writer.put_many(
        MAIN, [(file_key(f"f{n}"), entry_of(f"c{n}")) for n in range(2_500)]
    )
    assert bench.read("f2499") == "c2499"
    bench.commit_files()
    keys = [file_key(f"f{n}") for n in range(2_600)]
    bench.staging.writer.delete_many(MAIN, keys[1:])
    assert bench.staging.reader.find_many(MAIN, keys[1:]) == [None] * 2_599
    bench.commit_files()
    assert bench.files() == {"f0": "c0"}


def test_each_staging_token_has_its_own_partition_and_is_registered_before_use(bench):
    bench.put("a", "one")
    first = bench.row().staging_token
    assert bench.partitions() == {first: 1}
    commit = bench.staging.committer.prepare(MAIN, TEXTS)
    bench.put("a", "two")
    second = bench.row().staging_token
    assert bench.partitions() == {first: 1, second: 1}
    assert bench.row().sealed_tokens == (first,)
    bench.publisher.publish([commit])
    assert bench.files() == {"a": "one"}
    assert bench.read("a") == "two"


def test_sealed_tokens_are_read_the_newest_first_on_top_of_the_commit(bench):
    for content in ("one", "two", "three"):
        bench.put("a", content)
        bench.put(content)
        bench.staging.committer.prepare(MAIN, TEXTS)
    assert len(bench.row().sealed_tokens) == 3
    assert bench.read("a") == "three"
    bench.delete("a")
    assert bench.read("a") is None
    bench.staging.committer.prepare(MAIN, TEXTS)
    assert bench.read("a") is None
    assert [bench.read(name) for name in ("one", "two", "three")] == ["one", "two", "three"]
    bench.commit_files()
    assert bench.files() == {"one": "one", "two": "two", "three": "three"}


def test_a_commit_without_changes_is_refused_and_leaves_no_sealed_token(bench):
    bench.put("a")
    bench.commit_files()
    before = bench.row()
    for _ in range(1_000):
        with pytest.raises(NothingToCommit):
            bench.commit_files()
    assert bench.row() == before
    for _ in range(10):
        bench.put("a")
        with pytest.raises(NothingToCommit):
            bench.commit_files()
        assert bench.row().sealed_tokens == ()
    assert bench.row().pointer == before.pointer
    bench.delete("b")
    bench.put("b")
    bench.delete("b")
    with pytest.raises(NothingToCommit):
        bench.commit_files()


def test_an_equal_file_keeps_the_bytes_of_the_head(bench):
    bench.put("a", "one")
    bench.commit_files()
    head = bench.row().pointer
    other = entry_of("one")
    moved = type(other)("elsewhere", other.size, 99, other.sha256, "another etag")
    bench.staging.writer.put(MAIN, file_key("a"), moved)
    bench.put("b")
    bench.commit_files()
    assert bench.files() == {"a": "one", "b": "b"}
    assert bench.row().pointer != head


def test_an_empty_commit_is_made_if_it_is_allowed(bench):
    bench.commit_files("empty", allow_empty=True)
    assert messages(bench) == ["empty"]


def test_a_commit_whose_changes_another_one_took_is_empty_and_keeps_its_message(bench):
    bench.put("a")
    mine = bench.staging.committer.prepare(MAIN, CommitTexts("mine"))
    bench.put("b")
    bench.commit_files("theirs")
    (settled,) = bench.publisher.publish([mine])
    assert mine.finish(settled).commits
    assert messages(bench) == ["theirs", "mine"]
    assert bench.files() == {"a": "a", "b": "b"}


def test_a_commit_takes_what_an_earlier_one_has_left(bench):
    bench.put("a", "old")
    early = bench.staging.committer.prepare(MAIN, CommitTexts("early"))
    bench.put("b")
    late = bench.staging.committer.prepare(MAIN, CommitTexts("late"))
    bench.publisher.publish([early])
    bench.put("a", "new")
    bench.commit_files("between")
    assert bench.files()["a"] == "new"
    (settled,) = bench.publisher.publish([late])
    late.finish(settled)
    assert bench.files() == {"a": "new", "b": "b"}
    assert messages(bench) == ["early", "between", "late"]


def test_commits_of_one_chain_take_a_token_once(bench):
    bench.put("a")
    first = bench.staging.committer.prepare(MAIN, CommitTexts("first"))
    second = bench.staging.committer.prepare(MAIN, CommitTexts("second"))
    bench.put("b")
    third = bench.staging.committer.prepare(MAIN, CommitTexts("third"))
    table = TablePut("t")
    settled = bench.publisher.publish([table, first, second, table, third])
    for commit, one in zip(
        (first, second, third), (settled[1], settled[2], settled[4]), strict=True
    ):
        assert len(commit.finish(one).commits) == 1
    assert messages(bench) == ["table", "first", "second", "table", "third"]
    assert bench.row().sealed_tokens == ()
    assert bench.files() == {"a": "a", "b": "b"}


def test_a_table_commit_keeps_the_tokens_and_a_seal_keeps_the_head(bench):
    bench.put("a")
    token = bench.row().staging_token
    bench.commit()
    bench.publisher.publish([TablePut("t")])
    assert bench.row().staging_token == token
    head = bench.row().pointer
    commit = bench.staging.committer.prepare(MAIN, TEXTS)
    assert bench.row().pointer == head
    assert bench.row().sealed_tokens == (token,)
    bench.publisher.publish([TablePut("u")])
    assert bench.row().sealed_tokens == (token,)
    bench.publisher.publish([commit])
    assert bench.files() == {"a": "a"}


def test_tables_and_files_are_in_one_commit(bench):
    bench.put("a")
    published = bench.commit_files("ignored", tables=TablePut("t"))
    (view,) = published.commits
    assert view.body is not None
    assert len(view.body.own or ()) == 2
    assert messages(bench) == ["table"]


def test_a_commit_whose_tables_conflict_keeps_what_is_staged(bench):
    bench.publisher.publish([TablePut("t")])
    bench.put("a")
    for _ in range(3):
        with pytest.raises(KeysConflict):
            bench.commit_files(tables=TablePut("t", "other", absent=True))
    assert len(bench.row().sealed_tokens) == 1
    assert bench.read("a") == "a"
    bench.commit_files()
    assert bench.files() == {"a": "a"}


def test_a_write_beside_a_seal_is_put_again(bench):
    server = bench.other()
    bench.put("x")
    server.put("y")
    first = server.row().staging_token
    # This server still has the first token in memory.
    bench.staging.committer.prepare(MAIN, TEXTS)
    server.put("a", "one")
    token = server.row().staging_token
    assert token != first
    assert [key for key, _ in server.records.iterate(token)] == [file_key("a")]


def test_a_branch_that_is_created_again_has_none_of_the_old_files(bench):
    bench.branch(SIDE)
    bench.put("a", branch=SIDE)
    bench.staging.committer.prepare(SIDE, TEXTS)
    bench.put("b", branch=SIDE)
    bench.drop(SIDE)
    with pytest.raises(ReferenceNotFound):
        bench.read("a", SIDE)
    bench.branch(SIDE)
    assert bench.read("a", SIDE) is None
    assert bench.read("b", SIDE) is None
    bench.put("c", branch=SIDE)
    assert bench.row(SIDE).sealed_tokens == ()
    assert bench.read("c", SIDE) == "c"


def test_only_branches_have_staged_files(bench):
    from lochan.kernel.provenance import Initiator
    from lochan.kernel.references import NewReferenceRow

    pointer = bench.head().obj_id
    bench.names.create_many([NewReferenceRow(RefName("v1"), "TAG", pointer)], Initiator("t"))
    with pytest.raises(NotABranch):
        bench.put("a", branch=RefName("v1"))


def test_a_condition_refuses_and_nothing_is_written(bench):
    writer = bench.staging.writer
    writer.put(MAIN, file_key("a"), entry_of("one"), IfAbsent())
    with pytest.raises(ConditionFailed, match="'a' on 'main' is not as demanded: no file"):
        writer.put(MAIN, file_key("a"), entry_of("two"), IfAbsent())
    with pytest.raises(ConditionFailed):
        writer.put(MAIN, file_key("a"), entry_of("two"), IfMatches("etag-two"))
    with pytest.raises(ConditionFailed):
        writer.put(MAIN, file_key("b"), entry_of("two"), IfMatches())
    writer.put(MAIN, file_key("a"), entry_of("two"), IfMatches("etag-one", entry_of("one").sha256))
    assert bench.read("a") == "two"
    bench.commit_files()
    with pytest.raises(ConditionFailed):
        writer.put(MAIN, file_key("a"), entry_of("three"), IfAbsent())
    with pytest.raises(ConditionFailed):
        writer.delete(MAIN, file_key("a"), IfMatches("etag-one"))
    writer.delete(MAIN, file_key("a"), IfMatches("etag-two"))
    writer.put(MAIN, file_key("a"), entry_of("four"), IfAbsent())
    assert bench.read("a") == "four"
