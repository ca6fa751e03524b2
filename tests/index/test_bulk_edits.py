"""Edits of very many keys: their cost grows with their number, not with its square."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lochan.base.keys import Universe
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.edit import edit_tree
from lochan.index.layers import EMPTY_INDEX, SHAPES
from lochan.index.node import Draft
from lochan.index.source import CachedNodes
from lochan.index.spill import advance
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes

RULE = BoundaryRule(bytes(16))
MANY = 30_000


def items(count: int, stem: bytes = b"t5x") -> list[tuple[bytes, bytes]]:
    return [(stem + b"%06d" % number, b"\0" + b"%049d" % number) for number in range(count)]


@pytest.fixture
def insertions(monkeypatch) -> list[int]:
    """The sizes of drafts at each insertion: what each of them had to copy."""
    sizes: list[int] = []
    right = Draft.insert

    def counted(self, at, suffix, value):
        sizes.append(len(self.suffixes))
        right(self, at, suffix, value)

    monkeypatch.setattr(Draft, "insert", counted)
    return sizes


def tree_of(elements: Iterable[tuple[bytes, bytes]], width: int | None):
    stored = MemoryNodes()
    root = build_tree(RULE, width, elements, stored.keep)
    return CachedNodes(stored, Caches(1 << 24)), root


@pytest.mark.parametrize("width", [50, None])
def test_many_keys_between_two_neighbours_copy_no_growing_node(insertions, width):
    """Found by review: each insertion copied all that were inserted before it."""
    few = [(b"t%d" % number, bytes(50)) for number in range(10)]
    source, root = tree_of(few, width)
    edited = edit_tree(source, RULE, width, root, items(MANY))
    assert sum(insertions) < 10 * MANY
    assert edited.root == tree_of(sorted([*few, *items(MANY)]), width)[1]


def test_many_keys_in_one_commit_copy_no_growing_layer(insertions):
    """Found by review, too."""
    shape = SHAPES[Universe.TABLES]
    source = CachedNodes(MemoryNodes(), Caches(1 << 20))
    first = advance(source, RULE, shape, EMPTY_INDEX, [(b"t5x", bytes(50))], 4_096)
    made = advance(source, RULE, shape, first.index, items(MANY), 4_096)
    assert sum(insertions) < 10 * MANY
    assert made.index.root == tree_of([(b"t5x", bytes(50)), *items(MANY)], 50)[1]


def test_an_edit_of_everything_hashes_each_key_a_few_times(monkeypatch):
    source, root = tree_of(items(MANY), 50)
    hashed = [0]
    right = BoundaryRule.hash

    def counted(self, level, key):
        hashed[0] += 1
        return right(self, level, key)

    monkeypatch.setattr(BoundaryRule, "hash", counted)
    changes = [(key + b"x", value) for key, value in items(MANY)]
    edit_tree(source, RULE, 50, root, changes)
    assert hashed[0] < 6 * MANY
