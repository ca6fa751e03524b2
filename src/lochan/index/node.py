"""Nodes in memory: search, edit, and build new ones.

A node is immutable and shared by all its readers; an edit works on a `Draft` and seals it
into a new node. The same form serves tree leaves, inner nodes and the index embedded in a commit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from struct import Struct
from typing import Final

import msgspec

from lochan.base.checks import check, check_stored
from lochan.base.ids import ID_BYTES, ObjId
from lochan.base.limits.storage import TREE_LEVELS_MAX
from lochan.codec.objects import NodeObject, encode_object, object_id

Node = NodeObject

Change = tuple[bytes, bytes | None]
"""A key and its new value; None removes it."""

COUNT_BYTES: Final = 8
CHILD_WIDTH: Final = ID_BYTES + COUNT_BYTES

_COUNTS: Final = Struct(f">{ID_BYTES}xQ")
_FIRST: Final = itemgetter(0)


class NewNode(msgspec.Struct, frozen=True, gc=False):
    """A new node that is not stored yet."""

    obj_id: ObjId
    raw: bytes
    node: Node


def seal(node: Node) -> NewNode:
    """Encodes a node and computes its id."""
    raw = encode_object(node)
    return NewNode(object_id(raw), raw, node)


def check_shape(node: Node) -> None:
    """Raises Corrupt unless lengths fit each other, so that no later slice can be short."""
    count = len(node.suffixes)
    widths = node.widths
    if node.level:
        fits = 0 < node.level < TREE_LEVELS_MAX and widths == CHILD_WIDTH
        check_stored(fits, "an inner node is of a possible level and holds children")
    if isinstance(widths, int):
        fits = widths > 0 and len(node.values) == widths * count
    else:
        fits = (
            len(widths) == count and len(node.values) == sum(widths) and min(widths, default=1) > 0
        )
    check_stored(fits and count > 0, "a node has keys, and its values fit them")


def lower_bound(node: Node, key: bytes) -> int:
    """Returns the position of the first key that is not smaller."""
    prefix = node.prefix
    if key.startswith(prefix):
        return bisect_left(node.suffixes, key[len(prefix) :])
    return 0 if key < prefix else len(node.suffixes)


def find_value(node: Node, key: bytes) -> bytes | None:
    """Returns the value of a key, None if the node does not hold it."""
    prefix = node.prefix
    if not key.startswith(prefix):
        return None
    suffix = key[len(prefix) :]
    suffixes = node.suffixes
    at = bisect_left(suffixes, suffix)
    if at == len(suffixes) or suffixes[at] != suffix:
        return None
    return value_at(node, at)


def key_at(node: Node, at: int) -> bytes:
    """Returns the key at a position."""
    return node.prefix + node.suffixes[at]


def last_key(node: Node) -> bytes:
    """Returns the largest key; the name of the node in its parent."""
    return node.prefix + node.suffixes[-1]


def value_at(node: Node, at: int) -> bytes:
    """Returns the value at a position."""
    widths = node.widths
    if isinstance(widths, int):
        return node.values[widths * at : widths * (at + 1)]
    start = sum(widths[:at])
    return node.values[start : start + widths[at]]


def child_at(node: Node, at: int) -> ObjId:
    """Returns the id of an inner node's child."""
    start = CHILD_WIDTH * at
    return ObjId(node.values[start : start + ID_BYTES])


def child_count_at(node: Node, at: int) -> int:
    """Returns the number of elements below an inner node's child."""
    return int.from_bytes(node.values[CHILD_WIDTH * at + ID_BYTES : CHILD_WIDTH * (at + 1)], "big")


def child_value(child: NewNode) -> bytes:
    """Returns the value by which a parent refers to a child."""
    return child.obj_id + child.node.total.to_bytes(COUNT_BYTES, "big")


def weight_of(value: bytes | bytearray) -> int:
    """Returns the number of elements below the child that a value refers to."""
    return int.from_bytes(value[ID_BYTES:], "big")


def keys_of(node: Node) -> list[bytes]:
    """Returns all keys in full."""
    prefix = node.prefix
    return [prefix + suffix for suffix in node.suffixes]


def values_of(node: Node) -> list[bytes]:
    """Returns all values, cut apart."""
    values, widths = node.values, node.widths
    if isinstance(widths, int):
        return [values[at : at + widths] for at in range(0, len(values), widths)]
    cut = []
    start = 0
    for width in widths:
        cut.append(values[start : start + width])
        start += width
    return cut


def items_of(node: Node) -> Iterator[tuple[bytes, bytes]]:
    """Returns keys and values together."""
    return zip(keys_of(node), values_of(node), strict=True)


def common_prefix_length(first: bytes, last: bytes) -> int:
    """Returns how many leading bytes two keys share."""
    length = min(len(first), len(last))
    # Whole numbers compare in C; the highest differing bit names the first differing byte.
    different = int.from_bytes(first[:length], "big") ^ int.from_bytes(last[:length], "big")
    return length - (different.bit_length() + 7) // 8


def build_node(
    level: int, keys: Sequence[bytes], values: Sequence[bytes], width: int | None
) -> Node:
    """Makes a node of sorted keys and their values; `width` is None where values vary."""
    check(len(keys) == len(values) > 0, "a node has as many values as keys, at least one")
    widths = tuple(map(len, values)) if width is None else width
    return pack_node(level, keys, widths, b"".join(values))


def pack_node(
    level: int, keys: Sequence[bytes], widths: int | tuple[int, ...], blob: bytes
) -> Node:
    """Makes a node of sorted keys and their values, which are already joined."""
    shared = common_prefix_length(keys[0], keys[-1])
    return Node(
        1,
        level,
        sum(map(_FIRST, _COUNTS.iter_unpack(blob))) if level else len(keys),
        len(b"".join(keys)) + len(blob),
        keys[0][:shared],
        tuple([key[shared:] for key in keys]) if shared else tuple(keys),
        widths,
        blob,
    )


class Draft:
    """A node being edited: a copy that may be changed, so that many changes cost little more."""

    __slots__ = ("_level", "_prefix", "_total", "_values", "_widths", "raw", "suffixes")

    def __init__(self, node: Node) -> None:
        widths = node.widths
        self._level = node.level
        self._total = node.total
        self._prefix = node.prefix
        self._widths = widths if isinstance(widths, int) else list(widths)
        self._values = bytearray(node.values)
        self.raw = node.raw
        self.suffixes = list(node.suffixes)

    def value(self, at: int) -> bytes:
        """Returns the value at a position."""
        start, end = self._span(at)
        return bytes(self._values[start:end])

    def insert(self, at: int, suffix: bytes, value: bytes) -> None:
        """Adds an element at its place."""
        start, _ = self._span(at)
        self._values[start:start] = value
        self.suffixes.insert(at, suffix)
        if not isinstance(self._widths, int):
            self._widths.insert(at, len(value))
        self.raw += len(self._prefix) + len(suffix) + len(value)
        self._total += weight_of(value) if self._level else 1

    def replace(self, at: int, value: bytes) -> None:
        """Replaces the value of an element."""
        start, end = self._span(at)
        if self._level:
            self._total += weight_of(value) - weight_of(self._values[start:end])
        if not isinstance(self._widths, int):
            self._widths[at] = len(value)
            self.raw += len(value) - (end - start)
        self._values[start:end] = value

    def delete(self, at: int) -> None:
        """Removes an element."""
        start, end = self._span(at)
        self.raw -= len(self._prefix) + len(self.suffixes[at]) + end - start
        self._total -= weight_of(self._values[start:end]) if self._level else 1
        del self._values[start:end]
        del self.suffixes[at]
        if not isinstance(self._widths, int):
            del self._widths[at]

    def node(self) -> Node:
        """Returns the finished node; its first and last key must still share the whole prefix."""
        widths = self._widths
        return Node(
            1,
            self._level,
            self._total,
            self.raw,
            self._prefix,
            tuple(self.suffixes),
            widths if isinstance(widths, int) else tuple(widths),
            bytes(self._values),
        )

    def _span(self, at: int) -> tuple[int, int]:
        widths = self._widths
        if isinstance(widths, int):
            return widths * at, widths * (at + 1)
        start = sum(widths[:at])
        return start, start + (widths[at] if at < len(widths) else 0)
