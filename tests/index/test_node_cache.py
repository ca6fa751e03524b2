"""The cache of nodes: what it remembers, what it forgets, and that it never grows."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.codec.objects import ValueObject, encode_object, object_id
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.edit import edit_tree
from lochan.index.node import NewNode, build_node, seal
from lochan.index.read import find_one
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes

RULE = BoundaryRule(bytes(16))
TREE_KEYS = 20_000


class Tree:
    """A tree of 20,000 keys, its nodes apart by level."""

    def __init__(self) -> None:
        self.stored = MemoryNodes()
        self.leaves: list[NewNode] = []
        self.inner: list[NewNode] = []
        items = ((b"t%06d" % n, b"\0" + b"%049d" % n) for n in range(TREE_KEYS))
        self.root = build_tree(RULE, 50, items, self.keep)

    def keep(self, new: NewNode) -> None:
        self.stored.keep(new)
        (self.inner if new.node.level else self.leaves).append(new)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def test_a_node_is_fetched_once_and_then_remembered(tree):
    source = CachedNodes(tree.stored, Caches(1 << 24))
    tree.stored.forget_fetches()
    for new in (tree.leaves[0], tree.inner[0]):
        assert source.load_node(new.obj_id) == new.node
        assert source.load_node(new.obj_id) == new.node
        assert source.load_nodes([new.obj_id]) == [new.node]
    assert tree.stored.fetches == [1, 1]
    assert (source.hits, source.misses) == (4, 2)


def test_one_fetch_covers_all_that_is_missing_and_the_order_is_kept(tree):
    source = CachedNodes(tree.stored, Caches(1 << 24))
    nodes = [*tree.leaves[:6], tree.inner[0]]
    source.load_nodes([nodes[2].obj_id, nodes[4].obj_id])
    tree.stored.forget_fetches()
    assert source.load_nodes([new.obj_id for new in nodes]) == [new.node for new in nodes]
    assert tree.stored.fetches == [5]
    assert (source.hits, source.misses) == (2, 7)
    assert source.load_nodes([]) == []
    assert tree.stored.fetches == [5]


def test_the_same_id_twice_in_one_call_is_answered_twice(tree):
    source = CachedNodes(tree.stored, Caches(1 << 24))
    one, other = tree.leaves[0], tree.leaves[1]
    ids = [one.obj_id, other.obj_id, one.obj_id]
    assert source.load_nodes(ids) == [one.node, other.node, one.node]
    assert source.load_nodes(ids) == [one.node, other.node, one.node]


def test_what_was_just_written_is_remembered(tree):
    source = CachedNodes(tree.stored, Caches(1 << 24))
    edited = edit_tree(source, RULE, 50, tree.root, [(b"t000777", bytes(50))])
    source.remember(edited.nodes)
    tree.stored.forget_fetches()
    # The new nodes are not even stored: only the cache can have them.
    assert find_one(source, edited.root, b"t000777") == bytes(50)
    assert tree.stored.fetches == []


@pytest.mark.parametrize("bytes_max", [60_000, 200_000, 500_000])
def test_memory_is_bounded_and_used(tree, bytes_max):
    source = CachedNodes(tree.stored, Caches(bytes_max))
    everything = [*tree.inner, *tree.leaves]
    for new in everything:
        source.load_node(new.obj_id)
    held = 0
    for new in reversed(everything):
        before = source.hits
        source.load_node(new.obj_id)
        if source.hits == before:
            break
        held += len(new.raw)
    # Leaves may use half of it, and at least the young half of that is there.
    assert bytes_max // 10 < held <= bytes_max // 2


def test_a_cache_of_no_bytes_still_reads(tree):
    source = CachedNodes(tree.stored, Caches(0))
    for new in tree.leaves[:5] * 2:
        assert source.load_node(new.obj_id) == new.node


def test_a_scan_over_all_leaves_does_not_push_out_the_inner_nodes(tree):
    inner_bytes = sum(len(new.raw) + 100 * len(new.node.suffixes) for new in tree.inner)
    source = CachedNodes(tree.stored, Caches(10 * inner_bytes))
    source.load_nodes([new.obj_id for new in tree.inner])
    for new in tree.leaves:
        source.load_node(new.obj_id)
    tree.stored.forget_fetches()
    source.load_nodes([new.obj_id for new in tree.inner])
    assert tree.stored.fetches == []
    source.load_node(tree.leaves[0].obj_id)
    assert tree.stored.fetches == [1], "the leaves did not all fit, or this shows nothing"


def test_what_is_used_stays_while_others_come_and_go(tree):
    source = CachedNodes(tree.stored, Caches(120_000))
    hot = tree.leaves[0].obj_id
    source.load_node(hot)
    tree.stored.forget_fetches()
    for new in tree.leaves[1:]:
        source.load_node(new.obj_id)
        source.load_node(hot)
    assert len(tree.stored.fetches) == len(tree.leaves) - 1


def test_remembering_again_what_is_there_pushes_nothing_out(tree):
    def left_over(bytes_max: int, repeats: int) -> int:
        source = CachedNodes(tree.stored, Caches(bytes_max))
        source.remember(tree.leaves[:12])
        for _ in range(repeats):
            source.remember(tree.leaves[11:12])
        source.load_nodes([new.obj_id for new in tree.leaves[:12]])
        return source.hits

    for bytes_max in range(20_000, 400_000, 1_000):
        assert left_over(bytes_max, 3) == left_over(bytes_max, 0), f"{bytes_max} bytes"


def test_an_object_of_another_type_is_corrupt():
    stored = MemoryNodes()
    raw = encode_object(ValueObject(1, "id", 1, b"no node"))
    obj_id = object_id(raw)
    stored.raws[obj_id] = raw
    with pytest.raises(Corrupt):
        CachedNodes(stored, Caches(1 << 20)).load_node(obj_id)


def test_a_failed_fetch_leaves_nothing_wrong_behind(tree):
    stored = MemoryNodes()
    new = tree.leaves[0]
    source = CachedNodes(stored, Caches(1 << 20))
    stored.raws[new.obj_id] = new.raw[:-1] + b"?"
    for _ in range(2):
        with pytest.raises(Corrupt):
            source.load_node(new.obj_id)
    with pytest.raises(Corrupt):
        source.load_node(ObjId(bytes(32)))
    stored.keep(new)
    assert source.load_node(new.obj_id) == new.node


@pytest.mark.parametrize("fault", ["short values", "inner node"])
@pytest.mark.parametrize("twice", [False, True])
def test_a_leaf_of_the_wrong_shape_is_corrupt_when_a_key_is_looked_up(fault, twice):
    """Its bytes hash to its id, so only its shape is wrong; a lookup must not slice it short."""
    good = build_node(0, [b"ta", b"tb"], [bytes(50), bytes(50)], 50)
    if fault == "short values":
        bad = msgspec.structs.replace(good, values=good.values[:60])
    else:
        bad = msgspec.structs.replace(good, level=1, widths=40, values=bytes(80))
    stored = MemoryNodes()
    made = seal(bad)
    stored.keep(made)
    nodes = CachedNodes(stored, Caches(1_000_000))
    for _ in range(1 + twice):
        with pytest.raises(Corrupt):
            nodes.find_in_leaf(made.obj_id, b"tb")
