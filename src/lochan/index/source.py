"""Where nodes come from: the protocol, and a cache of decoded nodes in front of the objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from lochan.base.ids import ObjId
from lochan.codec.objects import NodeObject, decode_object
from lochan.index.node import NewNode, Node, check_shape

# A decoded node costs its raw bytes plus about this much for each of its Python objects.
_ELEMENT_OVERHEAD_BYTES: Final = 45
_NODE_OVERHEAD_BYTES: Final = 400


class NodeSource(Protocol):
    """Hands out decoded nodes; what it returns is shared and never changed."""

    def load_node(self, obj_id: ObjId) -> Node:
        """Returns one node."""
        ...

    def load_nodes(self, ids: Sequence[ObjId]) -> list[Node]:
        """Returns nodes in the order of their ids, fetching all that are not at hand together."""
        ...


class ObjectBytes(Protocol):
    """What a cache needs of the objects below: their bytes, checked against their ids."""

    def fetch_many(self, ids: Sequence[ObjId]) -> list[bytes]:
        """Returns the bytes of all ids, in their order; a missing or changed one is Corrupt."""
        ...


class CachedNodes:
    """A NodeSource that remembers what it read, and what was just written.

    Inner nodes and leaves have budgets of their own, so that a scan over many leaves cannot push
    out the few inner nodes that every lookup needs. Each budget keeps two generations: what is used
    moves to the young one, and when that is full the old one is dropped whole. That is as good as
    least-recently-used to a factor of two and costs one dictionary lookup.
    """

    def __init__(self, objects: ObjectBytes, bytes_max: int) -> None:
        self._objects = objects
        self._leaves = _Generations(bytes_max // 4)
        self._inner = _Generations(bytes_max // 4)
        self.hits = 0
        self.misses = 0

    def load_node(self, obj_id: ObjId) -> Node:
        """Returns one node, from memory if possible."""
        node = self._inner.find(obj_id) or self._leaves.find(obj_id)
        if node is not None:
            self.hits += 1
            return node
        return self._fetch([obj_id])[0]

    def load_nodes(self, ids: Sequence[ObjId]) -> list[Node]:
        """Returns nodes in order; one fetch covers all that are missing."""
        find_inner, find_leaf = self._inner.find, self._leaves.find
        found = [find_inner(obj_id) or find_leaf(obj_id) for obj_id in ids]
        missing = [obj_id for obj_id, node in zip(ids, found, strict=True) if node is None]
        self.hits += len(ids) - len(missing)
        if missing:
            fetched = iter(self._fetch(missing))
            return [next(fetched) if node is None else node for node in found]
        return [node for node in found if node is not None]

    def remember(self, nodes: Iterable[NewNode]) -> None:
        """Keeps nodes that were just made: the next edit of the same branch reads them first."""
        for new in nodes:
            self._keep(new.obj_id, new.node)

    def forget_leaves(self) -> None:
        """Drops all leaves; for measurements with warm inner nodes only."""
        self._leaves = _Generations(self._leaves.bytes_max)

    def _fetch(self, ids: Sequence[ObjId]) -> list[Node]:
        self.misses += len(ids)
        nodes = []
        for obj_id, raw in zip(ids, self._objects.fetch_many(ids), strict=True):
            node = decode_object(NodeObject, raw)
            check_shape(node)
            self._keep(obj_id, node)
            nodes.append(node)
        return nodes

    def _keep(self, obj_id: ObjId, node: Node) -> None:
        weight = node.raw + len(node.suffixes) * _ELEMENT_OVERHEAD_BYTES + _NODE_OVERHEAD_BYTES
        (self._inner if node.level else self._leaves).keep(obj_id, node, weight)


class _Generations:
    """Nodes of two generations, each at most `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._young: dict[ObjId, tuple[Node, int]] = {}
        self._old: dict[ObjId, tuple[Node, int]] = {}
        self._young_bytes = 0

    def find(self, obj_id: ObjId) -> Node | None:
        held = self._young.get(obj_id)
        if held is not None:
            return held[0]
        held = self._old.get(obj_id)
        if held is None:
            return None
        self.keep(obj_id, *held)
        return held[0]

    def keep(self, obj_id: ObjId, node: Node, weight: int) -> None:
        if self._young_bytes + weight > self.bytes_max:
            self._old = self._young
            self._young = {}
            self._young_bytes = 0
        if obj_id not in self._young:
            self._young[obj_id] = (node, weight)
            self._young_bytes += weight
