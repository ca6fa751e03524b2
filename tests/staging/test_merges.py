"""Merges, reverts and picks of branches that have staged files; identity of files."""

from __future__ import annotations

import pytest

from lochan.base.errors import KeysConflict
from lochan.base.ids import ObjId
from lochan.base.keys import file_key
from lochan.base.names import ref_name
from lochan.kernel.changes import diff_commits
from lochan.kernel.merge import CarryProposal, MergeProposal, reverted
from lochan.kernel.merge_choices import Choices
from lochan.kernel.preparation import Preparation, publish_prepared
from lochan.kernel.publish import Published, Publisher
from lochan.model.entries import FileEntry
from lochan.staging.committer import CommitTexts
from tests.staging.workbench import MAIN, SIDE, StagingBench, TablePut, entry_of

OTHER = ref_name("other")


@pytest.fixture
def bench():
    bench = StagingBench()
    for path in ("a", "b", "c"):
        bench.put(path, "old")
    bench.commit_files()
    bench.branch(SIDE)
    return bench


def merge(bench, source=SIDE, target=MAIN):
    view = bench.context.views.load(ObjId(bench.row(source).pointer))
    proposal = MergeProposal(bench.context, view, "merge", Choices())
    (settled,) = Publisher(bench.context, target).publish([proposal])
    if not isinstance(settled, Published):
        raise settled
    return settled


def test_staged_files_that_a_merge_changes_are_a_conflict_and_the_others_stay_on_top(bench):
    bench.put("a", "side", SIDE)
    bench.delete("b", SIDE)
    bench.commit_files(branch=SIDE)
    bench.put("a", "mine")
    bench.put("d", "mine")
    with pytest.raises(KeysConflict, match="1 file is staged") as raised:
        merge(bench)
    assert [getattr(one, "key", None) for one in raised.value.details] == [file_key("a")]
    bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    with pytest.raises(KeysConflict):
        merge(bench)
    bench.staging.resets.reset_branch(MAIN)
    bench.put("d", "mine")
    bench.put("c", "mine")
    merge(bench)
    shown = [bench.read(path) for path in ("a", "b", "c", "d")]
    assert shown == ["side", None, "mine", "mine"]
    bench.commit_files()
    assert bench.files() == {"a": "side", "c": "mine", "d": "mine"}


def test_what_is_staged_as_the_merge_brings_it_is_no_conflict(bench):
    bench.put("a", "same", SIDE)
    bench.delete("b", SIDE)
    bench.commit_files(branch=SIDE)
    bench.put("a", "same")
    bench.delete("b")
    merge(bench)
    assert bench.staging.uncommitted.is_clean(MAIN)


def test_a_revert_of_staged_files_is_a_conflict(bench):
    first = bench.head()
    carried = [reverted(bench.context, first, "revert")]
    bench.put("a", "mine")
    (settled,) = bench.publisher.publish([CarryProposal(carried, Choices(), None)])
    assert isinstance(settled, KeysConflict)
    bench.staging.resets.reset_branch(MAIN)
    (settled,) = bench.publisher.publish([CarryProposal(carried, Choices(), None)])
    assert isinstance(settled, Published)
    assert bench.files() == {}


def elsewhere(content, address):
    entry = entry_of(content)
    return FileEntry(address, entry.size, 77, entry.sha256, "other")


def test_files_of_equal_identity_show_in_no_diff_and_no_merge_conflict(bench):
    base = bench.head()
    bench.staging.writer.put(SIDE, file_key("n"), elsewhere("n", "there"))
    bench.commit_files(branch=SIDE)
    bench.put("n")
    bench.put("only here")
    bench.commit_files()
    main, side = bench.head(), bench.head(SIDE)
    between = [one.key for one in diff_commits(bench.context.nodes, main, side)]
    assert between == [file_key("only here")]
    assert file_key("n") in [one.key for one in diff_commits(bench.context.nodes, base, side)]
    merge(bench)
    assert bench.files()["n"] == "n"
    bench.publisher.publish([TablePut("t")])


def test_linked_objects_are_the_same_if_etag_and_address_agree(bench):
    writer = bench.staging.writer
    linked = FileEntry("s3://b/k", 3, 1, b"", "etag")
    writer.put(MAIN, file_key("l"), linked)
    bench.commit_files()
    writer.put(MAIN, file_key("l"), FileEntry("s3://b/k", 3, 2, b"", "etag"))
    assert bench.staging.uncommitted.is_clean(MAIN)
    for other in (
        FileEntry("s3://b/other", 3, 1, b"", "etag"),
        FileEntry("s3://b/k", 3, 1, b"", "other"),
        FileEntry("s3://b/k", 3, 1, bytes(32), "etag"),
        FileEntry("s3://b/k", 3, 1, b"", "etag", (("k", "v"),)),
        FileEntry("s3://b/k", 3, 1, b"", "etag", (), "text/plain"),
    ):
        writer.put(MAIN, file_key("l"), other)
        assert not bench.staging.uncommitted.is_clean(MAIN)


def test_a_prepared_merge_finds_what_another_merge_has_brought_of_its_source(bench, monkeypatch):
    """Then the sides part later: what the source has removed since is removed."""
    bench.put("x", "1", SIDE)
    bench.commit_files(branch=SIDE)
    first = ObjId(bench.row(SIDE).pointer)
    bench.delete("x", SIDE)
    bench.put("y", "1", SIDE)
    bench.commit_files(branch=SIDE)
    for at in range(4):
        bench.put("m", f"{at}")
        bench.commit_files()
    context, publisher = bench.context, Publisher(bench.context, MAIN)
    source = context.views.load(ObjId(bench.row(SIDE).pointer))
    searched = []
    find_base = MergeProposal._find_base

    def counted(self, head):
        searched.append(head)
        return find_base(self, head)

    monkeypatch.setattr(MergeProposal, "_find_base", counted)
    preparation = Preparation(publisher, MergeProposal(context, source, "merge", Choices()))
    assert preparation.advance() is None
    assert len(searched) == 1
    bench.branch(OTHER)
    bench.put("o", "1", OTHER)
    bench.commit_files(branch=OTHER)
    merge(bench, OTHER)
    (settled,) = publisher.preview([preparation])
    assert isinstance(settled, Published)
    # One search for the other merge itself, none for the graft: it brought nothing of the source.
    assert len(searched) == 2
    brought = MergeProposal(context, context.views.load(first), "first", Choices())
    assert isinstance(publisher.publish([brought])[0], Published)
    assert bench.read("x") == "1"
    settled = publish_prepared(preparation, lambda proposal: publisher.publish([proposal])[0])
    assert isinstance(settled, Published)
    assert (bench.read("x"), bench.read("y"), bench.read("o")) == (None, "1", "1")
