"""The step from one commit's index to the next: splice the embedded layer, spill it when full.

1. *Splice* the operations into the embedded layer; nothing else is re-serialised.
2. If it is now over the limit, *spill*: what earlier commits put there moves into the tree by one
   edit, this commit's own elements stay, so that a log can show them without reading the tree. Only
   if they alone are over the limit they move too.

The limit varies a little from commit to commit, by bytes of the parent's id: branches that were
created together must not all spill in the same moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import merge
from operator import itemgetter
from typing import Final

import msgspec

from lochan.base.ids import ObjId
from lochan.base.limits.storage import EMBEDDED_BYTES_MAX, EMBEDDED_STAGGER_BYTES, NODE_ELEMENTS_MAX
from lochan.codec.elements import is_remove
from lochan.codec.objects import NodeObject, decode_object, encode_inner
from lochan.index.boundary import BoundaryRule
from lochan.index.edit import check_changes, edit_tree
from lochan.index.layers import Index, Shape
from lochan.index.node import Change, Draft, NewNode, Node, build_node, check_shape, items_of
from lochan.index.source import NodeSource

_KEY: Final = itemgetter(0)

# The largest size that the embedded layer may have in any commit.
_LIMIT_MAX: Final = EMBEDDED_BYTES_MAX - EMBEDDED_STAGGER_BYTES // 4 + EMBEDDED_STAGGER_BYTES


class Advanced(msgspec.Struct, frozen=True, gc=False):
    """The index after a commit: its layers, the embedded one's bytes, the nodes to be stored."""

    index: Index
    embedded_raw: bytes
    nodes: list[NewNode]


def spill_limit(parent: ObjId) -> int:
    """Returns the size that the embedded layer may have in a commit on this parent."""
    stagger = int.from_bytes(parent[:2], "big") % EMBEDDED_STAGGER_BYTES
    return EMBEDDED_BYTES_MAX - EMBEDDED_STAGGER_BYTES // 4 + stagger


def surely_spills(operations: Sequence[Change]) -> bool:
    """Returns whether these operations leave nothing embedded, in a commit on any parent.

    Their elements alone are over every limit. So the index after them is a tree and nothing else,
    and depends on the content only, not on the parent.
    """
    size = 0
    for _, element in operations:
        if element is not None:
            size += len(element)
            if size > _LIMIT_MAX:
                return True
    return False


def advance(
    source: NodeSource,
    rule: BoundaryRule,
    shape: Shape,
    index: Index,
    operations: Sequence[Change],
    limit: int,
) -> Advanced:
    """Applies operations (key and element, None to remove) in strictly ascending order."""
    if surely_spills(operations):
        edited = edit_tree(source, rule, shape.width, index.root, _over(index.embedded, operations))
        return Advanced(Index(None, edited.root), encode_embedded(None), edited.nodes)
    check_changes(shape.width, operations)
    embedded = splice(shape, index, operations)
    raw = encode_embedded(embedded)
    if len(raw) <= limit or embedded is None:
        return Advanced(Index(embedded, index.root), raw, [])
    own = {key for key, _ in operations}
    older = [item for item in items_of(embedded) if item[0] not in own]
    kept = [item for item in items_of(embedded) if item[0] in own]
    stays = _node_of(shape, kept)
    raw = encode_embedded(stays)
    if len(raw) > limit:
        older, stays, raw = list(items_of(embedded)), None, encode_embedded(None)
    changes = [(key, None if is_remove(element) else element) for key, element in older]
    edited = edit_tree(source, rule, shape.width, index.root, changes)
    return Advanced(Index(stays, edited.root), raw, edited.nodes)


def _over(embedded: Node | None, operations: Sequence[Change]) -> Sequence[Change]:
    """Returns operations with what the embedded layer below them holds, in ascending order."""
    if embedded is None:
        return operations
    own = {key for key, _ in operations}
    older = [change for change in embedded_changes(embedded) if change[0] not in own]
    return list(merge(older, operations, key=_KEY))


def embedded_changes(embedded: Node | None) -> list[Change]:
    """Returns what the embedded layer changes in the tree below it."""
    if embedded is None:
        return []
    return [(key, None if is_remove(element) else element) for key, element in items_of(embedded)]


def splice(shape: Shape, index: Index, operations: Sequence[Change]) -> Node | None:
    """Returns the embedded layer after the operations.

    Where there is no tree below, a remove leaves nothing behind.
    """
    node = index.embedded
    marker = None if index.root is None else shape.remove
    few = len(operations) <= NODE_ELEMENTS_MAX
    if node is None or not few:
        return _splice_all(shape, node, operations, marker)
    draft = Draft(node)
    suffixes, prefix = draft.suffixes, node.prefix
    skip = len(prefix)
    for key, element in operations:
        new = marker if element is None else element
        if new is None or not key.startswith(prefix):
            # The prefix may grow when the first or last element is removed, and has to shrink for
            # a key without it.
            return _splice_all(shape, node, operations, marker)
        suffix = key[skip:]
        at = bisect_left(suffixes, suffix)
        present = at < len(suffixes) and suffixes[at] == suffix
        if present:
            draft.replace(at, new)
        else:
            draft.insert(at, suffix, new)
    return draft.node()


def encode_embedded(node: Node | None) -> bytes:
    """Returns the bytes of the embedded layer in a commit; empty if there is none."""
    return b"" if node is None else encode_inner(node)


def decode_embedded(raw: bytes) -> Node | None:
    """Reads what `encode_embedded` wrote; the commit's own checksum covers the bytes."""
    if not raw:
        return None
    node = decode_object(NodeObject, raw)
    check_shape(node)
    return node


def _splice_all(
    shape: Shape, node: Node | None, operations: Sequence[Change], marker: bytes | None
) -> Node | None:
    elements = {} if node is None else dict(items_of(node))
    for key, element in operations:
        new = marker if element is None else element
        if new is None:
            elements.pop(key, None)
        else:
            elements[key] = new
    return _node_of(shape, sorted(elements.items()))


def _node_of(shape: Shape, items: Sequence[tuple[bytes, bytes]]) -> Node | None:
    if not items:
        return None
    return build_node(0, [key for key, _ in items], [value for _, value in items], shape.width)
