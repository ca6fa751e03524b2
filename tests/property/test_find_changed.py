"""Searching a difference for some elements gives what filtering the whole difference gives."""

from __future__ import annotations

from functools import partial
from random import Random

from lochan.base.keys import Universe
from lochan.index.boundary import BoundaryRule
from lochan.index.layers import EMPTY_INDEX, SHAPES, Index, diff, find_changed
from lochan.index.node import Node, items_of
from lochan.index.source import CachedNodes
from lochan.index.spill import advance
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes
from tests.profile import counted

RULE = BoundaryRule(bytes(16))
KEYS = 600


def element(number: int) -> bytes:
    return b"\0" + b"%049d" % number


class Lines:
    """Two lines of commits that have parted, with embedded layers that spill now and then."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.stored = MemoryNodes()
        self.nodes = CachedNodes(self.stored, Caches(1 << 24))

    def grown(self, index: Index, commits: int) -> Index:
        for _ in range(commits):
            keys = self.random.sample(range(KEYS), self.random.choice((1, 3, 90)))
            changes = [(b"tk%05d" % key, self.new()) for key in sorted(keys)]
            made = advance(self.nodes, RULE, SHAPES[Universe.TABLES], index, changes, 4_096)
            self.stored.keep_all(made.nodes)
            index = made.index
        return index

    def new(self) -> bytes | None:
        return element(self.random.randrange(50)) if self.random.random() < 0.8 else None


def keys_with(wanted: set[bytes], leaf: Node) -> list[bytes]:
    return [key for key, value in items_of(leaf) if value in wanted]


def test_a_search_finds_the_changed_keys_with_a_matching_element():
    found = 0
    for seed in range(counted(60, 600)):
        lines = Lines(Random(seed))
        base = lines.grown(EMPTY_INDEX, lines.random.randrange(12))
        left = lines.grown(base, lines.random.randrange(6))
        right = lines.grown(base, lines.random.randrange(6))
        wanted = {element(lines.random.randrange(50)) for _ in range(2)}
        expected = [one for one in diff(lines.nodes, left, right) if one.right in wanted]
        searched = find_changed(
            lines.nodes,
            left,
            right,
            wanted.__contains__,
            partial(keys_with, wanted),
        )
        assert searched == expected, seed
        found += len(expected)
    assert found > counted(100, 1_000)
