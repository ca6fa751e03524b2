"""Parts that are built independently join to the tree that one builder makes, node for node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from lochan.base.ids import ObjId
from lochan.index import boundary
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_part, build_tree, join_parts
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes, check_tree
from tests.property.tree_runs import hard_one_in

VALUES = [b"\0" + bytes([number]) * 49 for number in range(256)]


def key_of(number: int) -> bytes:
    return b"tns%02d\x01table%07d" % (number // 70_000, number)


def elements(start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    return ((key_of(number), VALUES[number & 255]) for number in range(start, end))


def stretches(rule: BoundaryRule, count: int) -> list[int]:
    """The numbers after which a builder may stop: hard breaks and the end."""
    breaks = [n + 1 for n in range(count) if rule.is_hard_break(key_of(n))]
    return breaks if breaks and breaks[-1] == count else [*breaks, count]


def grouped(ends: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """Joins neighbouring stretches to at most so many parts."""
    chosen = sorted(
        {ends[(len(ends) * (part + 1) + parts - 1) // parts - 1] for part in range(parts)}
    )
    return list(zip([0, *chosen[:-1]], chosen, strict=True))


def in_one_piece(rule: BoundaryRule, count: int) -> tuple[ObjId | None, list[ObjId]]:
    ids: list[ObjId] = []
    root = build_tree(rule, 50, elements(0, count), lambda new: ids.append(new.obj_id))
    return root, sorted(ids)


def in_parts(
    rule: BoundaryRule, ranges: Sequence[tuple[int, int]]
) -> tuple[ObjId | None, list[ObjId]]:
    ids: list[ObjId] = []
    # Later parts first: nothing may depend on what another builder did.
    parts = [
        build_part(rule, 50, elements(start, end), lambda new: ids.append(new.obj_id))
        for start, end in reversed(ranges)
    ]
    root = join_parts(rule, parts[::-1], lambda new: ids.append(new.obj_id))
    return root, sorted(ids)


@pytest.mark.parametrize("one_in", [6, 30, 200, 3_000])
@pytest.mark.parametrize("count", [0, 1, 10, 100, 1_000, 10_000])
def test_1_4_and_16_parts_make_the_same_nodes(monkeypatch, count, one_in):
    hard_one_in(monkeypatch, one_in)
    for seed in range(3):
        rule = BoundaryRule(bytes([seed]) * 16)
        whole = in_one_piece(rule, count)
        ends = stretches(rule, count)
        for parts in (1, 4, 16, len(ends)):
            ranges = grouped(ends, parts)
            assert in_parts(rule, ranges) == whole, f"seed {seed}, {len(ranges)} parts"


def test_1_4_and_16_parts_of_100_000_keys_make_the_same_nodes(monkeypatch):
    hard_one_in(monkeypatch, 3_000)
    rule = BoundaryRule(bytes(16))
    whole = in_one_piece(rule, 100_000)
    ends = stretches(rule, 100_000)
    for parts in (1, 4, 16):
        ranges = grouped(ends, parts)
        assert len(ranges) == parts
        assert in_parts(rule, ranges) == whole


@pytest.mark.slow
def test_1_4_and_16_parts_of_a_million_keys_cut_at_real_hard_breaks_make_the_same_nodes():
    rule = BoundaryRule(bytes(16))
    ends = stretches(rule, 1_000_000)
    assert 16 <= len(ends) <= 40, "one key in 50,000 is a hard break"
    whole = in_one_piece(rule, 1_000_000)
    for parts in (1, 4, 16):
        ranges = grouped(ends, parts)
        assert len(ranges) == parts
        assert in_parts(rule, ranges) == whole


def test_a_tree_of_nothing_but_hard_breaks_ends(monkeypatch):
    for threshold in ("_HARD", "_ORDINARY", "_EAGER"):
        monkeypatch.setattr(boundary, threshold, b"\xff" * 9)
    rule = BoundaryRule(bytes(16))
    stored = MemoryNodes()
    root = build_tree(rule, 50, elements(0, 2_000), stored.keep)
    source = CachedNodes(stored, Caches(1 << 24))
    assert root is not None
    # 2,000 leaves and as many nodes above them hold one element each; then come 100, 5 and 1.
    assert source.load_node(root).level == 4
    assert check_tree(source, rule, 50, root) == 2_000
    assert in_parts(rule, [(n, n + 1) for n in range(2_000)])[0] == root


def test_a_tree_in_which_every_key_is_a_boundary_ends(monkeypatch):
    monkeypatch.setattr(boundary, "_ORDINARY", b"\xff" * 9)
    monkeypatch.setattr(boundary, "_EAGER", b"\xff" * 9)
    rule = BoundaryRule(bytes(16))
    sizes: list[int] = []
    build_tree(rule, 50, elements(0, 8_000), lambda new: sizes.append(len(new.node.suffixes)))
    # 400 leaves of the minimum, 20 nodes above them and the root.
    assert sizes == [20] * (400 + 20 + 1)


def test_a_tree_without_any_boundary_is_cut_at_the_maximum(monkeypatch):
    for threshold in ("_ORDINARY", "_EAGER", "_HARD"):
        monkeypatch.setattr(boundary, threshold, bytes(8))
    rule = BoundaryRule(bytes(16))
    sizes: list[int] = []
    build_tree(rule, 50, elements(0, 6_400), lambda new: sizes.append(len(new.node.suffixes)))
    assert sizes == [80] * (80 + 1)


def test_hard_breaks_that_hold_on_leaves_only_are_noticed(monkeypatch):
    hard_one_in(monkeypatch, 200)
    monkeypatch.setattr(boundary, "_HARD_LEVEL_MAX", 0)
    rule = BoundaryRule(bytes(16))
    ranges = grouped(stretches(rule, 10_000), 16)
    assert in_parts(rule, ranges) != in_one_piece(rule, 10_000)
