"""Edits a node in place, if no boundary can move; at most three hashes decide that."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from lochan.base.limits.storage import (
    NODE_ELEMENTS_EAGER,
    NODE_ELEMENTS_MAX,
    NODE_ELEMENTS_MIN,
    NODE_RAW_BYTES_CAP,
)
from lochan.index.boundary import BoundaryRule
from lochan.index.node import CHILD_WIDTH, Change, Draft, Node, weight_of


def edit_in_place(rule: BoundaryRule, node: Node, changes: Sequence[Change]) -> Node | None:
    """Returns the changed node, the same one if nothing changed, None if it must be cut again.

    Every change is checked against the boundaries of the node as the changes before it left it; if
    each leaves the node one node, all together do.
    """
    prefix = node.prefix
    skip = len(prefix)
    if node.raw >= NODE_RAW_BYTES_CAP:
        return None
    if len(changes) == 1 and isinstance(node.widths, int):
        ((key, value),) = changes
        if value is not None:
            return _put_one(rule, node, key, value)
    if node.level and (replaced := _replace_children(node, changes)) is not None:
        return replaced
    changed = False
    draft = Draft(node)
    for key, value in changes:
        if not key.startswith(prefix):
            if value is None:
                continue
            return None
        suffixes, suffix = draft.suffixes, key[skip:]
        at = bisect_left(suffixes, suffix)
        present = at < len(suffixes) and suffixes[at] == suffix
        if value is None:
            if not present:
                continue
            if not _may_delete(rule, node.level, prefix, suffixes, at):
                return None
            draft.delete(at)
        elif present:
            if draft.value(at) == value:
                continue
            draft.replace(at, value)
        else:
            if not _may_insert(rule, node.level, prefix, suffixes, at, key):
                return None
            draft.insert(at, suffix, value)
        changed = True
        if draft.raw >= NODE_RAW_BYTES_CAP:
            return None
    return draft.node() if changed else node


def _put_one(rule: BoundaryRule, node: Node, key: bytes, value: bytes) -> Node | None:
    """Does the same for one put of fixed width; nine of ten edits are of this kind."""
    prefix, suffixes, values, width = node.prefix, node.suffixes, node.values, len(value)
    if not key.startswith(prefix):
        return None
    suffix = key[len(prefix) :]
    at = bisect_left(suffixes, suffix)
    start = width * at
    total, raw = node.total, node.raw
    if at < len(suffixes) and suffixes[at] == suffix:
        old = values[start : start + width]
        if old == value:
            return node
        if node.level:
            total += weight_of(value) - weight_of(old)
        values = b"".join((values[:start], value, values[start + width :]))
    else:
        raw += len(key) + width
        if raw >= NODE_RAW_BYTES_CAP:
            return None
        if not _may_insert(rule, node.level, prefix, suffixes, at, key):
            return None
        total += weight_of(value) if node.level else 1
        values = b"".join((values[:start], value, values[start:]))
        suffixes = suffixes[:at] + (suffix,) + suffixes[at:]  # noqa: RUF005 - measured faster
    return Node(1, node.level, total, raw, prefix, suffixes, node.widths, values)


def _replace_children(node: Node, changes: Sequence[Change]) -> Node | None:
    """Replaces the values of children of an inner node; None if the changes need more than that.

    Most edits of inner nodes are of this kind; their keys are not even touched.
    """
    prefix, suffixes = node.prefix, node.suffixes
    skip = len(prefix)
    values = bytearray(node.values)
    total = node.total
    for key, value in changes:
        if value is None or not key.startswith(prefix):
            return None
        suffix = key[skip:]
        at = bisect_left(suffixes, suffix)
        if at == len(suffixes) or suffixes[at] != suffix:
            return None
        start = CHILD_WIDTH * at
        end = start + CHILD_WIDTH
        total += weight_of(value) - weight_of(values[start:end])
        values[start:end] = value
    if values == node.values:
        return node
    return Node(1, node.level, total, node.raw, prefix, suffixes, CHILD_WIDTH, bytes(values))


def _may_insert(
    rule: BoundaryRule,
    level: int,
    prefix: bytes,
    suffixes: Sequence[bytes],
    at: int,
    key: bytes,
) -> bool:
    """Returns whether the node stays one node when the key is inserted at that position.

    Elements behind it move up by one: only those that reach the minimum or the eager position by
    that can become boundaries. The last one, if it was a boundary, stays one.
    """
    count = len(suffixes)
    if count >= NODE_ELEMENTS_MAX:
        return False
    if at == count:
        return not rule.ends_node(level, prefix + suffixes[-1], count)
    if rule.ends_node(level, key, at + 1):
        return False
    for position in (NODE_ELEMENTS_MIN, NODE_ELEMENTS_EAGER):
        # The element at this position after the insertion, if it moved and is not the last.
        if at < position - 1 < count and rule.ends_node(
            level, prefix + suffixes[position - 2], position, soft=True
        ):
            return False
    return True


def _may_delete(
    rule: BoundaryRule, level: int, prefix: bytes, suffixes: Sequence[bytes], at: int
) -> bool:
    """Returns whether the node stays one node, with its prefix, when an element is deleted.

    Elements behind it move down by one, which makes no new boundary; but the last one must still be
    one where the rule was only just met.
    """
    count = len(suffixes)
    if at == 0 or at == count - 1:
        return False
    after = count - 1
    if after >= NODE_ELEMENTS_MIN and after not in (
        NODE_ELEMENTS_EAGER - 1,
        NODE_ELEMENTS_MAX - 1,
    ):
        return True
    return rule.ends_node(level, prefix + suffixes[-1], after)
