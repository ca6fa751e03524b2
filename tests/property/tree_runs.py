"""Random edits of one tree: after every batch it is compared with a fresh build of its content.

A run is decided by its number alone, so a failure is repeated by naming it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from lochan.base.ids import ObjId
from lochan.base.limits.storage import NODE_ELEMENTS_TARGET
from lochan.index import boundary
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.edit import edit_tree
from lochan.index.node import Change, NewNode
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes

KeyMaker = Callable[[], bytes]
ValueMaker = Callable[[], bytes]


def hard_one_in(monkeypatch: pytest.MonkeyPatch, one_in: int) -> None:
    """Makes hard breaks as frequent as the test needs.

    They must be rarer than ordinary boundaries and those rarer than eager ones, so both follow.
    """
    assert one_in > 3
    ordinary = min(NODE_ELEMENTS_TARGET, one_in - 1)
    thresholds = {"_HARD": one_in, "_ORDINARY": ordinary, "_EAGER": min(5, ordinary / 2)}
    for name, rarity in thresholds.items():
        monkeypatch.setattr(boundary, name, int(2**64 / rarity).to_bytes(8, "big"))


def sequential(random: Random) -> KeyMaker:
    state = [random.randrange(1_000)]

    def make() -> bytes:
        # Mostly the next number, sometimes one that was passed long ago.
        if random.random() < 0.1:
            return b"t%08d" % random.randrange(state[0] + 1)
        state[0] += 1
        return b"t%08d" % state[0]

    return make


def scattered(random: Random) -> KeyMaker:
    length = random.choice([1, 2, 4, 16])
    return lambda: b"t" + random.randbytes(length)


def shared_prefixes(random: Random) -> KeyMaker:
    stems = [b"tsome.very.long.namespace.of.%d\x01" % number * 2 for number in range(4)]
    space = random.choice([100, 1_000, 50_000])
    return lambda: random.choice(stems) + b"%d" % random.randrange(space)


def nested_prefixes(random: Random) -> KeyMaker:
    length_max = random.choice([8, 40, 300])

    def make() -> bytes:
        stem = random.choice([b"a", b"ab", b"b\x01"])
        return (
            b"t" + stem * random.randrange(1, length_max) + random.choice([b"", b"", b"\0", b"~"])
        )

    return make


def clustered(random: Random) -> KeyMaker:
    centres = [random.randrange(10**9) for _ in range(5)]
    return lambda: b"t%012d" % (random.choice(centres) + int(random.expovariate(0.005)))


def long_keys(random: Random) -> KeyMaker:
    stem = random.randbytes(900)
    return lambda: b"f" + stem[: random.choice([0, 3, 900])] + b"%05d" % random.randrange(3_000)


def table_values(random: Random) -> ValueMaker:
    return lambda: b"\0" + random.randbytes(49)


def varied_values(random: Random) -> ValueMaker:
    return lambda: random.randbytes(random.randrange(1, 200))


def huge_values(random: Random) -> ValueMaker:
    def make() -> bytes:
        drawn = random.random()
        if drawn < 0.75:
            return random.randbytes(random.randrange(1, 200))
        if drawn < 0.95:
            return random.randbytes(random.randrange(500, 6_000))
        return random.randbytes(random.choice([20_000, 60_000, 65_534, 65_535]))

    return make


class TreeRun:
    """One tree, its content as a dictionary, and the batches that change both."""

    def __init__(
        self,
        number: int,
        keys: Callable[[Random], KeyMaker],
        values: Callable[[Random], ValueMaker],
        first_batch_max: int,
    ) -> None:
        self.random = Random(number)
        self.number = number
        self.rule = BoundaryRule(self.random.randbytes(16))
        self.width = 50 if values is table_values else None
        self.make_key = keys(self.random)
        self.make_value = values(self.random)
        self.first_batch_max = first_batch_max
        self.stored = MemoryNodes()
        self.source = CachedNodes(self.stored, Caches(1 << 24))
        self.content: dict[bytes, bytes] = {}
        self.root: ObjId | None = None
        self.batches = 0

    def batch(self) -> dict[bytes, bytes | None]:
        """Invents changes: inserts, updates, deletes, range deletes, a mixture, or nothing new."""
        random = self.random
        if not self.content:
            count = random.choice([3, 100, self.first_batch_max // 3, self.first_batch_max])
            return {self.make_key(): self.make_value() for _ in range(count)}
        size = random.choice([1, 1, 1, 1, 2, 2, 5, 20, 20, 90, 300])
        kind = random.randrange(7)
        if kind == 0:
            return dict.fromkeys(self._stretch(), None)
        if kind == 1:
            return {key: self.make_value() for key in self._some(size)}
        if kind == 2:
            return dict.fromkeys([*self._some(size), self.make_key()], None)
        if kind == 3:
            changes: dict[bytes, bytes | None] = dict.fromkeys(self._some(size), None)
            changes.update({key: self.make_value() for key in self._some(size)})
            changes.update({self.make_key(): self.make_value() for _ in range(size)})
            return changes
        if kind == 4 and random.random() < 0.3:
            return {key: self.content[key] for key in self._some(size)}
        return {self.make_key(): self.make_value() for _ in range(size)}

    def step(self) -> None:
        """Applies one batch and compares with a fresh build."""
        changes = self.batch()
        ordered: list[Change] = sorted(changes.items())
        edited = edit_tree(self.source, self.rule, self.width, self.root, ordered)
        self.stored.keep_all(edited.nodes)
        self.source.remember(edited.nodes)
        self.root = edited.root
        self.batches += 1
        for key, value in ordered:
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value
        self._compare([new.obj_id for new in edited.nodes])

    def _compare(self, written: list[bytes]) -> None:
        fresh: list[NewNode] = []
        root = build_tree(self.rule, self.width, sorted(self.content.items()), fresh.append)
        where = f"run {self.number}, batch {self.batches}, {len(self.content)} keys"
        assert self.root == root, f"another root than a fresh build: {where}"
        fresh_ids = {new.obj_id for new in fresh}
        assert fresh_ids.issuperset(written), f"wrote nodes that the tree does not need: {where}"
        assert len(written) == len(set(written)), f"wrote a node twice: {where}"
        missing = fresh_ids - self.stored.raws.keys()
        assert not missing, f"did not write {len(missing)} nodes: {where}"

    def _some(self, count: int) -> list[bytes]:
        return self.random.sample(sorted(self.content), min(count, len(self.content)))

    def _stretch(self) -> list[bytes]:
        keys = sorted(self.content)
        start = self.random.randrange(len(keys))
        longest = self.random.choice([3, 60, 60, 200, 200, len(keys)])
        return keys[start : start + self.random.randrange(1, longest + 1)]
