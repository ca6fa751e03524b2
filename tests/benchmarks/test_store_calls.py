"""How often the store is called, exactly: the same numbers on every store and at every size.

A call is a round trip on a networked store, so these numbers are promises. Only the levels of the
tree grow with its size, by one for each factor of about 40.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from benchmarks.branch import TABLES, Branch, MeasuredNodes, Put
from benchmarks.data import Tables
from lochan.assembly import open_store
from lochan.index.difference import diff_trees
from lochan.index.edit import edit_tree
from lochan.index.layers import EMPTY_INDEX
from lochan.index.node import Change
from lochan.index.read import find_many, iterate, read_page
from lochan.kv.observe import ObservedStore
from lochan.persist.cache import Caches
from lochan.system import SystemClock
from lochan.testing.call_counts import CallCounts

# Trees of 100,000 keys are built first.
pytestmark = pytest.mark.slow

LEVELS = {1_000: 2, 10_000: 3, 100_000: 4}
ROWS_OF_ONE_PUT = 3  # the content, the commit, the branch


class World:
    """A branch with a tree of so many keys, on a store whose calls are counted."""

    def __init__(self, url: str, size: int) -> None:
        self.counts = CallCounts()
        self.store = open_store(url)
        self.branch = Branch(ObservedStore(self.store, self.counts, SystemClock()))
        self.tables = Tables(size)
        items = self.tables.sorted_items(size)
        self.branch.load(items)
        self.keys = [key for key, _ in items]
        self.levels = LEVELS[size]
        self.start = self.branch.index

    def begin(self) -> Branch:
        """The branch as it was after loading, with every node in memory; the count is zero."""
        self.branch.index = self.start
        for _ in iterate(self.branch.nodes, self.start.root):
            pass
        self.counts.reset()
        return self.branch

    def cold(self) -> MeasuredNodes:
        """A source of nodes that remembers nothing yet; the count is zero."""
        self.counts.reset()
        return MeasuredNodes(self.branch.objects, Caches(1 << 26))

    def new(self, puts: int) -> list[Put]:
        return self.branch.prepare([self.tables.key() for _ in range(puts)])

    def updates(self, puts: int) -> list[Put]:
        return self.branch.prepare(Random(puts).sample(self.keys, puts))

    @property
    def calls(self) -> dict[str, int]:
        return dict(self.counts.calls)

    @property
    def rows(self) -> dict[str, int]:
        return dict(self.counts.keys)


@pytest.fixture(scope="module", params=LEVELS, ids="{:,}".format)
def size(request) -> int:
    return request.param


@pytest.fixture(scope="module", params=["memory", "rocksdb"])
def world(request, size, tmp_path_factory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("calls")
    world = World("memory:" if request.param == "memory" else f"rocksdb:{folder}/db", size)
    yield world
    world.store.close()


def test_a_warm_put_is_one_call_of_three_rows(world):
    branch = world.begin()
    for puts in (world.new(1), world.updates(1)):
        world.counts.reset()
        branch.commit(puts)
        assert world.calls == {"apply": 1}
        assert world.rows == {"apply": ROWS_OF_ONE_PUT}


def test_ten_warm_puts_are_one_call_too(world):
    branch = world.begin()
    branch.commit(world.new(10))
    assert world.calls == {"apply": 1}
    assert world.rows == {"apply": 10 + 2}


@pytest.mark.parametrize("puts", [1, 10])
def test_cold_leaves_are_one_call_more(world, puts):
    branch = world.begin()
    branch.nodes.forget_leaves()
    branch.commit(world.updates(puts))
    assert world.calls == {"get_many": 1, "apply": 1}
    assert world.rows["apply"] == puts + 2
    if puts == 1:
        assert world.rows["get_many"] == 1


def test_with_nothing_in_memory_a_put_is_one_call_a_level_and_one_more(world):
    branch = world.begin()
    branch.nodes = world.cold()
    branch.commit(world.new(1))
    assert world.calls == {"get_many": world.levels, "apply": 1}
    assert world.rows == {"get_many": world.levels, "apply": ROWS_OF_ONE_PUT}


def test_a_warm_spill_is_one_call(world):
    branch = world.begin()
    spills = branch.spills
    for _ in range(100):
        world.counts.reset()
        branch.commit(world.new(1))
        assert world.calls == {"apply": 1}
    assert branch.spills - spills >= 2


def test_a_spill_of_updates_reads_its_leaves_in_one_call(world):
    branch = world.begin()
    seen = []
    for put in world.updates(100):
        branch.nodes.forget_leaves()
        spills = branch.spills
        world.counts.reset()
        branch.commit([put])
        if branch.spills > spills:
            seen.append((world.calls, world.rows["get_many"]))
    # One call for the leaf of the new key, one for the leaves of all keys that spill.
    assert len(seen) >= 2
    assert [calls for calls, _ in seen] == [{"get_many": 2, "apply": 1}] * len(seen)


def test_a_spill_with_nothing_in_memory_is_one_call_a_level_and_one_more(world):
    branch = world.begin()
    seen = []
    for put in world.updates(100):
        spills = branch.spills
        branch.look_up([put])
        branch.nodes = world.cold()
        branch.publish(branch.advance([put]))
        if branch.spills > spills:
            seen.append(world.calls)
    assert len(seen) >= 2
    assert seen == [{"get_many": world.levels, "apply": 1}] * len(seen)


def test_a_page_of_250_is_one_call_a_level(world):
    for start in (b"", world.keys[len(world.keys) // 2]):
        page = read_page(world.cold(), world.start.root, start, None, 250)
        assert len(page) == 250
        assert world.calls == {"get_many": world.levels}


def test_a_bulk_lookup_of_100_keys_is_one_call_a_level(world):
    keys = sorted(Random(1).sample(world.keys, 100))
    assert None not in find_many(world.cold(), world.start.root, keys)
    assert world.calls == {"get_many": world.levels}


def test_a_difference_of_ten_changes_is_one_call_a_level(world):
    branch = world.begin()
    chosen = sorted(Random(2).sample(world.keys, 10))
    changes: list[Change] = [(key, world.tables.element()) for key in chosen]
    root = world.start.root
    edited = edit_tree(branch.nodes, branch.rule, TABLES.width, root, changes)
    branch.objects.store_many((new.obj_id, new.raw) for new in edited.nodes)
    found = list(diff_trees(world.cold(), root, edited.root))
    assert [change.key for change in found] == chosen
    assert world.calls == {"get_many": world.levels}


def test_an_empty_branch_is_written_without_a_read(world):
    branch = world.begin()
    branch.index = EMPTY_INDEX
    branch.commit(world.new(1))
    assert world.calls == {"apply": 1}
