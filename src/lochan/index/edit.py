"""Changing a tree: many keys at once, rewriting only what they touch.

The result equals a fresh build of the same content. An edit works level by level from the leaves:

1. *Route* the changes down from the root and load every touched node, one fetch per level.
2. On each level, change each touched node. Mostly no boundary moves and the node is edited in
   place, which takes at most three hashes. Else the node is *cut anew*; what is left over at its
   end pulls in the next node of the level, until a boundary falls on an old one.
3. Each change of a node is itself a change for the level above: the key of the old node is removed,
   the keys of the new ones are put. So every level is the same problem.
4. At the top, grow new levels over several nodes, or drop levels that hold a single child.

Nodes are never changed: the old tree stays readable, and nothing is stored here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import Invalid, TooLarge
from lochan.base.ids import ObjId
from lochan.base.limits import (
    NODE_ELEMENTS_EAGER,
    NODE_ELEMENTS_MAX,
    NODE_ELEMENTS_MIN,
    NODE_RAW_BYTES_CAP,
)
from lochan.index.boundary import BoundaryRule
from lochan.index.build import Child, build_tree, grow
from lochan.index.node import (
    Draft,
    NewNode,
    Node,
    child_at,
    child_value,
    count_of,
    items_of,
    key_at,
    keys_of,
    last_key,
    lower_bound,
    pack_node,
    seal,
)
from lochan.index.source import NodeSource

Change = tuple[bytes, bytes | None]
"""A key and its new value; None removes it."""


class Edited(msgspec.Struct, frozen=True):
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
    return _Edit(source, rule, width, root).run(changes)


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

    def __init__(
        self, source: NodeSource, rule: BoundaryRule, width: int | None, root: ObjId
    ) -> None:
        self._source = source
        self._rule = rule
        self._width = width
        self._root_id = root
        self._root = source.load_node(root)
        self._touched: list[dict[bytes, Node]] = [{} for _ in range(self._root.level + 1)]
        self._made: list[NewNode] = []

    def run(self, changes: Sequence[Change]) -> Edited:
        self._route([key for key, _ in changes])
        for level in range(self._root.level + 1):
            changes = self._edit_level(level, changes)
            if not changes:
                return Edited(self._root_id, [])
        children = [Child(key, value) for key, value in changes if value is not None]
        if not children:
            return Edited(None, [])
        if len(children) > 1:
            root = grow(self._rule, self._root.level + 1, children, self._made.append)
            return Edited(root, self._made)
        return self._collapse(children[0].obj_id)

    def _route(self, keys: list[bytes]) -> None:
        """Step 1: loads the path of every key."""
        groups = [(self._root, 0, len(keys))]
        self._touched[self._root.level][last_key(self._root)] = self._root
        for level in range(self._root.level - 1, -1, -1):
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
            new = _edit_in_place(self._rule, old, changes[low:high])
            if new is None:
                at, low = self._cut_anew(level, names, at, changes, low, above)
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

    def _cut_anew(
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
        run = _Run(self._rule, level)
        while name is not None:
            high = low
            if at < len(names) and names[at] == name:
                high = self._span_end(changes, low, name, is_last=at == len(names) - 1)
                at += 1
            replaced[name] = None
            run.extend(self._touched[level][name], changes[low:high])
            low = high
            for node in run.take_complete():
                replaced[last_key(node)] = child_value(self._make(node))
            name = self._pull_after(level, name) if run.keys else None
        if run.keys:
            node = run.take_rest()
            replaced[last_key(node)] = child_value(self._make(node))
        above += sorted(replaced.items())
        return at, low

    def _span_end(self, changes: Sequence[Change], low: int, name: bytes, *, is_last: bool) -> int:
        """Returns the end of the changes that belong to the node of that name."""
        high = low
        count = len(changes)
        while high < count and (is_last or changes[high][0] <= name):
            high += 1
        return high

    def _pull_after(self, level: int, name: bytes) -> bytes | None:
        """Loads the node that follows, and its path; returns its name, None after the last."""
        node = self._root
        path: list[tuple[bytes, Node]] = [(last_key(node), node)]
        while node.level > level:
            slot = lower_bound(node, name + b"\0")
            if slot == count_of(node):
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

    def _collapse(self, root: ObjId) -> Edited:
        """Step 4: a root with one child is not a root."""
        made = {new.obj_id: new for new in self._made}
        while True:
            node = made[root].node if root in made else self._source.load_node(root)
            if node.level == 0 or count_of(node) > 1:
                return Edited(root, list(made.values()))
            made.pop(root, None)
            root = child_at(node, 0)


# What is known of an element's hash from its old place inside a node, where it was no boundary:
# nothing, not under the ordinary threshold, not under the eager one. Elements that are new in the
# run, or ended a node, must be looked at afresh.
_NOTHING, _NOT_ORDINARY, _NOT_EAGER, _AFRESH = range(4)
_KNOWN_BY_PLACE: Final = (
    [_NOTHING] * (NODE_ELEMENTS_MIN - 1)
    + [_NOT_ORDINARY] * (NODE_ELEMENTS_EAGER - NODE_ELEMENTS_MIN)
    + [_NOT_EAGER] * (NODE_ELEMENTS_MAX - NODE_ELEMENTS_EAGER + 1)
)


class _Run:
    """Neighbouring nodes of one level, joined, changed and being cut anew.

    An element that was no boundary at its old place can be one at its new place only where the rule
    is laxer there, so most need no hash.
    """

    def __init__(self, rule: BoundaryRule, level: int) -> None:
        self._rule = rule
        self._level = level
        self._raw_at_most = 0
        self._known: list[int] = []
        self.keys: list[bytes] = []
        self._widths: int | tuple[int, ...] = ()
        self._values = b""

    def extend(self, node: Node, changes: Sequence[Change]) -> None:
        """Appends a node with changes applied."""
        known = _KNOWN_BY_PLACE[: len(node.suffixes)]
        known[-1] = _AFRESH
        if len(changes) > NODE_ELEMENTS_MAX:
            self._extend_by_many(node, known, changes)
            return
        draft = Draft(node)
        keys = keys_of(node)
        for key, value in changes:
            at = bisect_left(keys, key)
            present = at < len(keys) and keys[at] == key
            if value is None:
                if present:
                    draft.delete(at)
                    del keys[at], known[at]
            elif present:
                draft.replace(at, value)
            else:
                draft.insert(at, b"", value)
                keys.insert(at, key)
                known.insert(at, _AFRESH)
                self._raw_at_most += len(key)
        changed = draft.node()
        self._append(keys, known, changed.widths, changed.values, draft.raw)

    def _extend_by_many(self, node: Node, known: list[int], changes: Sequence[Change]) -> None:
        """Does the same in one pass; insertions one by one cost the square of their number."""
        known_by_key = dict(zip(keys_of(node), known, strict=True))
        elements = dict(items_of(node))
        for key, value in changes:
            if value is None:
                elements.pop(key, None)
            else:
                elements[key] = value
        keys = sorted(elements)
        values = [elements[key] for key in keys]
        blob = b"".join(values)
        widths = node.widths if isinstance(node.widths, int) else tuple(map(len, values))
        known = [known_by_key.get(key, _AFRESH) for key in keys]
        self._append(keys, known, widths, blob, sum(map(len, keys)) + len(blob))

    def _append(
        self,
        keys: list[bytes],
        known: list[int],
        widths: int | tuple[int, ...],
        blob: bytes,
        raw_at_most: int,
    ) -> None:
        self.keys += keys
        self._known += known
        self._values += blob
        self._raw_at_most += raw_at_most
        if isinstance(widths, int):
            self._widths = widths
        elif not isinstance(self._widths, int):
            self._widths += widths

    def take_complete(self) -> list[Node]:
        """Returns the nodes that are complete and keeps what is left."""
        nodes = []
        start = low = 0
        for end in self._ends():
            high = low + self._span(start, end)
            nodes.append(self._node(start, end, low, high))
            start, low = end, high
        if start:
            self._values = self._values[low:]
            self.keys, self._known = self.keys[start:], self._known[start:]
            if not isinstance(self._widths, int):
                self._widths = self._widths[start:]
        return nodes

    def take_rest(self) -> Node:
        """Returns what is left as the last node of its level."""
        return self._node(0, len(self.keys), 0, len(self._values))

    def _ends(self) -> Iterator[int]:
        ends_node, level, keys = self._rule.ends_node, self._level, self.keys
        cap_at = self._cap_at(0)
        position = 0
        for at, known in enumerate(self._known):
            position += 1
            if at != cap_at and position < NODE_ELEMENTS_MAX:
                if known == _NOT_EAGER:
                    continue
                if known == _NOT_ORDINARY:
                    if position < NODE_ELEMENTS_EAGER:
                        continue
                elif known == _NOTHING and position < NODE_ELEMENTS_MIN:
                    continue
                if not ends_node(level, keys[at], position, soft=known != _AFRESH):
                    continue
            yield at + 1
            position = 0
            cap_at = self._cap_at(at + 1)

    def _cap_at(self, start: int) -> int:
        """Returns the element with which the byte cap is reached, -1 if it is not within reach."""
        if self._raw_at_most < NODE_RAW_BYTES_CAP:
            return -1
        raw = 0
        for at in range(start, min(start + NODE_ELEMENTS_MAX, len(self.keys))):
            width = self._widths if isinstance(self._widths, int) else self._widths[at]
            raw += len(self.keys[at]) + width
            if raw >= NODE_RAW_BYTES_CAP:
                return at
        return -1

    def _node(self, start: int, end: int, low: int, high: int) -> Node:
        widths = self._widths if isinstance(self._widths, int) else self._widths[start:end]
        return pack_node(self._level, self.keys[start:end], widths, self._values[low:high])

    def _span(self, start: int, end: int) -> int:
        widths = self._widths
        return widths * (end - start) if isinstance(widths, int) else sum(widths[start:end])


def _edit_in_place(rule: BoundaryRule, node: Node, changes: Sequence[Change]) -> Node | None:
    """Returns the changed node, itself if nothing changed, None if it must be cut anew.

    Every change is checked against the boundaries of the node as the changes before it left it; if
    each leaves the node one node, all together do.
    """
    prefix = node.prefix
    skip = len(prefix)
    if node.raw >= NODE_RAW_BYTES_CAP:
        return None
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


def _may_insert(
    rule: BoundaryRule,
    level: int,
    prefix: bytes,
    suffixes: Sequence[bytes],
    at: int,
    key: bytes,
) -> bool:
    """Tells whether the node stays one node when the key is inserted at that position.

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
    """Tells whether the node stays one node, with its prefix, when an element is deleted.

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
