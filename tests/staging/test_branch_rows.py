"""Rows of branches: from memory for a moment, by shared reads; what a write costs and reports."""

from __future__ import annotations

from threading import Lock, Semaphore, Thread

import pytest

from lochan.base.errors import ReferenceNotFound, Unavailable, Unknown
from lochan.base.keys import file_key
from lochan.base.limits.staging import BRANCH_ROW_TTL_MS
from lochan.kv.observe import ObservedStore
from lochan.staging.branch_rows import BranchRows
from lochan.staging.conditions import IfAbsent
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import FaultKind, FaultyStore
from tests.kernel.workbench import OnCalls
from tests.staging.workbench import MAIN, SIDE, StagingBench, entry_of


def test_a_row_is_used_from_memory_for_a_moment():
    bench = StagingBench()
    reads = []

    def find(name):
        reads.append(name)
        return bench.names.find(name)

    rows = BranchRows(find, bench.clock, Lock)
    assert rows.load(MAIN).fresh
    for _ in range(5):
        assert not rows.load(MAIN).fresh
    assert len(reads) == 1
    rows.fetch(MAIN)
    assert len(reads) == 2
    bench.clock.advance_us(BRANCH_ROW_TTL_MS * 1_000 + 1)
    assert rows.load(MAIN).fresh
    rows.forget(MAIN)
    assert rows.load(MAIN).fresh
    with pytest.raises(ReferenceNotFound):
        rows.load(SIDE)


class NoticedLock:
    """A lock that notices who comes, before they wait."""

    def __init__(self, semaphore):
        self._semaphore = semaphore
        self._lock = Lock()

    def __enter__(self):
        self._semaphore.release()
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


def test_a_hundred_simultaneous_stats_cost_three_reads_of_the_row():
    bench = StagingBench()
    come, reads = Semaphore(0), []

    def find(name):
        reads.append(name)
        if len(reads) == 2:
            # The first read at the end of a stat is under way until all others have come.
            for _ in range(100):
                come.acquire()
        return bench.names.find(name)

    rows = BranchRows(find, bench.clock, lambda: NoticedLock(come))
    rows.load(MAIN)
    come.acquire()
    found = []

    def stat():
        assert not rows.load(MAIN).fresh
        found.append(rows.fetch(MAIN).name)

    threads = [Thread(target=stat) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [MAIN] * 100
    assert len(reads) <= 3


def test_a_staged_write_costs_one_conditional_write_and_one_read_of_the_row():
    counts = CallCounts()
    bench = StagingBench()
    server = bench.other(ObservedStore(bench.store, counts, bench.clock))
    server.put("a")
    counts.reset()
    server.put("b")
    assert dict(counts.calls) == {"set_if": 1, "get": 1}
    counts.reset()
    server.read("b")
    assert dict(counts.calls) == {"get_many": 1, "get": 1}


def test_a_write_that_gives_up_after_its_first_put_is_unknown():
    bench = StagingBench()
    bench.put("x")
    failing = []

    def choose(call):
        if call.operation == "set_if" and call.key == file_key("a"):
            failing.append(call)
            return None
        return FaultKind.NOT_APPLIED if failing and call.operation == "get" else None

    server = bench.other(FaultyStore(bench.store, OnCalls(choose)))
    with pytest.raises(Unknown):
        server.put("a")
    server = bench.other(
        FaultyStore(
            bench.store,
            OnCalls(lambda call: FaultKind.NOT_APPLIED if call.key == file_key("c") else None),
        )
    )
    with pytest.raises(Unavailable):
        server.put("c")
    assert bench.read("c") is None


def test_a_lost_reply_of_a_conditional_put_is_no_refusal():
    bench = StagingBench()
    bench.put("x")
    lost = []

    def choose(call):
        if call.operation == "set_if" and call.key == file_key("a") and not lost:
            lost.append(call)
            return FaultKind.LOST_REPLY
        return None

    server = bench.other(FaultyStore(bench.store, OnCalls(choose)))
    server.staging.writer.put(MAIN, file_key("a"), entry_of("one"), IfAbsent())
    assert lost
    assert bench.read("a") == "one"


@pytest.mark.parametrize("publish", [False, True], ids=["sealed", "committed"])
def test_a_conditional_put_beside_a_commit_recognises_its_own_file(publish):
    from lochan.staging.committer import CommitTexts

    bench = StagingBench()
    bench.put("x")
    done = []

    def choose(call):
        if call.operation == "get" and done == ["put"]:
            done.append("committed")
            commit = bench.staging.committer.prepare(MAIN, CommitTexts("beside"))
            if publish:
                bench.publisher.publish([commit])
        if call.operation == "set_if" and call.key == file_key("a") and not done:
            done.append("put")

    server = bench.other(FaultyStore(bench.store, OnCalls(choose)))
    server.staging.writer.put(MAIN, file_key("a"), entry_of("one"), IfAbsent())
    assert done == ["put", "committed"]
    assert bench.read("a") == "one"
    if publish:
        assert bench.files()["a"] == "one"
