"""Parts of a store that most databases can use as they are: conditions, `apply_each`, `hold`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.base.errors import Exhausted, Unavailable, Unknown
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


class ProcessHold(PlainHold):
    """A hold without a lock that ends with a fork: a child is refused, the parent has it still."""

    def __init__(self, store: Store, entry: Entry | None) -> None:
        super().__init__(store, entry)
        self._forked = False

    def end_in_child(self) -> None:
        """Is called in a forked process."""
        self._forked = True

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Passes on to the store."""
        if self._forked:
            raise Unavailable("the hold belongs to the process from which this one was forked")
        return super().apply(adds, condition)


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
        except (Exhausted, Unavailable) as error:
            if not outcomes:
                raise
            raise Unknown(
                f"{len(outcomes)} of {len(changes)} writes were sent, then: {error.message}"
            ) from error
    return outcomes
