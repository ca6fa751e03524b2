"""One change of a branch as the commit kernel will make it: look up, splice, spill, one write.

A commit here is a header of about 300 bytes, its own operations, the embedded index, a content
object of 350 bytes for each put, the tree nodes of a spill, and the branch's row, in one `apply`.
"""

from __future__ import annotations

from random import Random

from lochan.base.errors import Bug
from lochan.base.ids import EMPTY_ID, InstanceId, ObjId, content_id_from_uuid_bytes
from lochan.base.keys import Universe
from lochan.base.limits.storage import CACHE_BYTES_MAX
from lochan.codec.elements import pack_table
from lochan.codec.objects import build_value, encode_object, object_id
from lochan.index.boundary import BoundaryRule
from lochan.index.build import NodeSink, build_tree
from lochan.index.layers import EMPTY_INDEX, SHAPES, Index, find_many
from lochan.index.node import NewNode
from lochan.index.source import CachedNodes
from lochan.index.spill import Advanced, advance, spill_limit
from lochan.kv.store import ABSENT, Kind, SetIf, Stamp, Store, Won, partition
from lochan.persist.cache import Caches
from lochan.persist.objects import Objects
from lochan.system import SystemClock

TABLES = SHAPES[Universe.TABLES]
INSTANCE = InstanceId(bytes(range(16)))
SEED = bytes(range(100, 116))


Put = tuple[bytes, bytes, bytes]
"""A key, the bytes of its content object, a content id."""

Prepared = tuple[Advanced, ObjId, list[tuple[ObjId, bytes]]]
"""The next index, the id of the commit, all objects to be stored."""


class MeasuredNodes(CachedNodes):
    """Nodes whose leaves can be dropped, for measurements with warm inner nodes only."""

    def __init__(self, objects: Objects, caches: Caches) -> None:
        super().__init__(objects, caches)
        self._caches = caches

    def forget_leaves(self) -> None:
        """Drops all leaves."""
        self._leaves = self._caches.leaves.cache(len)


class Branch:
    """A branch of a repository that has nothing but an index."""

    def __init__(self, store: Store, cache_bytes: int = CACHE_BYTES_MAX) -> None:
        self.store = store
        self.objects = Objects(store, INSTANCE, SystemClock())
        self.nodes = MeasuredNodes(self.objects, Caches(cache_bytes))
        self.rule = BoundaryRule(SEED)
        self.index: Index = EMPTY_INDEX
        self.head: ObjId = EMPTY_ID
        self._row = partition(INSTANCE, Kind.REFERENCES)
        self._stamp: Stamp | None = None
        self._random = Random(5)
        self._rest_of_row = bytes(200)
        self.counting = False
        self.bytes_written = 0
        self.rows_written = 0
        self.spills = 0

    def load(self, items: list[tuple[bytes, bytes]]) -> None:
        """Gives the branch a tree of these elements."""
        batch: list[NewNode] = []
        root = build_tree(self.rule, TABLES.width, items, self.storing(batch))
        self.objects.store_many((new.obj_id, new.raw) for new in batch)
        self.index = Index(None, root)

    def storing(self, batch: list[NewNode]) -> NodeSink:
        """Returns a sink that stores nodes by the dozen: small batches stay in the caches."""

        def sink(new: NewNode) -> None:
            batch.append(new)
            if len(batch) == 64:
                self.objects.store_many((node.obj_id, node.raw) for node in batch)
                batch.clear()

        return sink

    def prepare(self, keys: list[bytes]) -> list[Put]:
        """Makes contents for keys; a client's work, so it is not measured."""
        puts = []
        for key in sorted(keys):
            content = content_id_from_uuid_bytes(self._random.randbytes(16))
            raw = encode_object(build_value(content, 1, self._random.randbytes(300)))
            puts.append((key, raw, self._random.randbytes(16)))
        return puts

    def commit(self, puts: list[Put]) -> None:
        """Publishes one commit."""
        self.look_up(puts)
        self.publish(self.advance(puts))

    def look_up(self, puts: list[Put]) -> None:
        """Looks up the present contents, as the rules for new and changed contents need them."""
        find_many(self.nodes, self.index, [key for key, _, _ in puts])

    def advance(self, puts: list[Put]) -> Prepared:
        """Makes the objects of the commit: contents, spilled nodes, the commit itself."""
        objects = [(object_id(raw), raw) for _, raw, _ in puts]
        operations = [
            (key, pack_table(1, obj_id, content))
            for (key, _, content), (obj_id, _) in zip(puts, objects, strict=True)
        ]
        done = advance(
            self.nodes, self.rule, TABLES, self.index, operations, spill_limit(self.head)
        )
        header = self.head + bytes(268) + b"".join([k + e for k, e in operations])
        raw = header + done.embedded_raw
        head = object_id(raw)
        objects += [(new.obj_id, new.raw) for new in done.nodes]
        objects.append((head, raw))
        return done, head, objects

    def publish(self, prepared: Prepared) -> None:
        """Writes everything in one call and moves the branch."""
        done, head, objects = prepared
        row = head + self._rest_of_row
        outcome = self.store.apply(
            self.objects.adds(objects), SetIf(self._row, b"main", row, self._stamp or ABSENT)
        )
        if not isinstance(outcome, Won):
            raise Bug("a write to the branch lost although the benchmark is its only writer")
        self._stamp = outcome.stamp
        self.nodes.remember(done.nodes)
        self.index, self.head = done.index, head
        self.spills += bool(done.nodes)
        if self.counting:
            self.rows_written += len(objects) + 1
            self.bytes_written += sum(len(raw) + 32 for _, raw in objects) + len(row) + 32
