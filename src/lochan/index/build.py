"""Building a tree from a sorted stream, in one piece or in parts that agree.

A `LevelBuilder` collects the elements of one level and passes complete nodes to the next. Parts
may be built independently, in other processes or on other machines, if they are cut at hard breaks:
such a key ends its node on levels 0 and 1 whatever comes before it, so the nodes of those levels
are the same as in one piece, and only the few levels above are left to `join_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import lt

import msgspec

from lochan.base.checks import check
from lochan.base.errors import Invalid, TooLarge
from lochan.base.ids import ObjId
from lochan.base.limits.storage import NODE_ELEMENTS_MAX, NODE_RAW_BYTES_CAP, TREE_LEVELS_MAX
from lochan.index.boundary import BoundaryRule
from lochan.index.node import CHILD_WIDTH, NewNode, build_node, child_value, seal

NodeSink = Callable[[NewNode], None]
"""Takes finished nodes, children before parents."""

_CHUNK_ELEMENTS = 2_048
_CHUNK_ENTRIES = 1_024


class Child(msgspec.Struct, frozen=True, gc=False):
    """How a finished node appears in its parent."""

    key: bytes
    value: bytes

    @property
    def obj_id(self) -> ObjId:
        """The id of the node itself."""
        return ObjId(self.value[: CHILD_WIDTH - 8])


class Part(msgspec.Struct, frozen=True):
    """The result of one independent builder: its nodes on level 1, or its only leaf."""

    leaves: int
    only_leaf: Child | None
    level_one: tuple[Child, ...]


class LevelBuilder:
    """Cuts the elements of one level into nodes and passes each on as soon as it is complete.

    Nodes are cut only when a chunk is full or at the end, so that a level that turns out to have a
    single element (the root below is the root of the tree) never makes a node.
    """

    def __init__(self, rule: BoundaryRule, level: int, width: int | None, sink: NodeSink) -> None:
        check(level < TREE_LEVELS_MAX, "trees stay far below the limit of levels")
        self._rule = rule
        self._level = level
        self._width = width
        self._sink = sink
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self.made: list[Child] = []

    def add_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Takes further elements, in ascending order."""
        self._keys += keys
        self._values += values
        if len(self._keys) >= (_CHUNK_ENTRIES if self._level else _CHUNK_ELEMENTS):
            self._cut()

    def finish(self) -> None:
        """Makes the last node of what is left."""
        self._cut()
        if self._keys:
            self._emit(self._keys, self._values)
            self._keys, self._values = [], []

    def _cut(self) -> None:
        keys, values = self._keys, self._values
        start = 0
        for end in find_cuts(self._rule, self._level, keys, values, self._width):
            self._emit(keys[start:end], values[start:end])
            start = end
        self._keys, self._values = keys[start:], values[start:]

    def _emit(self, keys: list[bytes], values: list[bytes]) -> None:
        new = seal(build_node(self._level, keys, values, self._width))
        self._sink(new)
        self.made.append(Child(keys[-1], child_value(new)))

    def take(self) -> list[Child]:
        """Returns the nodes made since the last call."""
        made, self.made = self.made, []
        return made


def find_cuts(
    rule: BoundaryRule,
    level: int,
    keys: Sequence[bytes],
    values: Sequence[bytes],
    width: int | None,
) -> list[int]:
    """Finds complete nodes; measures elements only where the byte cap could matter."""
    if not keys:
        return []
    widest = max(map(len, values)) if width is None else width
    if NODE_ELEMENTS_MAX * (max(map(len, keys)) + widest) < NODE_RAW_BYTES_CAP:
        return rule.find_cuts(level, keys, None)
    return rule.find_cuts(
        level, keys, [len(key) + len(value) for key, value in zip(keys, values, strict=True)]
    )


def build_tree(
    rule: BoundaryRule,
    width: int | None,
    elements: Iterable[tuple[bytes, bytes]],
    sink: NodeSink,
) -> ObjId | None:
    """Builds the tree of a strictly ascending stream; returns its root, None if it is empty."""
    part = build_part(rule, width, elements, sink)
    return join_parts(rule, [part], sink)


def build_part(
    rule: BoundaryRule,
    width: int | None,
    elements: Iterable[tuple[bytes, bytes]],
    sink: NodeSink,
) -> Part:
    """Builds levels 0 and 1 of a range that starts after a hard break (or at the first key).

    The range must end with a hard break too, unless it is the last one.
    """
    leaves = LevelBuilder(rule, 0, width, sink)
    held = _HeldBack(LevelBuilder(rule, 1, CHILD_WIDTH, sink))
    for keys, values in _chunks(elements, width):
        leaves.add_many(keys, values)
        held.add_many(leaves.take())
    leaves.finish()
    held.add_many(leaves.take())
    return held.finish()


def join_parts(rule: BoundaryRule, parts: Sequence[Part], sink: NodeSink) -> ObjId | None:
    """Builds what is above the parts and returns the root, None if there is no element at all."""
    leaves = sum(part.leaves for part in parts)
    if leaves == 0:
        return None
    if leaves == 1:
        only = [part.only_leaf for part in parts if part.only_leaf is not None]
        return only[0].obj_id
    children: list[Child] = []
    for part in parts:
        children += _level_one(rule, part, sink)
    return grow(rule, 2, children, sink)


def grow(rule: BoundaryRule, level: int, children: Sequence[Child], sink: NodeSink) -> ObjId:
    """Builds levels upward from the nodes of the level below until one node is left."""
    while len(children) > 1:
        builder = LevelBuilder(rule, level, CHILD_WIDTH, sink)
        builder.add_many([child.key for child in children], [child.value for child in children])
        builder.finish()
        children = builder.take()
        level += 1
    return children[0].obj_id


def _level_one(rule: BoundaryRule, part: Part, sink: NodeSink) -> Sequence[Child]:
    if part.only_leaf is None:
        return part.level_one
    builder = LevelBuilder(rule, 1, CHILD_WIDTH, sink)
    builder.add_many([part.only_leaf.key], [part.only_leaf.value])
    builder.finish()
    return builder.take()


class _HeldBack:
    """Level 1 of a part; the first leaf is held back until there is a second.

    A tree of one leaf has no level 1, and only `join_parts` knows whether the tree is one leaf.
    """

    def __init__(self, builder: LevelBuilder) -> None:
        self._builder = builder
        self._leaves = 0
        self._first: Child | None = None

    def add_many(self, leaves: Sequence[Child]) -> None:
        if not leaves:
            return
        self._leaves += len(leaves)
        if self._leaves == 1:
            self._first = leaves[0]
            return
        if self._first is not None:
            leaves = [self._first, *leaves]
            self._first = None
        self._builder.add_many([leaf.key for leaf in leaves], [leaf.value for leaf in leaves])

    def finish(self) -> Part:
        self._builder.finish()
        return Part(self._leaves, self._first, tuple(self._builder.take()))


def _chunks(
    elements: Iterable[tuple[bytes, bytes]], width: int | None
) -> Iterable[tuple[list[bytes], list[bytes]]]:
    """Reads the stream in pieces and refuses one that is not strictly ascending."""
    stream = iter(elements)
    previous = b""
    while chunk := list(islice(stream, _CHUNK_ELEMENTS)):
        # Two passes, because unpacking thousands of arguments into zip costs twice as much.
        keys = [key for key, _ in chunk]
        values = [value for _, value in chunk]
        if not previous < keys[0] or not all(map(lt, keys, keys[1:])):
            raise Invalid("an index is built from keys in strictly ascending order")
        if width is not None and {*map(len, values)} != {width}:
            raise Invalid(f"every value of this index has {width} bytes")
        if width is None and (not all(values) or max(map(len, values)) >= NODE_RAW_BYTES_CAP):
            raise TooLarge(f"a value has 1 to {NODE_RAW_BYTES_CAP - 1} bytes")
        previous = keys[-1]
        yield keys, values
