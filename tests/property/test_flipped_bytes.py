"""Every byte of every stored node, flipped in turn: a read raises Corrupt, never returns data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ROOT_INSTANCE, ObjId
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.difference import diff_trees
from lochan.index.node import NewNode, last_key
from lochan.index.read import find_many, find_one, iterate, read_page
from lochan.index.source import CachedNodes, ObjectBytes
from lochan.kv.store import Kind, Partition, partition
from lochan.persist.cache import Caches
from lochan.persist.objects import Objects
from lochan.stores.memory.store import MemoryStore
from lochan.testing.memory_nodes import check_tree
from lochan.testing.ports import ManualClock
from tests.property.tree_runs import hard_one_in

RULE = BoundaryRule(bytes(16))
TABLES = [(b"tns\x01table%03d" % n, b"\0" + bytes([n % 251]) * 49) for n in range(400)]
FILES = [(b"fpath/%03d" % n, b"\0" + b"x" * (n % 40)) for n in range(400)]


class Stored:
    """A tree in a real store, whose bytes can be changed behind everyone's back."""

    def __init__(self, width: int | None, items: list[tuple[bytes, bytes]]) -> None:
        self.store = MemoryStore()
        self.objects = Objects(self.store, ROOT_INSTANCE, ManualClock())
        self.nodes: list[NewNode] = []
        self.width = width
        self.items = items
        self.root = build_tree(RULE, width, items, self.nodes.append)
        self.objects.store_many((new.obj_id, new.raw) for new in self.nodes)

    def overwrite(self, obj_id: ObjId, raw: bytes) -> None:
        base = partition(ROOT_INSTANCE, Kind.OBJECTS)
        self.store.put_many([(Partition(base + obj_id[:2]), obj_id, raw)])

    def fresh(self, objects: ObjectBytes | None = None) -> CachedNodes:
        return CachedNodes(objects or self.objects, Caches(1 << 20))


class Trusting:
    """The mutant: bytes are handed on without looking at their hash."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def fetch_many(self, ids):
        base = partition(ROOT_INSTANCE, Kind.OBJECTS)
        rows = [self._store.get(Partition(base + obj_id[:2]), obj_id) for obj_id in ids]
        if None in rows:
            raise Corrupt("missing")
        return [row.value for row in rows if row is not None]


@pytest.fixture(params=[(50, TABLES), (None, FILES)], ids=["tables", "files"])
def stored(request, monkeypatch) -> Stored:
    hard_one_in(monkeypatch, 30)
    tree = Stored(*request.param)
    assert {0, 1, 2} <= {new.node.level for new in tree.nodes}
    return tree


def flips(raw: bytes, mask: int):
    changed = bytearray(raw)
    for at, byte in enumerate(raw):
        changed[at] = byte ^ mask
        yield bytes(changed)
        changed[at] = byte


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_a_flipped_byte_is_corrupt_for_a_lookup(stored: Stored, mask):
    flipped = 0
    for new in stored.nodes:
        key = last_key(new.node)
        for raw in flips(new.raw, mask):
            stored.overwrite(new.obj_id, raw)
            with pytest.raises(Corrupt):
                find_one(stored.fresh(), stored.root, key)
            flipped += 1
        stored.overwrite(new.obj_id, new.raw)
    assert flipped == sum(len(new.raw) for new in stored.nodes)
    assert list(iterate(stored.fresh(), stored.root)) == stored.items


READS: list[Callable[[Stored, CachedNodes], object]] = [
    lambda stored, source: list(iterate(source, stored.root)),
    lambda stored, source: find_many(source, stored.root, [key for key, _ in stored.items]),
    lambda stored, source: read_page(source, stored.root, b"", None, 1_000),
    lambda stored, source: list(diff_trees(source, stored.root, None)),
    lambda stored, source: check_tree(source, RULE, stored.width, stored.root),
]


@pytest.mark.parametrize("read", READS, ids=["iterate", "find_many", "page", "diff", "check"])
def test_a_flipped_byte_is_corrupt_for_every_kind_of_read(stored: Stored, read):
    for new in stored.nodes:
        for raw in list(flips(new.raw, 0x80))[:: 1 + len(new.raw) // 8]:
            stored.overwrite(new.obj_id, raw)
            with pytest.raises(Corrupt):
                read(stored, stored.fresh())
        stored.overwrite(new.obj_id, new.raw)
    read(stored, stored.fresh())


def test_a_missing_node_is_corrupt(stored: Stored):
    base = partition(ROOT_INSTANCE, Kind.OBJECTS)
    for new in stored.nodes:
        stored.store.delete(Partition(base + new.obj_id[:2]), new.obj_id)
        with pytest.raises(Corrupt, match="missing"):
            find_one(stored.fresh(), stored.root, last_key(new.node))
        stored.overwrite(new.obj_id, new.raw)


def test_a_node_in_the_place_of_another_is_corrupt(stored: Stored):
    one, other = stored.nodes[0], stored.nodes[1]
    stored.overwrite(one.obj_id, other.raw)
    with pytest.raises(Corrupt):
        find_one(stored.fresh(), stored.root, last_key(one.node))


def test_reading_without_the_hash_would_return_wrong_data(stored: Stored):
    """The mutant that must be noticed: without the check some flips go through unseen."""
    trusting = Trusting(stored.store)
    new = next(new for new in stored.nodes if new.node.level == 0)
    wrong = 0
    for raw in flips(new.raw, 0x01):
        stored.overwrite(new.obj_id, raw)
        with suppress(Corrupt):
            wrong += list(iterate(stored.fresh(trusting), stored.root)) != stored.items
    assert wrong > 0
