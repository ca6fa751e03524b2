"""Sets of names and keys: finite unions of half-open ranges of byte strings.

A name alone is the range up to its direct successor, a prefix is the range up to the end of all
that start with it. The bounds are sorted, and no two ranges touch: so there is one form for each
set, equal sets compare equal, and a membership is one binary search.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.keys import prefix_end


class Spans(msgspec.Struct, frozen=True, gc=False):
    """A set of byte strings; a bound at an even place begins a range, the next one ends it.

    The last range has no end if the number of bounds is odd.
    """

    bounds: tuple[bytes, ...] = ()

    def covers(self, raw: bytes) -> bool:
        """Returns whether a byte string belongs to the set."""
        return bisect_right(self.bounds, raw) % 2 == 1

    def next_range(self, raw: bytes) -> tuple[bytes, bytes | None] | None:
        """Returns the first range that ends after a byte string; None if there is none."""
        begin = bisect_right(self.bounds, raw)
        begin -= begin % 2
        if begin >= len(self.bounds):
            return None
        end = self.bounds[begin + 1] if begin + 1 < len(self.bounds) else None
        return self.bounds[begin], end

    def __or__(self, other: Spans) -> Spans:
        """Returns what is in one of both."""
        few, many = sorted((self, other), key=lambda spans: len(spans.bounds))
        return _replaced(many, few, covered=True)

    def __and__(self, other: Spans) -> Spans:
        """Returns what is in both."""
        few, many = sorted((self, other), key=lambda spans: len(spans.bounds))
        return _replaced(many, _complement(few), covered=False)

    def __sub__(self, other: Spans) -> Spans:
        """Returns what is in this one and not in the other."""
        return _replaced(self, other, covered=False)


NOTHING: Final = Spans()
EVERYTHING: Final = Spans((b"",))


def one_name(raw: bytes) -> tuple[bytes, bytes]:
    """Returns the range of one byte string."""
    return raw, raw + b"\0"


def prefixed(prefix: bytes) -> tuple[bytes, bytes]:
    """Returns the range of all that start with a prefix."""
    end = prefix_end(prefix)
    check(end is not None, "a prefix of names ends at a separator")
    return prefix, end or b""


def union(ranges: Iterable[tuple[bytes, bytes]]) -> Spans:
    """Returns the set of all that is in one of the ranges."""
    bounds: list[bytes] = []
    for begin, end in sorted(ranges):
        if bounds and begin <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (begin, end)
    return Spans(tuple(bounds))


def _complement(spans: Spans) -> Spans:
    bounds = spans.bounds
    return Spans(bounds[1:] if bounds[:1] == (b"",) else (b"", *bounds))


def _replaced(spans: Spans, others: Spans, *, covered: bool) -> Spans:
    """Returns a set in which all of the other set is covered, or none of it.

    An odd number of bounds before a place means that the place is covered.
    """
    if not others.bounds:
        return spans
    bounds = list(spans.bounds)
    for at in range(0, len(others.bounds), 2):
        begin, *ends = others.bounds[at : at + 2]
        first = bisect_left(bounds, begin)
        last = len(bounds)
        kept = [] if first % 2 == covered else [begin]
        if ends:
            last = bisect_right(bounds, ends[0])
            if last % 2 != covered:
                kept += ends
        bounds[first:last] = kept
    return Spans(tuple(bounds))
