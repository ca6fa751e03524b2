"""A commit does not hold up writers, however many files it takes."""

from __future__ import annotations

from collections import Counter

from lochan.base.keys import file_key
from lochan.kv.observe import ObservedStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import FaultyStore
from tests.kernel.workbench import OnCalls
from tests.staging.workbench import MAIN, StagingBench, entry_of


def write_beside_a_commit(count):
    """What each write cost that was done between two calls of a commit, in its order."""
    bench = StagingBench()
    items = [(file_key(f"f{number:05}"), entry_of("x")) for number in range(count)]
    bench.staging.writer.put_many(MAIN, items)
    counts = CallCounts()
    writer = bench.other(ObservedStore(bench.store, counts, bench.clock), seed=3)
    writer.put("first")
    costs: list[dict[str, int]] = []

    def write(_):
        counts.reset()
        writer.put(f"w{len(costs)}")
        costs.append(dict(counts.calls))

    server = bench.other(FaultyStore(bench.store, OnCalls(write)), seed=4)
    server.commit_files()
    assert not writer.waiting.sleeps_ms
    assert len(bench.files()) >= count
    for number in range(len(costs)):
        assert bench.read(f"w{number}") == f"w{number}"
    return costs


def test_a_writer_beside_a_commit_pays_the_same_whatever_the_size_of_the_commit(record_property):
    small, large = write_beside_a_commit(10), write_beside_a_commit(10_000)
    record_property("counted", f"writes beside: {len(small)} and {len(large)}")
    assert len(large) > len(small)
    once = {"set_if": 1, "get": 1}
    again = [[cost for cost in costs if cost != once] for costs in (small, large)]
    record_property("counted", f"writes that were put again: {again}")
    # Only the write that meets the seal is put a second time, into the new token.
    assert again[0] == again[1] == [{"set_if": 2, "get": 2}]
    assert Counter(map(str, small)).keys() == Counter(map(str, large)).keys()
