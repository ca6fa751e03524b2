"""What builds and edits refuse; a refusal leaves nothing behind."""

from __future__ import annotations

import pytest

from lochan.base.errors import Bug, Corrupt, Invalid, TooLarge
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.base.limits.storage import NODE_RAW_BYTES_CAP
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.edit import edit_tree
from lochan.index.layers import EMPTY_INDEX, SHAPES
from lochan.index.node import build_node, seal
from lochan.index.read import find_many, find_one, iterate, read_page
from lochan.index.source import CachedNodes
from lochan.index.spill import advance
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes, check_tree

RULE = BoundaryRule(bytes(16))
VALUE = bytes(50)
ITEMS = [(b"t%04d" % number, VALUE) for number in range(300)]

WRONG = {
    "unordered": (50, [(b"t9", VALUE), (b"t5", VALUE)]),
    "twice": (50, [(b"t5", VALUE), (b"t5", VALUE)]),
    "an empty key": (50, [(b"", VALUE)]),
    "too narrow": (50, [(b"t5", bytes(49))]),
    "too wide": (50, [(b"t5", bytes(51))]),
    "widths that only add up": (50, [(b"t5", bytes(49)), (b"t6", bytes(51))]),
    "no value where widths are fixed": (50, [(b"t5", b"")]),
    "no value where widths vary": (None, [(b"t5", b"")]),
    "a value as large as a node": (None, [(b"t5", bytes(NODE_RAW_BYTES_CAP))]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_build_refuses(name):
    width, items = WRONG[name]
    made = []
    with pytest.raises(Invalid):
        build_tree(RULE, width, items, made.append)
    assert made == []


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("empty", [False, True])
def test_an_edit_refuses(name, empty):
    """Found by review: edits of a tree took any order and any width, and made broken nodes."""
    width, changes = WRONG[name]
    stored = MemoryNodes()
    root = None if empty else build_tree(RULE, width, ITEMS, stored.keep)
    before = dict(stored.raws)
    source = CachedNodes(stored, Caches(1 << 20))
    with pytest.raises(Invalid):
        edit_tree(source, RULE, width, root, changes)
    assert stored.raws == before
    assert list(iterate(source, root)) == ([] if empty else ITEMS)


@pytest.mark.parametrize("name", [name for name in WRONG if WRONG[name][0] == 50])
def test_a_commit_refuses(name):
    """Found by review: the embedded layer took elements of any width."""
    with pytest.raises(Invalid):
        advance(
            CachedNodes(MemoryNodes(), Caches(0)),
            RULE,
            SHAPES[Universe.TABLES],
            EMPTY_INDEX,
            WRONG[name][1],
            4_096,
        )


def test_a_late_wrong_element_is_refused_too():
    items = [*ITEMS * 20]
    with pytest.raises(Invalid, match="ascending"):
        build_tree(RULE, 50, sorted(items), lambda _: None)
    many = [(b"t%06d" % number, VALUE) for number in range(5_000)]
    with pytest.raises(Invalid, match="ascending"):
        build_tree(RULE, 50, [*many, many[-1]], lambda _: None)
    with pytest.raises(Invalid, match="50 bytes"):
        build_tree(RULE, 50, [*many, (b"u", b"short")], lambda _: None)


def test_values_just_under_the_cap_are_taken():
    items = [(b"f%d" % number, bytes(NODE_RAW_BYTES_CAP - 1)) for number in range(5)]
    stored = MemoryNodes()
    root = build_tree(RULE, None, items, stored.keep)
    source = CachedNodes(stored, Caches(1 << 20))
    assert list(iterate(source, root)) == items
    # A value and its key reach the cap, so each stands alone: a leaf, its parent and the root.
    edited = edit_tree(source, RULE, None, root, [(b"f2x", bytes(NODE_RAW_BYTES_CAP - 1))])
    assert {len(new.node.suffixes) for new in edited.nodes if new.node.level == 0} == {1}
    with pytest.raises(TooLarge):
        edit_tree(source, RULE, None, root, [(b"f2x", bytes(NODE_RAW_BYTES_CAP))])


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_at_least_one_element(limit):
    with pytest.raises(Bug):
        read_page(CachedNodes(MemoryNodes(), Caches(0)), None, b"", None, limit)


def test_an_empty_tree_is_no_tree():
    source = CachedNodes(MemoryNodes(), Caches(0))
    assert build_tree(RULE, 50, [], lambda _: None) is None
    assert find_one(source, None, b"a") is None
    assert find_many(source, None, [b"a", b"b"]) == [None, None]
    assert read_page(source, None, b"", None, 5) == []
    assert list(iterate(source, None)) == []
    assert check_tree(source, RULE, 50, None) == 0
    edited = edit_tree(source, RULE, 50, None, [(b"a", None)])
    assert (edited.root, edited.nodes) == (None, [])


def test_removing_everything_leaves_no_tree():
    stored = MemoryNodes()
    root = build_tree(RULE, 50, ITEMS, stored.keep)
    source = CachedNodes(stored, Caches(1 << 20))
    edited = edit_tree(source, RULE, 50, root, [(key, None) for key, _ in ITEMS])
    assert (edited.root, edited.nodes) == (None, [])


def test_a_missing_root_is_corrupt():
    source = CachedNodes(MemoryNodes(), Caches(1 << 20))
    with pytest.raises(Corrupt):
        find_one(source, ObjId(bytes(32)), b"a")
    with pytest.raises(Corrupt):
        edit_tree(source, RULE, 50, ObjId(bytes(32)), [(b"a", VALUE)])


@pytest.mark.parametrize("wrong", ["boundary", "total", "seed"])
def test_a_tree_that_no_build_makes_is_corrupt_for_the_full_check(wrong):
    stored = MemoryNodes()
    root = build_tree(RULE, 50, ITEMS, stored.keep)
    source = CachedNodes(stored, Caches(1 << 20))
    assert check_tree(source, RULE, 50, root) == len(ITEMS)
    if wrong == "seed":
        with pytest.raises(Corrupt):
            check_tree(source, BoundaryRule(bytes(range(16))), 50, root)
        return
    node = build_node(0, [key for key, _ in ITEMS[:90]], [VALUE] * 90, 50)
    if wrong == "total":
        node = build_node(0, [b"t1", b"t2"], [VALUE] * 2, 50)
        node = type(node)(1, 0, 3, node.raw, node.prefix, node.suffixes, 50, node.values)
    new = seal(node)
    stored.keep(new)
    with pytest.raises(Corrupt):
        check_tree(source, RULE, 50, new.obj_id)
