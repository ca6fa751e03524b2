"""The difference of two trees, without reading what they share.

Both trees are walked side by side. A node with the same id on both sides holds the same elements
and is dropped unread. The rest is cut into ranges of few nodes, which are compared from left to
right, so that memory stays bounded however much differs; a node that crosses a cut is read for both
ranges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from lochan.base.ids import ObjId
from lochan.index.node import (
    Node,
    child_at,
    items_of,
    key_at,
    last_key,
    lower_bound,
)
from lochan.index.source import NodeSource


class Difference(msgspec.Struct, frozen=True, gc=False):
    """A key whose values differ; None is absent."""

    key: bytes
    left: bytes | None
    right: bytes | None


_Ref = tuple[bytes, ObjId]
"""The last key of a node, and its id."""

# The boundaries of one range; its nodes of both sides are fetched together.
_RANGE_NODES = 128


class _Range(msgspec.Struct, frozen=True):
    """Nodes that may hold differences in [start, end): on each side of one level.

    The levels of the sides differ until the taller tree is opened far enough.
    """

    left_level: int
    right_level: int
    lefts: list[_Ref]
    rights: list[_Ref]
    start: bytes
    end: bytes | None


def diff_trees(
    source: NodeSource,
    left: ObjId | None,
    right: ObjId | None,
    start: bytes = b"",
    end: bytes | None = None,
) -> Iterator[Difference]:
    """Yields the keys of [start, end) whose values differ, in order."""
    for piece in _differing(source, left, right, start, end):
        yield from _diff_leaves(source, piece)


def leaves_of_right(source: NodeSource, left: ObjId | None, right: ObjId | None) -> Iterator[Node]:
    """Yields the leaves that only the right tree has; one may come twice.

    Every key that the right tree has otherwise than the left one is in one of them.
    """
    for piece in _differing(source, left, right, b"", None):
        yield from source.load_nodes([obj_id for _, obj_id in piece.rights])


def _differing(
    source: NodeSource, left: ObjId | None, right: ObjId | None, start: bytes, end: bytes | None
) -> Iterator[_Range]:
    """Yields ranges of leaves that may hold differences, in order."""
    if left == right:
        return
    work = [_begin(source, left, right, start, end)]
    while work:
        piece = work.pop()
        if piece.left_level == piece.right_level == 0:
            yield piece
        else:
            work += reversed(_divide(_without_equal(_opened(source, piece))))


def _begin(
    source: NodeSource, left: ObjId | None, right: ObjId | None, start: bytes, end: bytes | None
) -> _Range:
    roots = [root for root in (left, right) if root is not None]
    loaded = dict(zip(roots, source.load_nodes(roots), strict=True))
    left_level, lefts = _root(loaded, left)
    right_level, rights = _root(loaded, right)
    return _Range(left_level, right_level, lefts, rights, start, end)


def _root(loaded: Mapping[ObjId, Node], root: ObjId | None) -> tuple[int, list[_Ref]]:
    if root is None:
        return 0, []
    node = loaded[root]
    return node.level, [(last_key(node), root)]


def _opened(source: NodeSource, piece: _Range) -> _Range:
    """Replaces the nodes of the higher side, or of both if level, by their children."""
    level = max(piece.left_level, piece.right_level)
    lefts = piece.lefts if piece.left_level == level else []
    rights = piece.rights if piece.right_level == level else []
    nodes = source.load_nodes([obj_id for _, obj_id in (*lefts, *rights)])
    start, end, half = piece.start, piece.end, len(lefts)
    return _Range(
        min(piece.left_level, level - 1),
        min(piece.right_level, level - 1),
        _children(nodes[:half], start, end) if lefts else piece.lefts,
        _children(nodes[half:], start, end) if rights else piece.rights,
        start,
        end,
    )


def _children(nodes: Sequence[Node], start: bytes, end: bytes | None) -> list[_Ref]:
    refs: list[_Ref] = []
    for node in nodes:
        count = len(node.suffixes)
        stop = count if end is None else min(lower_bound(node, end) + 1, count)
        refs += [
            (key_at(node, slot), child_at(node, slot))
            for slot in range(lower_bound(node, start), stop)
        ]
    return refs


def _without_equal(piece: _Range) -> _Range:
    common = {obj_id for _, obj_id in piece.lefts} & {obj_id for _, obj_id in piece.rights}
    if not common:
        return piece
    return msgspec.structs.replace(
        piece,
        lefts=[ref for ref in piece.lefts if ref[1] not in common],
        rights=[ref for ref in piece.rights if ref[1] not in common],
    )


def _divide(piece: _Range) -> list[_Range]:
    """Cuts a long range at boundaries of either side; an empty one is dropped."""
    if len(piece.lefts) + len(piece.rights) <= _RANGE_NODES:
        return [piece] if piece.lefts or piece.rights else []
    left_keys = [key for key, _ in piece.lefts]
    right_keys = [key for key, _ in piece.rights]
    cuts = sorted({*left_keys, *right_keys})[_RANGE_NODES - 1 : -1 : _RANGE_NODES]
    starts = [piece.start, *(cut + b"\0" for cut in cuts)]
    ends = [*starts[1:], piece.end]
    return [
        _Range(
            piece.left_level,
            piece.right_level,
            _reaching(piece.lefts, left_keys, start, end),
            _reaching(piece.rights, right_keys, start, end),
            start,
            end,
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def _reaching(refs: list[_Ref], keys: list[bytes], start: bytes, end: bytes | None) -> list[_Ref]:
    """Returns the nodes that may hold keys of [start, end)."""
    stop = len(refs) if end is None else bisect_left(keys, end) + 1
    return refs[bisect_left(keys, start) : stop]


def _diff_leaves(source: NodeSource, piece: _Range) -> Iterator[Difference]:
    refs = (*piece.lefts, *piece.rights)
    nodes = source.load_nodes([obj_id for _, obj_id in refs])
    half = len(piece.lefts)
    old = dict(item for node in nodes[:half] for item in items_of(node))
    new = dict(item for node in nodes[half:] for item in items_of(node))
    start, end = piece.start, piece.end
    changed = old.items() ^ new.items()
    for key in sorted({key for key, _ in changed}):
        if key >= start and (end is None or key < end):
            yield Difference(key, old.get(key), new.get(key))
