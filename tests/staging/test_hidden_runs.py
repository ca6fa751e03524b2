"""Listings jump over ranges of deleted files that they have searched once."""

from __future__ import annotations

from threading import Lock

import pytest

from lochan.base.keys import file_key
from lochan.base.limits.staging import LISTING_HIDDEN_MAX, LISTING_SEALED_MAX
from lochan.kv.observe import ObservedStore
from lochan.service.file_pages import PathSelection
from lochan.staging.committer import CommitTexts
from lochan.staging.hidden_runs import HiddenRuns, RunBase
from lochan.staging.listing import BranchListings
from lochan.stores.rocksdb.options import Parameters
from lochan.stores.rocksdb.store import RocksStore
from lochan.testing.call_counts import CallCounts
from tests.staging.test_listing import page_of
from tests.staging.test_merges import merge
from tests.staging.workbench import MAIN, SIDE, StagingBench, TablePut, entry_of

EVERYTHING = PathSelection()
MANY = LISTING_HIDDEN_MAX + 500


def with_deleted(count, *, committed, store=None):
    """A branch with many deleted files before the first one that is there."""
    bench = StagingBench(store)
    gone = [file_key(f"d/{number:06}") for number in range(count)]
    there = [(file_key(f"z/{number:04}"), entry_of("z")) for number in range(1_000)]
    bench.staging.writer.put_many(MAIN, [*((key, entry_of("d")) for key in gone), *there])
    if committed:
        bench.commit_files()
    for start in range(0, count, 1_000):
        bench.staging.writer.delete_many(MAIN, gone[start : start + 1_000])
    return bench


def paths(bench, limit=1_000, selection=EVERYTHING):
    """All that is listed, and the number of requests that it took."""
    found, requests = [], 0
    at = selection.range().start
    while at is not None:
        page = page_of(bench, selection, at, limit)
        requests, at = requests + 1, page.next_start
        found += [path for path, _ in page.items]
    return found, requests


def opened(kind, directory):
    return RocksStore(directory / "store", Parameters()) if kind == "rocksdb" else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "committed"),
    [("memory", False), ("rocksdb", True)],
    ids=["never committed, in memory", "committed, on RocksDB"],
)
def test_a_page_behind_100_000_deleted_files_costs_what_it_shows(
    committed, kind, tmp_path, record_property
):
    bench = with_deleted(100_000, committed=committed, store=opened(kind, tmp_path))
    counts = CallCounts()
    server = bench.other(ObservedStore(bench.store, counts, bench.clock))
    expected = [f"z/{number:04}" for number in range(1_000)]
    costs = []
    for _ in range(3):
        counts.reset()
        found, requests = paths(server)
        assert found == expected
        costs.append((requests, counts.calls.total(), counts.bytes_out.total()))
    record_property("counted", f"requests, calls, bytes: {costs}")
    assert costs[0][0] <= 2
    # The deleted files that the first request passed are read once more, and then never again.
    assert costs[1][:1] == (1,)
    requests, calls, size = costs[2]
    assert (requests, calls <= 12, size <= 150_000) == (1, True, True), costs
    bench.store.close()


def test_the_first_page_ends_early_and_the_second_one_is_long_work():
    bench = with_deleted(MANY, committed=True)
    listings = bench.staging.listings
    assert listings.is_brief(MAIN)
    page = page_of(bench, EVERYTHING, EVERYTHING.range().start, 1)
    assert not page.items
    assert page.conceals
    assert bench.row().sealed_tokens == ()
    assert not listings.is_brief(MAIN)
    page = page_of(bench, EVERYTHING, page.next_start, 1)
    assert [path for path, _ in page.items] == ["z/0000"]
    assert len(bench.row().sealed_tokens) == 1
    assert listings.is_brief(MAIN)


@pytest.fixture
def searched():
    """A branch whose hidden run is known."""
    bench = with_deleted(MANY, committed=True)
    for _ in range(2):
        assert len(paths(bench)[0]) == 1_000
    assert paths(bench)[1] == 1
    return bench


def first(bench):
    return paths(bench)[0][0]


def test_a_file_that_is_staged_in_a_run_is_shown(searched):
    searched.put("d/002000", "new")
    assert first(searched) == "d/002000"
    searched.delete("d/002000")
    assert first(searched) == "z/0000"
    searched.put("d/002000", "new")
    searched.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    assert first(searched) == "d/002000"
    searched.commit_files()
    assert first(searched) == "d/002000"


def test_a_file_that_is_reset_in_a_run_is_shown(searched):
    searched.staging.resets.reset_key(MAIN, file_key("d/002000"))
    assert first(searched) == "d/002000"
    searched.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    assert first(searched) == "d/002000"


def test_a_file_that_a_merge_brings_into_a_run_is_shown(searched):
    searched.branch(SIDE)
    searched.put("d/002000x", "side", SIDE)
    searched.commit_files(branch=SIDE)
    merge(searched)
    assert first(searched) == "d/002000x"


def test_a_commit_of_tables_keeps_the_runs(searched):
    counts = CallCounts()
    server = searched.other(ObservedStore(searched.store, counts, searched.clock))
    for _ in range(2):
        paths(server)
    searched.publisher.publish([TablePut("t")])
    counts.reset()
    paths(server)
    assert counts.calls["scan"] <= 10


def test_listings_never_fill_the_list_of_sealed_tokens():
    bench = with_deleted(MANY, committed=True)
    gone = [file_key(f"e/{number:06}") for number in range(MANY)]
    for _ in range(LISTING_SEALED_MAX + 2):
        bench.staging.writer.put_many(MAIN, [(key, entry_of("e")) for key in gone])
        bench.staging.writer.delete_many(MAIN, gone)
        for _ in range(2):
            assert first(bench) == "z/0000"
    assert len(bench.row().sealed_tokens) == LISTING_SEALED_MAX


def test_a_listing_is_right_if_the_token_cannot_be_sealed(monkeypatch):
    monkeypatch.setattr(BranchListings, "seal", lambda *_: False)
    bench = with_deleted(MANY, committed=True)
    for _ in range(3):
        assert first(bench) == "z/0000"


def test_runs_that_touch_become_one_and_old_bases_are_forgotten():
    runs, base = HiddenRuns(Lock()), RunBase((), None, b"")
    runs.add(base, b"d", b"f")
    runs.add(base, b"h", b"k")
    assert [runs.end_of(base, key) for key in (b"c", b"d", b"e", b"f", b"j")] == [
        *(b"c", b"f", b"f", b"f", b"k")
    ]
    runs.add(base, b"f", b"h")
    assert runs.end_of(base, b"d") == b"k"
    runs.add(base, b"a", b"z")
    assert runs.end_of(base, b"b") == b"z"
    for number in range(100):
        runs.add(RunBase((), None, bytes((number,))), b"a", b"b")
    assert runs.end_of(base, b"b") == b"b"
