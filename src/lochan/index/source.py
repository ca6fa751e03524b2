"""Where nodes come from: the protocol, and a cache of decoded nodes in front of the objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from lochan.base.ids import ObjId
from lochan.codec.objects import NodeObject, decode_object, node_may_hold
from lochan.index.node import NewNode, Node, check_shape, find_value

# A decoded node costs its bytes plus about this much for each of its Python objects, and every
# entry of the cache about this much for itself.
_ELEMENT_OVERHEAD_BYTES: Final = 45
_ENTRY_OVERHEAD_BYTES: Final = 300

_Held = TypeVar("_Held")


class NodeSource(Protocol):
    """Hands out decoded nodes; what it returns is shared and never changed."""

    def load_node(self, obj_id: ObjId) -> Node:
        """Returns one node."""
        ...

    def load_nodes(self, ids: Sequence[ObjId]) -> list[Node]:
        """Returns nodes in the order of their ids, fetching all that are not at hand together."""
        ...

    def find_in_leaf(self, obj_id: ObjId, key: bytes) -> bytes | None:
        """Returns the value of a key in one leaf, None if the leaf does not hold it."""
        ...


class ObjectBytes(Protocol):
    """What a cache needs of the objects below: their bytes, checked against their ids."""

    def fetch_many(self, ids: Sequence[ObjId]) -> list[bytes]:
        """Returns the bytes of all ids, in their order; a missing or changed one is Corrupt."""
        ...


class CachedNodes:
    """A NodeSource that remembers what it read, and what was just written.

    Inner nodes are kept decoded, because every lookup passes through them; leaves are kept as
    bytes, because decoding 40 elements is cheaper than holding 40 objects that fall out of the
    processor's caches before they are used again. Both have budgets of their own, so that a scan
    over many leaves cannot push out the few inner nodes.
    """

    def __init__(self, objects: ObjectBytes, bytes_max: int) -> None:
        self._objects = objects
        self._inner: Generations[Node] = Generations(bytes_max // 4)
        self._leaves: Generations[bytes] = Generations(bytes_max - bytes_max // 4)
        self.hits = 0
        self.misses = 0

    def load_node(self, obj_id: ObjId) -> Node:
        """Returns one node, from memory if possible."""
        node = self._find(obj_id)
        if node is None:
            return self._fetch([obj_id])[0]
        self.hits += 1
        return node

    def load_nodes(self, ids: Sequence[ObjId]) -> list[Node]:
        """Returns nodes in order; one fetch covers all that are missing."""
        found = [self._find(obj_id) for obj_id in ids]
        missing = [obj_id for obj_id, node in zip(ids, found, strict=True) if node is None]
        self.hits += len(ids) - len(missing)
        if missing:
            fetched = iter(self._fetch(missing))
            return [next(fetched) if node is None else node for node in found]
        return [node for node in found if node is not None]

    def find_in_leaf(self, obj_id: ObjId, key: bytes) -> bytes | None:
        """Returns the value of a key; decodes the leaf only if it may hold the key."""
        raw = self._leaves.find(obj_id)
        if raw is None:
            self.misses += 1
            (raw,) = self._objects.fetch_many([obj_id])
            self._leaves.keep(obj_id, raw, len(raw) + _ENTRY_OVERHEAD_BYTES)
        else:
            self.hits += 1
        if not node_may_hold(raw, key):
            return None
        return find_value(decode_object(NodeObject, raw), key)

    def remember(self, nodes: Iterable[NewNode]) -> None:
        """Keeps nodes that were just made: the next edit of the same branch reads them first."""
        for new in nodes:
            self._keep(new.obj_id, new.raw, new.node)

    def forget_leaves(self) -> None:
        """Drops all leaves; for measurements with warm inner nodes only."""
        self._leaves = Generations(self._leaves.bytes_max)

    def _find(self, obj_id: ObjId) -> Node | None:
        node = self._inner.find(obj_id)
        if node is not None:
            return node
        raw = self._leaves.find(obj_id)
        return None if raw is None else decode_object(NodeObject, raw)

    def _fetch(self, ids: Sequence[ObjId]) -> list[Node]:
        self.misses += len(ids)
        nodes = []
        for obj_id, raw in zip(ids, self._objects.fetch_many(ids), strict=True):
            node = decode_object(NodeObject, raw)
            check_shape(node)
            self._keep(obj_id, raw, node)
            nodes.append(node)
        return nodes

    def _keep(self, obj_id: ObjId, raw: bytes, node: Node) -> None:
        if node.level:
            weight = len(raw) + len(node.suffixes) * _ELEMENT_OVERHEAD_BYTES
            self._inner.keep(obj_id, node, weight + _ENTRY_OVERHEAD_BYTES)
        else:
            self._leaves.keep(obj_id, raw, len(raw) + _ENTRY_OVERHEAD_BYTES)


class Generations(Generic[_Held]):
    """A bounded map that forgets what was not used for long.

    Two generations: what is used moves to the young one, and when that holds half the bytes, the
    old one is dropped whole. That is as good as least-recently-used to a factor of two and costs
    one dictionary lookup.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._young: dict[ObjId, tuple[_Held, int]] = {}
        self._old: dict[ObjId, tuple[_Held, int]] = {}
        self._young_bytes = 0

    def find(self, obj_id: ObjId) -> _Held | None:
        """Returns what is held under the id, None if it is not."""
        held = self._young.get(obj_id)
        if held is None:
            held = self._old.get(obj_id)
            if held is None:
                return None
            self.keep(obj_id, *held)
        return held[0]

    def keep(self, obj_id: ObjId, held: _Held, weight: int) -> None:
        """Holds something that weighs so many bytes."""
        if obj_id in self._young:
            return
        if self._young_bytes + weight > self.bytes_max // 2:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young[obj_id] = (held, weight)
        self._young_bytes += weight
