"""What a store that has nothing better of its own does for `apply_each`, `hold` and the like."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.errors import Unavailable, Unknown
from lochan.kv.store import Adds, Entry, Outcome, SetIf, Store


class PlainHold:
    """A hold without a lock: the row was read, the next `apply` may lose."""

    def __init__(self, store: Store, entry: Entry | None) -> None:
        self._store = store
        self._entry = entry

    @property
    def entry(self) -> Entry | None:
        """The row as it was read."""
        return self._entry

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Passes on to the store."""
        return self._store.apply(adds, condition)

    def release(self) -> None:
        """Has nothing to give up."""


def apply_in_turn(store: Store, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
    """Applies changes one after the other."""
    outcomes: list[Outcome] = []
    for adds, condition in changes:
        try:
            outcomes.append(store.apply(adds, condition))
        except Unavailable as error:
            if not outcomes:
                raise
            raise Unknown(f"some of several writes were made ({error.message})") from error
    return outcomes
