"""Parts of a store that most databases can use as they are: conditions, `apply_each`, `hold`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.base.errors import Unavailable, Unknown
from lochan.kv.arguments import check_different_rows
from lochan.kv.store import (
    ABSENT,
    PRESENT,
    Adds,
    Entry,
    Expected,
    Outcome,
    SetIf,
    Store,
)

NO_OBJECTS: Final = Adds((), 0)
"""What `set_if` adds where it is an `apply` without objects."""


class PlainHold:
    """A hold without a lock: the row was read, the next `apply` may lose."""

    def __init__(self, store: Store, entry: Entry | None) -> None:
        self._store = store
        self.entry = entry
        """The row as it was read."""

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Passes on to the store."""
        return self._store.apply(adds, condition)

    def release(self) -> None:
        """Does nothing: there is no lock."""


def is_as_expected(expected: Expected, stamp: bytes | None) -> bool:
    """Returns whether a row with this stamp, None if there is no row, meets the expectation."""
    if expected is ABSENT:
        return stamp is None
    return stamp is not None and (expected is PRESENT or stamp == expected)


def apply_in_turn(store: Store, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
    """Applies changes of different rows one after the other."""
    check_different_rows(changes)
    outcomes: list[Outcome] = []
    for adds, condition in changes:
        try:
            outcomes.append(store.apply(adds, condition))
        except Unavailable as error:
            if not outcomes:
                raise
            raise Unknown(
                f"{len(outcomes)} of {len(changes)} writes were sent, then: {error.message}"
            ) from error
    return outcomes
