"""Cuts neighbouring nodes again: they are joined, changed and divided by the rule.

Needed where an edit moves a boundary. What the old positions prove saves most of the hashes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Final

from lochan.base.limits.storage import (
    NODE_ELEMENTS_EAGER,
    NODE_ELEMENTS_MAX,
    NODE_ELEMENTS_MIN,
    NODE_RAW_BYTES_CAP,
)
from lochan.index.boundary import BoundaryRule
from lochan.index.node import Change, Draft, Node, items_of, keys_of, pack_node

# What is known of an element's hash from its old position inside a node, where it was no boundary:
# nothing, not under the ordinary threshold, not under the eager one. Elements that are new in the
# run, or that ended a node, must be hashed.
_NOTHING, _NOT_ORDINARY, _NOT_EAGER, _UNHASHED = range(4)
_KNOWN_BY_POSITION: Final = bytearray(
    [_NOTHING] * (NODE_ELEMENTS_MIN - 1)
    + [_NOT_ORDINARY] * (NODE_ELEMENTS_EAGER - NODE_ELEMENTS_MIN)
    + [_NOT_EAGER] * (NODE_ELEMENTS_MAX - NODE_ELEMENTS_EAGER + 1)
)


def _selection(*known: int) -> bytes:
    """Builds the translation table that maps what is known to 1 where a hash is needed, else 0."""
    return bytes(1 if value in known else 0 for value in range(256))


# Which elements may be hard breaks, and which may be boundaries in the two ranges of a node.
_MAY_BE_HARD: Final = _selection(_UNHASHED)
_MAY_BE_ORDINARY: Final = _selection(_UNHASHED, _NOTHING)
_MAY_BE_EAGER: Final = _selection(_UNHASHED, _NOTHING, _NOT_ORDINARY)


class Run:
    """Neighbouring nodes of one level, joined, changed and being cut again.

    An element that was no boundary at its old position can be one at its new position only where
    the rule is laxer there, so most elements need no hash.
    """

    def __init__(self, rule: BoundaryRule, level: int) -> None:
        self._rule = rule
        self._level = level
        self._raw_at_most = 0
        self._known = bytearray()
        # The number of elements that are known to be no boundary.
        self._passed = 0
        self.keys: list[bytes] = []
        self._widths: int | tuple[int, ...] = ()
        self._values = b""

    def extend(self, node: Node, changes: Sequence[Change]) -> None:
        """Appends a node with changes applied."""
        known = _KNOWN_BY_POSITION[: len(node.suffixes)]
        known[-1] = _UNHASHED
        if not changes:
            self._append(keys_of(node), known, node.widths, node.values, node.raw)
            return
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
                known.insert(at, _UNHASHED)
                self._raw_at_most += len(key)
        changed = draft.node()
        self._append(keys, known, changed.widths, changed.values, draft.raw)

    def _extend_by_many(self, node: Node, known: bytearray, changes: Sequence[Change]) -> None:
        """Does the same in one pass: single insertions would cost the square of their number."""
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
        known = bytearray(known_by_key.get(key, _UNHASHED) for key in keys)
        self._append(keys, known, widths, blob, sum(map(len, keys)) + len(blob))

    def _append(
        self,
        keys: list[bytes],
        known: bytearray,
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
        passed = self._passed
        while (end := self._end_after(start, passed)) is not None:
            high = low + self._span(start, end)
            nodes.append(self._node(start, end, low, high))
            start, low, passed = end, high, 0
        if start:
            self._values = self._values[low:]
            self.keys, self._known = self.keys[start:], self._known[start:]
            if not isinstance(self._widths, int):
                self._widths = self._widths[start:]
        self._passed = len(self.keys)
        return nodes

    def take_rest(self) -> Node:
        """Returns what is left as the last node of its level."""
        return self._node(0, len(self.keys), 0, len(self._values))

    def _end_after(self, start: int, passed: int) -> int | None:
        """Returns the end of the node that starts there, None if it is not complete.

        Its first `passed` elements are known to be no boundaries of it.
        """
        count = len(self.keys)
        end = min(start + NODE_ELEMENTS_MAX, self._cap_at(start) + 1)
        # The last element ends the node whatever its hash, so it is not hashed.
        stop = min(end - 1, count)
        first = start + passed
        known = self._known
        hard = self._rule.find_hard(
            self._level, self.keys, _positions(known, _MAY_BE_HARD, first, stop)
        )
        if hard is not None:
            end, stop = hard + 1, hard
        low = max(first, start + NODE_ELEMENTS_MIN - 1)
        eager = start + NODE_ELEMENTS_EAGER - 1
        for selection, begin, until, is_eager in (
            (_MAY_BE_ORDINARY, low, min(stop, eager), False),
            (_MAY_BE_EAGER, max(low, eager), stop, True),
        ):
            if begin < until:
                positions = _positions(known, selection, begin, until)
                at = self._rule.find_soft(self._level, self.keys, positions, eager=is_eager)
                if at is not None:
                    return at + 1
        return end if end <= count else None

    def _cap_at(self, start: int) -> int:
        """Returns the element with which the byte cap is reached, or one that is out of reach."""
        if self._raw_at_most < NODE_RAW_BYTES_CAP:
            return len(self.keys)
        raw = 0
        for at in range(start, min(start + NODE_ELEMENTS_MAX, len(self.keys))):
            width = self._widths if isinstance(self._widths, int) else self._widths[at]
            raw += len(self.keys[at]) + width
            if raw >= NODE_RAW_BYTES_CAP:
                return at
        return len(self.keys)

    def _node(self, start: int, end: int, low: int, high: int) -> Node:
        widths = self._widths if isinstance(self._widths, int) else self._widths[start:end]
        return pack_node(self._level, self.keys[start:end], widths, self._values[low:high])

    def _span(self, start: int, end: int) -> int:
        widths = self._widths
        return widths * (end - start) if isinstance(widths, int) else sum(widths[start:end])


def _positions(known: bytearray, selection: bytes, start: int, end: int) -> Iterator[int]:
    """Yields the positions in [start, end) whose elements have to be hashed."""
    return compress(range(start, end), known[start:end].translate(selection))
