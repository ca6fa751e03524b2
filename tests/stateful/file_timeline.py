"""What one path of one branch may show at a moment, given requests that overlapped each other.

An *effect* is a request that may have changed what is shown: it has a beginning, an end, and the
values that it may have left. Files that are staged are not linearizable by contract, so what is
promised is: a reader sees a value of some effect that did not begin after the reader ended, and
that was not over before another certain effect began which was over before the reader began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import msgspec

NEVER: Final = 1 << 62
"""The end of an effect whose outcome is unknown: it may still happen."""

Value = Hashable | None
"""The value of a write, as the model of history has it; None for no file."""


class Effect(msgspec.Struct, frozen=True):
    """One effect; it is certain if the request was acknowledged and had to do this."""

    start: int
    end: int
    values: frozenset[Value]
    certain: bool = True


class Timeline:
    """All effects on one path of one branch."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self._by_value: dict[Value, list[Effect]] = {}
        self._ends: list[int] = []
        self._floors: list[int] = []

    def add(self, effect: Effect) -> None:
        self.effects.append(effect)
        for value in effect.values:
            self._by_value.setdefault(value, []).append(effect)

    def settle(self) -> None:
        """Prepares questions; no effect is added afterwards."""
        certain = sorted((one for one in self.effects if one.certain), key=lambda one: one.end)
        floor = -1
        for one in certain:
            floor = max(floor, one.start)
            self._ends.append(one.end)
            self._floors.append(floor)

    def may_show(self, value: Value, start: int, end: int) -> bool:
        """Returns whether a reader that began and ended then may have seen a value."""
        floor = self._floor(start)
        found = self._by_value.get(value, ())
        return any(one.start < end and one.end >= floor for one in found)

    def values(self, start: int, end: int) -> set[Value]:
        """Returns every value that such a reader may have seen."""
        floor = self._floor(start)
        return {
            value
            for one in self.effects
            if one.start < end and one.end >= floor
            for value in one.values
        }

    def giving(self, values: Iterable[Value], start: int, end: int) -> Iterator[Effect]:
        """Yields the effects that overlap a time and may have left one of the values."""
        for value in values:
            for one in self._by_value.get(value, ()):
                if one.start < end and one.end > start:
                    yield one

    def _floor(self, start: int) -> int:
        """Returns when the last effect began that was over before this moment."""
        at = bisect_left(self._ends, start)
        return self._floors[at - 1] if at else -1


class StagedSpan(msgspec.Struct, frozen=True):
    """A request that staged something at a path, or that took staged records away."""

    start: int
    end: int
    value: Value = None
    certain: bool = True


class StagedPath:
    """What was staged at one path of one branch, and when that was taken away."""

    def __init__(self) -> None:
        self.staged: list[StagedSpan] = []
        self.restored: list[StagedSpan] = []
        """Resets of the path: they stage what the head has."""

        self.taken: list[StagedSpan] = []
        """Commits, and resets of the whole branch."""

    def may_be_staged(self, start: int, end: int) -> bool:
        """Returns whether a record may have been staged at some moment of that time."""
        before = [one.start for one in self.taken if one.certain and one.end < start]
        floor = max(before, default=-1)
        return any(one.start < end and one.end >= floor for one in (*self.staged, *self.restored))

    def surely_staged(self, start: int, end: int) -> StagedSpan | None:
        """Returns a write whose record was staged during the whole of that time, if there is one.

        A write that may have been replaced by another one counts: that is staged then.
        """
        before = [one for one in self.staged if one.certain and one.end < start]
        last = max(before, key=lambda one: one.start, default=None)
        if last is None:
            return None
        for one in (*self.taken, *self.restored):
            if one.end > last.start and one.start < end:
                return None
        return last

    def values_since(self, span: StagedSpan, end: int) -> set[Value]:
        """Returns what may have been staged instead of a write until a moment."""
        return {one.value for one in self.staged if one.end >= span.start and one.start < end}
