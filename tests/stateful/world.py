"""One universe of one repository through many commits, beside plain dictionaries of the same.

Every version ever made stays in the world, is branched from, read and compared at random.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from lochan.base.keys import Universe, prefix_end
from lochan.codec.objects import encode_object
from lochan.index.boundary import BoundaryRule
from lochan.index.layers import EMPTY_INDEX, SHAPES, Index, diff, find_many, read_page
from lochan.index.node import Change, Node
from lochan.index.source import CachedNodes
from lochan.index.spill import advance, decode_embedded
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes, check_tree
from lochan.testing.models.index import IndexModel
from tests.index.actions import Action, embedded_actions, own_actions, tree_actions

LIMITS = [0, 60, 400, 2_000, 4_096]


class Version(msgspec.Struct, frozen=True):
    """A commit's index, what it must hold, and the keys that the commit itself changed."""

    index: Index
    embedded_raw: bytes
    model: IndexModel
    own: frozenset[bytes]


class World:
    """The rules by which versions are made, and every promise about reading them."""

    def __init__(self, random: Random, universe: Universe, names: int) -> None:
        self.random = random
        self.shape = SHAPES[universe]
        self.rule = BoundaryRule(random.randbytes(16))
        self.stored = MemoryNodes()
        self.source = CachedNodes(self.stored, Caches(random.choice([4_000, 200_000, 1 << 24])))
        self.versions = [Version(EMPTY_INDEX, b"", IndexModel(), frozenset())]
        self.seen: dict[int, tuple[Node, bytes]] = {}
        stems = [b"", b"a", b"a\x01", b"a\x01b\x01", b"long namespace \x01"]
        first = bytes([universe])
        self.names = [first + random.choice(stems) + b"%d" % number for number in range(names)]
        self.steps = 0

    def element(self) -> bytes:
        """Makes a put; its first byte may carry the flag of a content id that is no UUID."""
        width = self.shape.width or self.random.choice([2, 9, 40, 700])
        return self.random.choice([b"\0", b"\2"]) + self.random.randbytes(width - 1)

    def changes(self, count: int, removes: float) -> list[Change]:
        """Makes operations on that many names or fewer."""
        names = {self.random.choice(self.names) for _ in range(count)}
        return [
            (name, None if self.random.random() < removes else self.element())
            for name in sorted(names)
        ]

    def commit(self, parent: Version, operations: list[Change], limit: int) -> Version:
        """Makes a version on top of another."""
        made = advance(self.source, self.rule, self.shape, parent.index, operations, limit)
        self.stored.keep_all(made.nodes)
        if self.random.random() < 0.8:
            self.source.remember(made.nodes)
        embedded = decode_embedded(made.embedded_raw)
        assert embedded == made.index.embedded
        assert len(made.embedded_raw) <= limit
        index = Index(embedded, made.index.root)
        version = Version(
            index,
            made.embedded_raw,
            parent.model.changed(operations),
            frozenset(key for key, _ in operations),
        )
        self.versions.append(version)
        for new in made.nodes:
            self.seen[id(new.node)] = (new.node, new.raw)
        return version

    def check_lookups(self, version: Version, keys: list[bytes]) -> None:
        keys = sorted(set(keys))
        assert find_many(self.source, version.index, keys) == version.model.find_many(keys)

    def check_page(self, version: Version, start: bytes, end: bytes | None, limit: int) -> None:
        page = read_page(self.source, version.index, start, end, limit)
        assert page == version.model.items(start, end)[:limit]

    def check_walk(self, version: Version, limit: int) -> None:
        """All pages after each other are the whole."""
        walked: list[tuple[bytes, bytes]] = []
        start = b""
        while page := read_page(self.source, version.index, start, None, limit):
            assert len(page) <= limit
            walked += page
            start = page[-1][0] + b"\0"
        assert walked == version.model.items()

    def check_diff(self, left: Version, right: Version, start: bytes, end: bytes | None) -> None:
        found = list(diff(self.source, left.index, right.index, start, end))
        assert found == left.model.diff(right.model, start, end)

    def check_actions(self, version: Version) -> None:
        """The five actions: own keys are ADD or REMOVE, older ones INCREMENTAL, the tree NONE."""
        held = dict.fromkeys((), b"")
        for item in tree_actions(self.source, version.index):
            assert item.action is Action.NONE
            assert item.element is not None
            held[item.key] = item.element
        for item in embedded_actions(version.index, version.own):
            own = item.key in version.own
            if item.element is None:
                assert item.action is (Action.REMOVE if own else Action.INCREMENTAL_REMOVE)
                held.pop(item.key, None)
            else:
                assert item.action is (Action.ADD if own else Action.INCREMENTAL_ADD)
                held[item.key] = item.element
        assert held == version.model.elements
        found = own_actions(self.source, version.index, version.own)
        assert [item.key for item in found] == sorted(version.own)
        for item in found:
            assert item.element == version.model.elements.get(item.key)
            assert item.action is (Action.REMOVE if item.element is None else Action.ADD)

    def check_whole_tree(self, version: Version) -> None:
        count = check_tree(self.source, self.rule, self.shape.width, version.index.root)
        assert (count == 0) == (version.index.root is None)

    def check_nothing_changed(self) -> None:
        """Nodes are immutable: each still encodes to the bytes it was made of."""
        for node, raw in self.seen.values():
            assert encode_object(node) == raw
        for obj_id in self.stored.raws:
            assert encode_object(self.source.load_node(obj_id)) == self.stored.raws[obj_id]
        for version in self.versions:
            if version.index.embedded is not None:
                assert encode_object(version.index.embedded) == version.embedded_raw

    def some_version(self) -> Version:
        recent = self.random.random() < 0.8
        return self.random.choice(self.versions[-3:] if recent else self.versions)

    def some_range(self) -> tuple[bytes, bytes | None]:
        start, end = sorted([self.random.choice(self.names), self.random.choice(self.names)])
        return self.random.choice(
            [
                (b"", None),
                (start, None),
                (start, end),
                (b"", end),
                (end, start),
                (start + b"\0", end),
            ]
        )

    def step(self) -> None:
        """Does one thing, chosen at random."""
        self.random.choice(STEPS)(self)
        self.steps += 1


def _commit_few(world: World) -> None:
    operations = world.changes(world.random.choice([1, 1, 2, 5]), 0.3)
    world.commit(world.some_version(), operations, world.random.choice(LIMITS))


def _commit_many(world: World) -> None:
    removes = world.random.choice([0, 0, 0.2, 0.5, 1])
    operations = world.changes(world.random.choice([20, 100, 300]), removes)
    world.commit(world.some_version(), operations, world.random.choice(LIMITS))


def _find(world: World) -> None:
    keys = world.random.choices(world.names, k=world.random.choice([0, 1, 2, 30]))
    absent = [key + world.random.choice([b"\0", b"~", b"0"]) for key in keys[:3]]
    world.check_lookups(world.some_version(), keys + absent + [b"", b"\xff"][: len(absent)])


def _page(world: World) -> None:
    limit = world.random.choice([1, 2, 10, 100, 1_000])
    world.check_page(world.some_version(), *world.some_range(), limit)


def _prefix(world: World) -> None:
    name = world.random.choice(world.names)
    prefix = name[: world.random.randrange(len(name) + 1)]
    world.check_page(world.some_version(), prefix, prefix_end(prefix), 1_000)


def _walk(world: World) -> None:
    world.check_walk(world.some_version(), world.random.choice([3, 17, 250]))


def _diff(world: World) -> None:
    world.check_diff(world.some_version(), world.some_version(), *world.some_range())


def _actions(world: World) -> None:
    world.check_actions(world.some_version())


def _whole_tree(world: World) -> None:
    world.check_whole_tree(world.some_version())


def _restart(world: World) -> None:
    """A new process: nothing is cached, every node is read back from its bytes."""
    world.source = CachedNodes(
        world.stored, Caches(world.random.choice([0, 4_000, 200_000, 1 << 24]))
    )


_STEPS_AND_WEIGHTS: list[tuple[Callable[[World], None], int]] = [
    (_commit_few, 8),
    (_commit_many, 2),
    (_find, 8),
    (_page, 8),
    (_prefix, 4),
    (_walk, 1),
    (_diff, 6),
    (_actions, 2),
    (_whole_tree, 1),
    (_restart, 1),
]
STEPS = [step for step, weight in _STEPS_AND_WEIGHTS for _ in range(weight)]
