"""Changing a tree: many keys at once, rewriting only what they touch.

The result equals a fresh build of the same content. An edit works level by level from the leaves:

1. *Route* the changes down from the root and load every touched node, one fetch per level.
2. On each level, change each touched node. Mostly no boundary moves and the node is edited in
   place, which takes at most three hashes. Else the node is *cut again*: elements that are left
   over at its end are joined with the next node of the level, until a boundary falls on an old one.
3. Each change of a node is itself a change for the level above: the key of the old node is removed,
   the keys of the new ones are put. So every level is the same problem.
4. At the top, grow new levels over several nodes, or drop levels that hold a single child.

Nodes are never changed: the old tree stays readable, and nothing is stored here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import Invalid, TooLarge
from lochan.base.ids import ObjId
from lochan.base.limits.storage import NODE_RAW_BYTES_CAP
from lochan.index.boundary import BoundaryRule
from lochan.index.build import Child, build_tree, grow
from lochan.index.inplace import edit_in_place
from lochan.index.node import (
    Change,
    NewNode,
    Node,
    child_at,
    child_value,
    key_at,
    last_key,
    lower_bound,
    seal,
)
from lochan.index.recut import Run
from lochan.index.source import NodeSource

_KEY: Final = itemgetter(0)


class Edited(msgspec.Struct, frozen=True, gc=False):
    """The tree after an edit, and the nodes that have to be stored for it."""

    root: ObjId | None
    nodes: list[NewNode]


def edit_tree(
    source: NodeSource,
    rule: BoundaryRule,
    width: int | None,
    root: ObjId | None,
    changes: Sequence[Change],
) -> Edited:
    """Applies changes in strictly ascending order of their keys."""
    check_changes(width, changes)
    if root is None:
        nodes: list[NewNode] = []
        puts = ((key, value) for key, value in changes if value is not None)
        return Edited(build_tree(rule, width, puts, nodes.append), nodes)
    if not changes:
        return Edited(root, [])
    return _Edit(source, rule, root).run(changes)


def edit_level_one(
    source: NodeSource, rule: BoundaryRule, root: ObjId, changes: Sequence[Change]
) -> Edited:
    """Applies what an edit of the leaves changes above them: their names and references to them."""
    return _Edit(source, rule, root).run(changes, lowest=1)


def check_changes(width: int | None, changes: Sequence[Change]) -> None:
    """Refuses what would make a tree that no build makes: wrong order, wrong widths."""
    previous = b""
    for key, value in changes:
        if key <= previous:
            raise Invalid("an index is changed by keys in strictly ascending order")
        previous = key
        if value is None:
            continue
        if width is None:
            if not 0 < len(value) < NODE_RAW_BYTES_CAP:
                raise TooLarge(f"a value has 1 to {NODE_RAW_BYTES_CAP - 1} bytes")
        elif len(value) != width:
            raise Invalid(f"every value of this index has {width} bytes")


class _Edit:
    """One edit of one tree; holds the touched nodes of each level by their last key."""

    def __init__(self, source: NodeSource, rule: BoundaryRule, root: ObjId) -> None:
        self._source = source
        self._rule = rule
        self._root_id = root
        self._root = source.load_node(root)
        self._touched: list[dict[bytes, Node]] = [{} for _ in range(self._root.level + 1)]
        self._made: list[NewNode] = []

    def run(self, changes: Sequence[Change], lowest: int = 0) -> Edited:
        """Applies changes of a level, and all that follows from them above it."""
        self._route([key for key, _ in changes], lowest)
        for level in range(lowest, self._root.level + 1):
            changes = self._edit_level(level, changes)
            if not changes:
                return Edited(self._root_id, [])
        children = [Child(key, value) for key, value in changes if value is not None]
        if not children:
            return Edited(None, [])
        if len(children) > 1:
            root = grow(self._rule, self._root.level + 1, children, self._made.append)
            return Edited(root, self._made)
        return self._collapse(self._root.level, children[0].obj_id)

    def _route(self, keys: list[bytes], lowest: int) -> None:
        """Step 1: loads the path of every key."""
        groups = [(self._root, 0, len(keys))]
        self._touched[self._root.level][last_key(self._root)] = self._root
        for level in range(self._root.level - 1, lowest - 1, -1):
            ids: list[ObjId] = []
            spans: list[tuple[bytes, int, int]] = []
            for node, low, high in groups:
                count = len(node.suffixes)
                while low < high:
                    # A key after the last one of the tree belongs to the last child.
                    slot = min(lower_bound(node, keys[low]), count - 1)
                    name = key_at(node, slot)
                    after = high if slot == count - 1 else bisect_right(keys, name, low, high)
                    ids.append(child_at(node, slot))
                    spans.append((name, low, after))
                    low = after
            nodes = self._source.load_nodes(ids)
            self._touched[level] = {
                name: node for (name, _, _), node in zip(spans, nodes, strict=True)
            }
            groups = [(node, low, high) for node, (_, low, high) in zip(nodes, spans, strict=True)]

    def _edit_level(self, level: int, changes: Sequence[Change]) -> list[Change]:
        """Step 2 for one level; returns the changes of the level above."""
        touched = self._touched[level]
        names = sorted(touched)
        above: list[Change] = []
        at = 0
        low = 0
        while at < len(names) and low < len(changes):
            name = names[at]
            high = self._span_end(changes, low, name, is_last=at == len(names) - 1)
            if low == high:
                at += 1
                continue
            old = touched[name]
            new = edit_in_place(self._rule, old, changes[low:high])
            if new is None:
                at, low = self._cut_again(level, names, at, changes, low, above)
                continue
            if new is not old:
                made = self._make(new)
                name_after = last_key(new)
                if name_after != name:
                    above.append((name, None))
                above.append((name_after, child_value(made)))
            at, low = at + 1, high
        check(low == len(changes), "every change belongs to a touched node")
        return above

    def _cut_again(
        self,
        level: int,
        names: Sequence[bytes],
        at: int,
        changes: Sequence[Change],
        low: int,
        above: list[Change],
    ) -> tuple[int, int]:
        """Re-cuts from one node on until a boundary falls on an old one; returns where to go on."""
        name: bytes | None = names[at]
        replaced: dict[bytes, bytes | None] = {}
        run = Run(self._rule, level)
        while name is not None:
            high = low
            if at < len(names) and names[at] == name:
                high = self._span_end(changes, low, name, is_last=at == len(names) - 1)
                at += 1
            replaced[name] = None
            own = changes[low:high]
            run.extend(self._touched[level][name], [key for key, _ in own], [to for _, to in own])
            low = high
            for node in run.take_complete():
                replaced[last_key(node)] = child_value(self._make(node))
            name = self._load_next(level, name) if run.keys else None
        if run.keys:
            node = run.take_rest()
            replaced[last_key(node)] = child_value(self._make(node))
        above += sorted(replaced.items())
        return at, low

    def _span_end(self, changes: Sequence[Change], low: int, name: bytes, *, is_last: bool) -> int:
        """Returns the end of the changes that belong to the node of that name."""
        return len(changes) if is_last else bisect_right(changes, name, low, key=_KEY)

    def _load_next(self, level: int, name: bytes) -> bytes | None:
        """Loads the node that follows, and its path; returns its name, None after the last."""
        node = self._root
        path: list[tuple[bytes, Node]] = [(last_key(node), node)]
        while node.level > level:
            slot = lower_bound(node, name + b"\0")
            if slot == len(node.suffixes):
                return None
            name_below = key_at(node, slot)
            node = self._source.load_node(child_at(node, slot))
            path.append((name_below, node))
        if path[-1][0] <= name:
            return None
        for passed_name, passed in path:
            self._touched[passed.level].setdefault(passed_name, passed)
        return path[-1][0]

    def _make(self, node: Node) -> NewNode:
        new = seal(node)
        self._made.append(new)
        return new

    def _collapse(self, level: int, root: ObjId) -> Edited:
        """Step 4: a root with one child is not a root."""
        made = {new.obj_id: new for new in self._made}
        # A leaf is not looked at: one that was just made may be nowhere to be loaded from.
        while level:
            node = made[root].node if root in made else self._source.load_node(root)
            if len(node.suffixes) > 1:
                break
            made.pop(root, None)
            root, level = child_at(node, 0), level - 1
        return Edited(root, list(made.values()))
