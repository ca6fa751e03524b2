"""Where nodes come from: the protocol, and a cache of decoded nodes in front of the objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from lochan.base.checks import check_stored
from lochan.base.ids import ObjId
from lochan.codec.objects import NodeObject, decode_object
from lochan.index.node import NewNode, Node, check_shape, find_value
from lochan.persist.cache import BoundedCache, Caches

# Measured: what a decoded node takes beside its bytes, for each of its elements and for itself.
_ELEMENT_BYTES: Final = 45
_NODE_BYTES: Final = 300


_decode: Final = msgspec.msgpack.Decoder(NodeObject).decode


class NodeSource(Protocol):
    """Returns decoded nodes, which are shared and never changed."""

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


class Overlay:
    """A NodeSource in front of another, with new nodes that are not stored yet."""

    def __init__(self, below: NodeSource) -> None:
        self._below = below
        self._made: dict[ObjId, Node] = {}

    def add(self, nodes: Iterable[NewNode]) -> None:
        """Takes nodes that were just made."""
        for new in nodes:
            self._made[new.obj_id] = new.node

    def load_node(self, obj_id: ObjId) -> Node:
        """Returns one node."""
        return self._made.get(obj_id) or self._below.load_node(obj_id)

    def load_nodes(self, ids: Sequence[ObjId]) -> list[Node]:
        """Returns nodes in order; only those that were not added are loaded from below."""
        if not self._made:
            return self._below.load_nodes(ids)
        missing = [obj_id for obj_id in ids if obj_id not in self._made]
        loaded = dict(zip(missing, self._below.load_nodes(missing), strict=True))
        return [self._made.get(obj_id) or loaded[obj_id] for obj_id in ids]

    def find_in_leaf(self, obj_id: ObjId, key: bytes) -> bytes | None:
        """Returns the value of a key in one leaf."""
        made = self._made.get(obj_id)
        return self._below.find_in_leaf(obj_id, key) if made is None else find_value(made, key)


class CachedNodes:
    """A NodeSource that remembers what it read, and what was just written.

    Inner nodes are kept decoded, because every lookup passes through them; leaves are kept as
    bytes, because decoding 40 elements is cheaper than holding 40 objects that fall out of the
    processor's caches before they are used again. Only what was checked comes in, so what is found
    here is not checked again.
    """

    def __init__(self, objects: ObjectBytes, caches: Caches) -> None:
        self._objects = objects
        self._inner = caches.inner_nodes.cache(_weigh_inner)
        self._leaves: BoundedCache[bytes] = caches.leaves.cache(len)
        self.hits = 0
        self.misses = 0

    def load_node(self, obj_id: ObjId) -> Node:
        """Returns one node, from memory if possible."""
        # Mostly an inner node, on the way down.
        node = self._inner.find(obj_id) or self._find_leaf(obj_id)
        if node is None:
            return self._fetch([obj_id])[0]
        self.hits += 1
        return node

    def load_nodes(self, ids: Sequence[ObjId]) -> list[Node]:
        """Returns nodes in order; one fetch covers all that are missing."""
        find_inner, find_leaf = self._inner.find, self._find_leaf
        found = [find_inner(obj_id) or find_leaf(obj_id) for obj_id in ids]
        missing = [obj_id for obj_id, node in zip(ids, found, strict=True) if node is None]
        self.hits += len(ids) - len(missing)
        if missing:
            fetched = iter(self._fetch(missing))
            return [next(fetched) if node is None else node for node in found]
        return [node for node in found if node is not None]

    def find_in_leaf(self, obj_id: ObjId, key: bytes) -> bytes | None:
        """Returns the value of a key in one leaf."""
        raw = self._leaves.find(obj_id)
        if raw is None:
            (leaf,) = self._fetch([obj_id])
            check_stored(leaf.level == 0, "a child of a node of level 1 is a leaf")
            return find_value(leaf, key)
        self.hits += 1
        return find_value(_decode(raw), key)

    def remember(self, nodes: Iterable[NewNode]) -> None:
        """Keeps nodes that were just made: the next edit of the same branch reads them first."""
        for new in nodes:
            self._keep(new.obj_id, new.raw, new.node)

    def _find_leaf(self, obj_id: ObjId) -> Node | None:
        raw = self._leaves.find(obj_id)
        return None if raw is None else _decode(raw)

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
            self._inner.keep(obj_id, node)
        else:
            self._leaves.keep(obj_id, raw)


def _weigh_inner(node: Node) -> int:
    """Returns what a decoded node takes in memory: its bytes, and the headers of its objects."""
    suffixes = node.suffixes
    return len(node.values) + sum(map(len, suffixes)) + len(suffixes) * _ELEMENT_BYTES + _NODE_BYTES
