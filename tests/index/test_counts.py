"""How many nodes are read and written, exactly, on one tree of 100,000 keys.

The numbers are promises about cost: a change here is a change of what users pay, not of taste.
"""

from __future__ import annotations

from collections import Counter

import pytest

from lochan.base.ids import ObjId
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.edit import edit_tree
from lochan.index.node import Change
from lochan.index.read import find_many, find_one, iterate, read_page
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes

RULE = BoundaryRule(bytes(range(16)))
KEYS = 100_000
LEVELS = 4


def key_of(number: int) -> bytes:
    return b"tns%02d\x01table%06d" % (number // 5_000, number)


class Tree:
    """The tree, and fresh readers that count."""

    def __init__(self) -> None:
        self.stored = MemoryNodes()
        self.levels: Counter[int] = Counter()
        self.bytes = 0
        elements = ((key_of(n), b"\0" + b"%049d" % n) for n in range(KEYS))
        root = build_tree(RULE, 50, elements, self.keep)
        assert root is not None
        self.root: ObjId = root

    def keep(self, new) -> None:
        self.stored.keep(new)
        self.levels[new.node.level] += 1
        self.bytes += len(new.raw)

    def cold(self) -> CachedNodes:
        self.stored.forget_fetches()
        return CachedNodes(self.stored, Caches(1 << 26))


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def test_the_tree_has_so_many_nodes_and_bytes(tree):
    assert tree.levels == {0: 2_358, 1: 60, 2: 2, 3: 1}
    # 50 bytes of value, 12 to 13 of key, and the nodes above: well under 60 bytes a key.
    assert tree.bytes == 5_654_510


@pytest.mark.parametrize("key", [key_of(0), key_of(777), key_of(KEYS - 1), key_of(5) + b"x", b"a"])
def test_a_lookup_reads_one_node_a_level_whether_the_key_is_there_or_not(tree, key):
    find_one(tree.cold(), tree.root, key)
    assert tree.stored.fetches == [1] * LEVELS


def test_a_key_after_the_last_one_costs_the_root_only(tree):
    assert find_one(tree.cold(), tree.root, b"u") is None
    assert tree.stored.fetches == [1]


def test_a_warm_lookup_reads_nothing(tree):
    source = tree.cold()
    find_one(source, tree.root, key_of(777))
    tree.stored.forget_fetches()
    find_one(source, tree.root, key_of(777))
    assert tree.stored.fetches == []


def test_a_bulk_lookup_is_one_fetch_a_level(tree):
    found = find_many(tree.cold(), tree.root, [key_of(n) for n in range(0, KEYS, 100)])
    assert None not in found
    assert tree.stored.fetches == [1, 2, 59, 1_000]


def test_a_bulk_lookup_of_everything_reads_every_node_once(tree):
    assert None not in find_many(tree.cold(), tree.root, [key_of(n) for n in range(KEYS)])
    assert tree.stored.fetches == [1, 2, 60, 2_358]


def test_a_bulk_lookup_of_neighbours_reads_one_path(tree):
    assert None not in find_many(tree.cold(), tree.root, [key_of(n) for n in range(6)])
    assert tree.stored.fetches == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("start", "end", "limit", "fetches"),
    [
        (b"", None, 250, [1, 2, 2, 7]),
        (key_of(54_321), None, 250, [1, 1, 2, 7]),
        (key_of(54_321), key_of(54_325), 250, [1, 1, 1, 1]),
        (key_of(54_321), None, 1, [1, 1, 1, 1]),
        (key_of(KEYS - 10), None, 250, [1, 1, 1, 2]),
        (b"u", None, 250, [1]),
        (b"", b"t", 250, [1, 1, 1, 1]),
        (key_of(9), key_of(9), 250, []),
    ],
)
def test_a_page_is_one_fetch_a_level_and_few_nodes(tree, start, end, limit, fetches):
    page = read_page(tree.cold(), tree.root, start, end, limit)
    assert tree.stored.fetches == fetches
    assert tree.stored.fetched_ids <= len(page) // 20 + 2 * LEVELS


def test_a_whole_scan_reads_every_leaf_and_remembers_the_way(tree):
    assert sum(1 for _ in iterate(tree.cold(), tree.root)) == KEYS
    assert tree.stored.fetched_ids == 2_358 + 60 + 2 + 1


@pytest.mark.parametrize("number", [0, 777, 50_000, KEYS - 1])
def test_an_update_reads_and_writes_one_node_a_level(tree, number):
    edited = edit_tree(tree.cold(), RULE, 50, tree.root, [(key_of(number), bytes(50))])
    assert tree.stored.fetches == [1] * LEVELS
    assert [new.node.level for new in edited.nodes] == list(range(LEVELS))
    assert sum(len(new.raw) for new in edited.nodes) < 10_000


def test_an_insert_that_moves_no_boundary_reads_and_writes_one_node_a_level(tree):
    edited = edit_tree(tree.cold(), RULE, 50, tree.root, [(key_of(54_321) + b"x", bytes(50))])
    assert tree.stored.fetches == [1] * LEVELS
    assert len(edited.nodes) == LEVELS


def test_a_delete_that_moves_a_boundary_writes_a_few_more(tree):
    edited = edit_tree(tree.cold(), RULE, 50, tree.root, [(key_of(12_345), None)])
    assert len(edited.nodes) == 7


def test_ten_scattered_updates_share_the_upper_levels(tree):
    changes: list[Change] = [(key_of(n), bytes(50)) for n in range(0, KEYS, 10_000)]
    edited = edit_tree(tree.cold(), RULE, 50, tree.root, changes)
    assert tree.stored.fetches == [1, 2, 10, 10]
    assert Counter(new.node.level for new in edited.nodes) == {0: 10, 1: 10, 2: 2, 3: 1}


@pytest.mark.parametrize(
    ("changes", "fetches"),
    [
        ([], 1),
        ([(key_of(7), b"\0" + b"%049d" % 7)], LEVELS),
        ([(key_of(7) + b"x", None)], LEVELS),
    ],
)
def test_an_edit_that_changes_nothing_writes_nothing(tree, changes, fetches):
    edited = edit_tree(tree.cold(), RULE, 50, tree.root, changes)
    assert edited.root == tree.root
    assert edited.nodes == []
    assert len(tree.stored.fetches) <= fetches


def test_single_inserts_mostly_write_one_node_a_level(tree):
    source = tree.cold()
    written = sorted(
        len(edit_tree(source, RULE, 50, tree.root, [(key_of(n) + b"x", bytes(50))]).nodes)
        for n in range(0, KEYS, 97)
    )
    assert written[len(written) // 2] == LEVELS
    assert sum(count == LEVELS for count in written) == 907
    assert written[-1] == 12
