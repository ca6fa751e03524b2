"""What each operation on staged files costs, counted in calls of the store."""

from __future__ import annotations

import pytest

from lochan.base.keys import file_key
from lochan.kv.observe import ObservedStore
from lochan.service.file_pages import PathSelection
from lochan.staging.conditions import IfAbsent
from lochan.testing.call_counts import CallCounts
from tests.staging.test_listing import page_of
from tests.staging.workbench import MAIN, StagingBench, entry_of

EVERYTHING = PathSelection()


@pytest.fixture
def counted():
    """A server on a branch with some committed and some staged files, and its counter."""
    bench, counts = StagingBench(), CallCounts()
    for number in range(10):
        bench.put(f"committed{number}")
    bench.commit_files()
    for number in range(10):
        bench.put(f"staged{number}")
    server = bench.other(ObservedStore(bench.store, counts, bench.clock))
    # What a server reads once and then has in memory.
    server.read("committed0")
    page_of(server, EVERYTHING, EVERYTHING.range().start, 1_000)
    counts.reset()
    return server, counts


def cost(counts, do):
    counts.reset()
    do()
    return dict(counts.calls)


def test_every_operation_costs_these_calls(counted):
    server, counts = counted
    writer, resets = server.staging.writer, server.staging.resets
    new = [(file_key(f"many{number:03}"), entry_of("x")) for number in range(500)]
    start = EVERYTHING.range().start
    assert cost(counts, lambda: server.read("staged1")) == {"get_many": 1, "get": 1}
    assert cost(counts, lambda: server.read("committed1")) == {"get_many": 1, "get": 1}
    assert cost(counts, lambda: page_of(server, EVERYTHING, start, 10)) == {"scan": 1, "get": 1}
    assert cost(counts, lambda: server.put("new")) == {"set_if": 1, "get": 1}
    assert cost(counts, lambda: server.put("new", "other")) == {"set_if": 2, "get": 1}
    assert cost(
        counts, lambda: writer.put(MAIN, file_key("if absent"), entry_of("x"), IfAbsent())
    ) == {"get_many": 2, "set_if": 1, "get": 2}
    assert cost(counts, lambda: server.delete("committed1")) == {
        "get_many": 1,
        "set_if": 1,
        "get": 2,
    }
    assert cost(counts, lambda: writer.put_many(MAIN, new)) == {"apply_each": 1, "get": 1}
    assert cost(counts, lambda: resets.reset_key(MAIN, file_key("staged1"))) == {
        "scan": 1,
        "set_if": 2,
        "get": 2,
    }
    assert cost(counts, lambda: resets.reset_prefix(MAIN, "many")) == {
        "scan": 5,
        "apply_each": 2,
        "get": 2,
    }
    assert cost(counts, lambda: resets.reset_branch(MAIN)) == {"get": 2, "set_if": 1}


def test_a_commit_costs_the_same_calls_for_1_and_for_500_files(counted):
    server, counts = counted
    server.commit_files()
    costs = []
    for count in (1, 500):
        new = [(file_key(f"f{count}-{number:03}"), entry_of("x")) for number in range(count)]
        server.staging.writer.put_many(MAIN, new)
        costs.append(cost(counts, server.commit_files))
    assert costs[0] == costs[1], costs
    assert sum(costs[0].values()) <= 10
