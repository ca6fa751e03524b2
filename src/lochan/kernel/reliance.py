"""What a plan has read of the head that it was made on, and whether a later head changed that.

A plan is a function of what it reads. If a later head of the same branch holds the same in all that
was read, planning there would give the same plan. What is read is recorded by the head itself
(`Head.find`, `Head.page`); what a planner reads in another way it declares:

* *keys* whose elements it has looked up, *ranges* of which it has read a page;
* *watches*, for reads that have no keys of their own: whether any other key holds a content, say.
  A watch gets each difference between the heads and returns whether it matters;
* *excuses* for changes of a key that was looked up and that leave the plan as it is: a merge by
  force puts its own table whatever state of that table the head has;
* *lookups*, for reads of very many keys that are not in memory: a lookup gets the keys of all
  differences together and returns whether one of them was read;
* *checks* of what is not in the index: history, claims, rights. A check is called with each later
  head, returns whether the plan holds there, and may raise what the plan is refused for.

To record too much costs a plan that is made again. To record too little gives a wrong commit, so
`tests/property/test_grafts.py` compares grafted commits with those planned on the same head.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from lochan.index.difference import Difference
from lochan.index.node import Change

if TYPE_CHECKING:
    from lochan.kernel.build import Head

Watch = Callable[[Difference], bool]
"""Returns whether a difference between two heads matters to a plan."""

Excuse = Callable[[Difference, Change | None], bool]
"""Returns whether a plan stays the same although the head has changed a key that it has looked up.

It gets the change that the plan makes to the key, None if it makes none.
"""

Lookup = Callable[[Sequence[bytes]], bool]
"""Returns whether one of the keys that differ between two heads matters to a plan."""

Check = Callable[["Head"], bool]
"""Returns whether a plan holds on a later head; raises what it is refused for there."""

FindOwn = Callable[[bytes], Change | None]
"""Returns what a plan does to a key."""

_KEYS_AT_ONCE: Final = 2_000
_START: Final = itemgetter(0)


class Reliance:
    """What one plan relies on."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self._ranges: list[tuple[bytes, bytes | None]] = []
        self._disjoint: list[tuple[bytes, bytes | None]] | None = []
        self._watches: list[Watch] = []
        self._excuses: list[Excuse] = []
        self._lookups: list[Lookup] = []
        self._checks: list[Check] = []

    def add_keys(self, keys: Sequence[bytes]) -> None:
        """Records keys whose elements were looked up."""
        # In pieces, because no other thread runs during one call.
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            self._keys.update(keys[start : start + _KEYS_AT_ONCE])

    def add_range(self, start: bytes, end: bytes | None) -> None:
        """Records a range of keys of which the first were read."""
        self._ranges.append((start, end))
        self._disjoint = None

    def add_watch(self, watch: Watch) -> None:
        """Records a read that has no keys of its own."""
        self._watches.append(watch)

    def add_excuse(self, excuse: Excuse) -> None:
        """Records which changes of keys do not matter, where the plan is one commit."""
        self._excuses.append(excuse)

    def add_lookup(self, lookup: Lookup) -> None:
        """Records a read of very many keys."""
        self._lookups.append(lookup)

    def add_check(self, check: Check) -> None:
        """Records something that was found out and is not in the index."""
        self._checks.append(check)

    def is_touched(
        self, differences: Sequence[Difference], find_own: FindOwn | None = None
    ) -> bool:
        """Returns whether one of the differences is in what was read, and matters.

        `find_own` returns what the plan does to a key; without it no change is excused.
        """
        if self._disjoint is None:
            self._disjoint = _joined(self._ranges)
        ranges = self._disjoint
        if any(
            (one.key in self._keys and not self._is_excused(one, find_own))
            or _is_in(ranges, one.key)
            or any(watch(one) for watch in self._watches)
            for one in differences
        ):
            return True
        keys = [one.key for one in differences]
        return bool(keys) and any(lookup(keys) for lookup in self._lookups)

    def _is_excused(self, one: Difference, find_own: FindOwn | None) -> bool:
        if find_own is None or not self._excuses:
            return False
        own = find_own(one.key)
        return any(excuse(one, own) for excuse in self._excuses)

    def holds_on(self, head: Head) -> bool:
        """Returns whether every check holds on a later head."""
        return all(check(head) for check in self._checks)


def _joined(ranges: Sequence[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """Returns ranges in order, those that overlap as one; there may be one for each namespace."""
    found: list[tuple[bytes, bytes | None]] = []
    for start, end in sorted(ranges, key=_START):
        if found:
            last_start, last_end = found[-1]
            if last_end is None:
                break
            if start <= last_end:
                found[-1] = (last_start, None if end is None else max(end, last_end))
                continue
        found.append((start, end))
    return found


def _is_in(ranges: Sequence[tuple[bytes, bytes | None]], key: bytes) -> bool:
    at = bisect_right(ranges, key, key=_START) - 1
    if at < 0:
        return False
    end = ranges[at][1]
    return end is None or key < end
