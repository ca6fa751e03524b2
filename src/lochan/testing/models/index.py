"""An index as a dictionary: every read is a loop over all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lochan.index.difference import Difference
from lochan.index.node import Change


class IndexModel:
    """One version of an index; a change makes another version and leaves this one as it is."""

    def __init__(self, elements: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.elements = dict(elements)

    def changed(self, changes: Iterable[Change]) -> IndexModel:
        """Returns the version after the changes; None removes."""
        after = IndexModel(self.elements.items())
        for key, value in changes:
            if value is None:
                after.elements.pop(key, None)
            else:
                after.elements[key] = value
        return after

    def items(self, start: bytes = b"", end: bytes | None = None) -> list[tuple[bytes, bytes]]:
        """Returns the elements of [start, end) in order."""
        return sorted(
            item
            for item in self.elements.items()
            if item[0] >= start and (end is None or item[0] < end)
        )

    def find_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Returns the values of the keys, None where there is none."""
        return [self.elements.get(key) for key in keys]

    def diff(
        self, other: IndexModel, start: bytes = b"", end: bytes | None = None
    ) -> list[Difference]:
        """Returns the keys of [start, end) whose values differ, in order."""
        mine, theirs = dict(self.items(start, end)), dict(other.items(start, end))
        return [
            Difference(key, mine.get(key), theirs.get(key))
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]
