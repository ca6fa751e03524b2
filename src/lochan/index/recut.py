"""Cuts neighbouring nodes again: they are joined, changed and divided by the rule.

Needed where an edit moves a boundary, and for edits of so many keys that most nodes change. What
the old positions prove saves most of the hashes, and each element is hashed once at most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, compress, repeat
from typing import Final

from lochan.base.limits.storage import (
    NODE_ELEMENTS_EAGER,
    NODE_ELEMENTS_MAX,
    NODE_ELEMENTS_MIN,
    NODE_RAW_BYTES_CAP,
)
from lochan.index.boundary import BoundaryRule, Rank
from lochan.index.node import Node, pack_node, values_of

Same = Callable[[bytes, bytes], bool]
"""Returns whether a new value of a key means the same as its present one."""

# What is known of an element's hash from its old position inside a node, where it was no boundary:
# that it is no hard break, not under the ordinary threshold, not under the eager one. Elements that
# are new in the run, or that ended a node, must be hashed; then their rank is known.
_NOT_HARD, _NOT_ORDINARY, _NOT_EAGER, _UNHASHED = range(4)
_RANKED: Final = 4
_EAGER, _ORDINARY, _HARD = _RANKED + Rank.EAGER, _RANKED + Rank.ORDINARY, _RANKED + Rank.HARD
_KNOWN_BY_POSITION: Final = bytearray(
    [_NOT_HARD] * (NODE_ELEMENTS_MIN - 1)
    + [_NOT_ORDINARY] * (NODE_ELEMENTS_EAGER - NODE_ELEMENTS_MIN)
    + [_NOT_EAGER] * (NODE_ELEMENTS_MAX - NODE_ELEMENTS_EAGER + 1)
)


def _selection(unknown: Sequence[int], least: int) -> bytes:
    """Builds the translation table to 1 for what may be a boundary, or is one, else 0."""
    return bytes(1 if known in unknown or known >= least else 0 for known in range(256))


# Which elements may end a node in each of the ranges of positions.
_IN_FIRST: Final = _selection((_UNHASHED,), _HARD)
_IN_MIDDLE: Final = _selection((_UNHASHED, _NOT_HARD), _ORDINARY)
_IN_LAST: Final = _selection((_UNHASHED, _NOT_HARD, _NOT_ORDINARY), _EAGER)


class Run:
    """Neighbouring nodes of one level, joined, changed and being cut again.

    An element that was no boundary at its old position can be one at its new position only where
    the rule is laxer there, so most elements need no hash.
    """

    def __init__(self, rule: BoundaryRule, level: int) -> None:
        self._rank = rule.ranker(level)
        self._level = level
        self._known = bytearray()
        # The number of elements that are known to be no boundary.
        self._passed = 0
        self.keys: list[bytes] = []
        self._widths: int | tuple[int, ...] = ()
        self._values = b""

    def extend(
        self,
        node: Node,
        keys: Sequence[bytes] = (),
        values: Sequence[bytes | None] = (),
        same: Same | None = None,
        start: int = 0,
        stop: int | None = None,
    ) -> Sequence[int] | None:
        """Appends the elements [start, stop) of a node with changes: keys, and their new values.

        None removes a key. A put that is the `same` as the present value has no effect, and a
        removal of what is not there has none. Returns the positions of the changes with an effect,
        None if all have one.
        """
        count = len(node.suffixes)
        stop = count if stop is None else stop
        known = _KNOWN_BY_POSITION[start:stop]
        if start < stop == count:
            known[-1] = _UNHASHED
        prefix = node.prefix
        old = [prefix + suffix for suffix in node.suffixes[start:stop]]
        if 2 * len(keys) > len(old):
            return self._extend_by_many(
                old, known, values_of(node)[start:stop], node.widths, keys, values, same
            )
        widths = node.widths
        if isinstance(widths, int):
            ends: Sequence[int] = range(widths * start, widths * stop + 1, widths)
        else:
            ends = list(accumulate(widths, initial=0))[start : stop + 1]
            widths = widths[start:stop]
        if keys:
            return self._extend_by_few(old, known, node.values, ends, widths, keys, values, same)
        self._append(old, known, widths, node.values[ends[0] : ends[-1]])
        return None

    def _extend_by_few(
        self,
        old: list[bytes],
        known: bytearray,
        blob: bytes,
        ends: Sequence[int],
        widths: int | tuple[int, ...],
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        same: Same | None,
    ) -> Sequence[int] | None:
        """Copies what is between the changes in one piece each."""
        parts: list[bytes] = []
        effects: list[int] = []
        count, copied, shift = len(old), 0, 0
        new = old.copy()
        new_widths = None if isinstance(widths, int) else list(widths)
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            at = bisect_left(old, key, copied)
            present = at < count and old[at] == key
            if present:
                if value is not None:
                    before = blob[ends[at] : ends[at + 1]]
                    if before == value or (same is not None and same(value, before)):
                        continue
            elif value is None:
                continue
            effects.append(number)
            parts.append(blob[ends[copied] : ends[at]])
            copied, place = at + present, at + shift
            if value is None:
                del new[place], known[place]
                if new_widths is not None:
                    del new_widths[place]
                shift -= 1
                continue
            parts.append(value)
            if present:
                if new_widths is not None:
                    new_widths[place] = len(value)
                continue
            new.insert(place, key)
            known.insert(place, _UNHASHED)
            if new_widths is not None:
                new_widths.insert(place, len(value))
            shift += 1
        parts.append(blob[ends[copied] : ends[-1]])
        self._append(
            new, known, widths if new_widths is None else tuple(new_widths), b"".join(parts)
        )
        return None if len(effects) == len(keys) else effects

    def _extend_by_many(
        self,
        old: list[bytes],
        known: bytearray,
        old_values: Sequence[bytes],
        widths: int | tuple[int, ...],
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        same: Same | None,
    ) -> Sequence[int] | None:
        """Does the same by sorting, which costs less for each change."""
        elements: dict[bytes, bytes | None] = dict(zip(old, old_values, strict=True))
        known_by_key = dict(zip(old, known, strict=True))
        effects: Sequence[int] | None = None
        if None in values or not elements.keys().isdisjoint(keys):
            effects = [
                number
                for number, key in enumerate(keys)
                if _has_effect(elements.get(key), values[number], same)
            ]
            keys = [keys[number] for number in effects]
            values = [values[number] for number in effects]
        elements.update(zip(keys, values, strict=True))
        new = sorted(elements)
        ordered = [value for value in map(elements.__getitem__, new) if value is not None]
        if len(ordered) < len(new):
            new = [key for key in new if elements[key] is not None]
        self._append(
            new,
            bytearray(map(known_by_key.get, new, repeat(_UNHASHED))),
            widths if isinstance(widths, int) else tuple(map(len, ordered)),
            b"".join(ordered),
        )
        return effects

    def _append(
        self, keys: list[bytes], known: bytearray, widths: int | tuple[int, ...], blob: bytes
    ) -> None:
        if self.keys:
            self.keys += keys
            self._known += known
            self._values += blob
        else:
            self.keys, self._known, self._values = keys, known, blob
        if isinstance(widths, int):
            self._widths = widths
        elif not isinstance(self._widths, int):
            self._widths += widths

    def take_complete(self) -> list[Node]:
        """Returns the nodes that are complete and keeps what is left."""
        nodes = []
        start = low = 0
        passed = self._passed
        count = len(self.keys)
        while start < count and (end := self._end_after(start, passed)) is not None:
            if start == 0 and end == count:
                # Most often: the node has grown and is still one node.
                return [self.take_rest()]
            high = low + self._span(start, end)
            nodes.append(self._node(start, end, low, high))
            start, low, passed = end, high, 0
        if start:
            self._forget(start, low)
        self._passed = len(self.keys)
        return nodes

    def take_rest(self) -> Node:
        """Returns what is left as the last node of its level."""
        node = pack_node(self._level, self.keys, self._widths, self._values)
        self.drop()
        return node

    def drop(self) -> None:
        """Forgets everything that was appended."""
        self.keys, self._known, self._values = [], bytearray(), b""
        self._passed = 0
        if not isinstance(self._widths, int):
            self._widths = ()

    def _forget(self, count: int, span: int) -> None:
        """Drops the first elements, and their values of so many bytes."""
        self._values = self._values[span:]
        self.keys, self._known = self.keys[count:], self._known[count:]
        if not isinstance(self._widths, int):
            self._widths = self._widths[count:]

    def _end_after(self, start: int, passed: int) -> int | None:
        """Returns the end of the node that starts there, None if it is not complete.

        Its first `passed` elements are known to be no boundaries of it.
        """
        count = len(self.keys)
        end = min(start + NODE_ELEMENTS_MAX, self._cap_at(start) + 1)
        # The last element ends the node whatever its hash, so it is not hashed.
        stop = min(end - 1, count)
        middle = min(start + NODE_ELEMENTS_MIN - 1, stop)
        last = min(start + NODE_ELEMENTS_EAGER - 1, stop)
        first = start + passed
        known, keys, rank = self._known, self.keys, self._rank
        may_end = (
            known[start:middle].translate(_IN_FIRST)
            + known[middle:last].translate(_IN_MIDDLE)
            + known[last:stop].translate(_IN_LAST)
        )
        for at in compress(range(first, stop), may_end[passed:]):
            if known[at] < _RANKED:
                known[at] = _RANKED + rank(keys[at])
            least = _HARD if at < middle else _ORDINARY if at < last else _EAGER
            if known[at] >= least:
                return at + 1
        return end if end <= count else None

    def _cap_at(self, start: int) -> int:
        """Returns the element with which the byte cap is reached, or one that is out of reach."""
        count = len(self.keys)
        stop = min(start + NODE_ELEMENTS_MAX, count)
        # Mostly so few bytes that nothing has to be added up one by one.
        if self._span(start, stop) + len(b"".join(self.keys[start:stop])) < NODE_RAW_BYTES_CAP:
            return count
        raw = 0
        for at in range(start, stop):
            width = self._widths if isinstance(self._widths, int) else self._widths[at]
            raw += len(self.keys[at]) + width
            if raw >= NODE_RAW_BYTES_CAP:
                return at
        return count

    def _node(self, start: int, end: int, low: int, high: int) -> Node:
        widths = self._widths if isinstance(self._widths, int) else self._widths[start:end]
        return pack_node(self._level, self.keys[start:end], widths, self._values[low:high])

    def _span(self, start: int, end: int) -> int:
        widths = self._widths
        return widths * (end - start) if isinstance(widths, int) else sum(widths[start:end])


def _has_effect(before: bytes | None, value: bytes | None, same: Same | None) -> bool:
    """Returns whether a change leaves its key in another state than the present one."""
    if before is None or value is None:
        return before is not value
    return before != value and (same is None or not same(value, before))
