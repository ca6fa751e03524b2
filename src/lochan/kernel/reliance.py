"""What a plan has read of the head that it was made on, and whether a later head changed that.

A plan is a function of what it reads. If a later head of the same branch holds the same in all that
was read, planning there would give the same plan. What is read is recorded by the head itself
(`Head.find`, `Head.page`); what a planner reads in another way it declares:

* *keys* whose elements it has looked up, *ranges* of which it has read a page;
* *watches*, for reads that have no keys of their own: whether any other key holds a content, say.
  A watch gets each difference between the heads and returns whether it matters;
* *checks* of what is not in the index: history, claims, rights. A check is called with each later
  head, returns whether the plan holds there, and may raise what the plan is refused for.

To record too much costs a plan that is made again. To record too little gives a wrong commit, so
`tests/property/test_grafts.py` compares grafted commits with those planned on the same head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lochan.index.difference import Difference

if TYPE_CHECKING:
    from lochan.kernel.build import Head

Watch = Callable[[Difference], bool]
"""Returns whether a difference between two heads matters to a plan."""

Check = Callable[["Head"], bool]
"""Returns whether a plan holds on a later head; raises what it is refused for there."""


_KEYS_AT_ONCE: Final = 2_000


class Reliance:
    """What one plan relies on."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self._ranges: list[tuple[bytes, bytes | None]] = []
        self._watches: list[Watch] = []
        self._checks: list[Check] = []

    def add_keys(self, keys: Sequence[bytes]) -> None:
        """Records keys whose elements were looked up."""
        # In pieces, because no other thread runs during one call.
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            self._keys.update(keys[start : start + _KEYS_AT_ONCE])

    def add_range(self, start: bytes, end: bytes | None) -> None:
        """Records a range of keys of which the first were read."""
        self._ranges.append((start, end))

    def add_watch(self, watch: Watch) -> None:
        """Records a read that has no keys of its own."""
        self._watches.append(watch)

    def add_check(self, check: Check) -> None:
        """Records something that was found out and is not in the index."""
        self._checks.append(check)

    def is_touched(self, differences: Sequence[Difference]) -> bool:
        """Returns whether one of the differences is in what was read."""
        return any(self._is_read(one) for one in differences)

    def _is_read(self, difference: Difference) -> bool:
        key = difference.key
        return (
            key in self._keys
            or any(start <= key and (end is None or key < end) for start, end in self._ranges)
            or any(watch(difference) for watch in self._watches)
        )

    def holds_on(self, head: Head) -> bool:
        """Returns whether every check holds on a later head."""
        return all(check(head) for check in self._checks)
