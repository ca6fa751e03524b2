"""Changing a tree by a stream of very many keys, in memory that does not grow with their number.

The stream is sorted as the leaves are, so both are walked once, side by side:

1. For each batch of the stream, the leaves to which its keys belong are found and loaded together.
2. Each leaf is joined with its changes and cut again (`recut.py`). Complete nodes go to the sink at
   once; what is left at the end of a leaf is joined with the leaf that follows.
3. The names of the leaves that are gone and of the new ones are the changes of level 1. There are
   few of them, and from there on it is an edit like any other (`edit.py`).

A change that leaves a key as it is counts for nothing: its leaf may stay as it is, too. The result
equals a fresh build of the same content.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import lt

import msgspec

from lochan.base.errors import Invalid, TooLarge
from lochan.base.ids import ObjId
from lochan.base.limits.storage import NODE_RAW_BYTES_CAP
from lochan.index.boundary import BoundaryRule
from lochan.index.build import NodeSink, build_tree
from lochan.index.edit import edit_level_one
from lochan.index.node import (
    Change,
    Node,
    child_at,
    child_value,
    key_at,
    last_key,
    lower_bound,
    seal,
)
from lochan.index.recut import Run, Same
from lochan.index.source import NodeSource


class ChangeBatch(msgspec.Struct, frozen=True, gc=False):
    """Some changes in ascending order: keys, and their new values; None removes a key."""

    keys: Sequence[bytes]
    values: Sequence[bytes | None]


Seen = Callable[[Sequence[bytes], Sequence[bytes | None]], None]
"""Takes keys and values of the changes that had an effect, in ascending order."""


class TreeMerge(msgspec.Struct, frozen=True):
    """How a stream is put into a tree: what counts as no change, and who gets the results."""

    source: NodeSource
    rule: BoundaryRule
    same: Same
    sink: NodeSink
    seen: Seen

    def run(self, root: ObjId | None, batches: Iterable[ChangeBatch]) -> ObjId | None:
        """Puts batches of changes into a tree of values of any width; returns the new root."""
        checked = _checked(batches)
        if root is None:
            return build_tree(self.rule, None, self._puts(checked), self.sink)
        leaves = _Leaves(self, self.source.load_node(root))
        for batch in checked:
            leaves.merge(batch.keys, batch.values)
        above = leaves.finish()
        if not above:
            return root
        edited = edit_level_one(self.source, self.rule, root, above)
        for new in edited.nodes:
            self.sink(new)
        return edited.root

    def _puts(self, batches: Iterable[ChangeBatch]) -> Iterator[tuple[bytes, bytes]]:
        """Yields what is put into an empty tree, where removals have no effect."""
        for batch in batches:
            pairs = zip(batch.keys, batch.values, strict=True)
            puts = [(key, value) for key, value in pairs if value is not None]
            self.seen([key for key, _ in puts], [value for _, value in puts])
            yield from puts


def _checked(batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
    """Refuses a stream that is not strictly ascending, or values that no leaf can have."""
    previous = b""
    for batch in batches:
        keys = batch.keys
        if not keys:
            continue
        if not previous < keys[0] or not all(map(lt, keys, islice(keys, 1, None))):
            raise Invalid("an index is changed by keys in strictly ascending order")
        sizes = [len(value) for value in batch.values if value is not None]
        if sizes and not 0 < min(sizes) <= max(sizes) < NODE_RAW_BYTES_CAP:
            raise TooLarge(f"a value has 1 to {NODE_RAW_BYTES_CAP - 1} bytes")
        previous = keys[-1]
        yield batch


class _Open(msgspec.Struct):
    """A leaf that is being joined: its elements before `at` are in the run already."""

    name: bytes
    node: Node
    is_clean: bool
    """Whether nothing was in the run before it, and no change had an effect since."""

    at: int = 0


class _Leaves:
    """The leaves of one tree, and the run that goes through them from left to right."""

    def __init__(self, merge: TreeMerge, root: Node) -> None:
        self._merge = merge
        self._root = root
        self._end = last_key(root)
        self._run = Run(merge.rule, 0)
        self._open: _Open | None = None
        self._passed = b""
        self._above: dict[bytes, bytes | None] = {}

    def merge(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Joins one batch with its leaves; the last one stays open for the next batch."""
        first, count = 0, len(keys)
        dropped = False
        effects: list[int] = []
        if self._open is not None:
            # What comes after the last leaf belongs to it.
            is_last = self._open.name == self._end
            first = count if is_last else bisect_right(keys, self._open.name)
            dropped |= self._join(self._open, keys, values, (0, first), effects)
        for name, node, low, high in self._route(keys, first):
            if self._run.keys:
                self._reach(name)
            self._open = _Open(name, node, is_clean=not self._run.keys)
            dropped |= self._join(self._open, keys, values, (low, high), effects)
        if dropped:
            keys, values = [keys[at] for at in effects], [values[at] for at in effects]
        self._merge.seen(keys, values)

    def finish(self) -> list[Change]:
        """Completes the last nodes; returns the changes of the level above."""
        if self._open is not None:
            self._close(self._open)
        self._reach(None)
        if self._run.keys:
            self._emit([self._run.take_rest()])
        return sorted(self._above.items())

    def _join(
        self,
        leaf: _Open,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        span: tuple[int, int],
        effects: list[int],
    ) -> bool:
        """Puts the changes of a leaf into the run; returns whether some of them had no effect.

        If the batch ends with them, there may be more: then with its elements up to the last one.
        """
        (low, high), node = span, leaf.node
        if low == high:
            self._close(leaf)
            return False
        is_done = high < len(keys)
        stop = None if is_done else lower_bound(node, keys[high - 1] + b"\0")
        found = self._run.extend(
            node, keys[low:high], values[low:high], self._merge.same, leaf.at, stop
        )
        leaf.at = len(node.suffixes) if stop is None else stop
        if found is None:
            effects += range(low, high)
            leaf.is_clean = False
        elif found:
            effects += [low + at for at in found]
            leaf.is_clean = False
        if is_done:
            self._close(leaf)
        elif not leaf.is_clean:
            self._emit(self._run.take_complete())
        return found is not None

    def _close(self, leaf: _Open) -> None:
        """Puts the rest of a leaf into the run; a leaf without changes stays as it is."""
        self._open, self._passed = None, leaf.name
        if leaf.is_clean:
            self._run.drop()
            return
        if leaf.at < len(leaf.node.suffixes):
            self._run.extend(leaf.node, start=leaf.at)
        # A new node of that name may have been made already, if the last batch ended with it.
        self._above.setdefault(leaf.name, None)
        self._emit(self._run.take_complete())

    def _reach(self, name: bytes | None) -> None:
        """Takes leaves without changes into the run until nothing is left over, or up to a leaf."""
        while self._run.keys:
            following = self._following(self._passed)
            if following is None or following[0] == name:
                return
            self._passed, obj_id = following
            self._above[self._passed] = None
            self._run.extend(self._merge.source.load_node(obj_id))
            self._emit(self._run.take_complete())

    def _emit(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            new = seal(node)
            self._merge.sink(new)
            self._above[last_key(node)] = child_value(new)

    def _following(self, name: bytes) -> tuple[bytes, ObjId] | None:
        """Returns name and id of the leaf after that of a name, None after the last."""
        node, after = self._root, name + b"\0"
        while node.level:
            slot = lower_bound(node, after)
            if slot == len(node.suffixes):
                return None
            if node.level == 1:
                return key_at(node, slot), child_at(node, slot)
            node = self._merge.source.load_node(child_at(node, slot))
        return None

    def _route(self, keys: Sequence[bytes], first: int) -> list[tuple[bytes, Node, int, int]]:
        """Returns the leaves of keys[first:], each with its name and the range of its keys."""
        if first == len(keys):
            return []
        groups = [(self._end, self._root, first, len(keys))]
        while groups[0][1].level:
            ids: list[ObjId] = []
            spans: list[tuple[bytes, int, int]] = []
            for _, node, low, high in groups:
                last = len(node.suffixes) - 1
                while low < high:
                    slot = min(lower_bound(node, keys[low]), last)
                    name = key_at(node, slot)
                    # A key after the last one of the tree belongs to the last child.
                    after = high if slot == last else bisect_right(keys, name, low, high)
                    ids.append(child_at(node, slot))
                    spans.append((name, low, after))
                    low = after
            nodes = self._merge.source.load_nodes(ids)
            groups = [
                (name, node, low, high)
                for (name, low, high), node in zip(spans, nodes, strict=True)
            ]
        return groups
