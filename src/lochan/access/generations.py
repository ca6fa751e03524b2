"""A bounded map that forgets what was not used for long; for any number of threads.

Two generations, as in `persist/cache.py`: an entry that is used moves to the young one, and when
that holds half of the entries, the old one is dropped. There is no lock. Two threads that change
the map at the same moment may lose an entry, which is read again; they never return one under
another key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Held = TypeVar("_Held")


class Generations(Generic[_Key, _Held]):
    """At most `entries_max` entries."""

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, entries_max: int) -> None:
        self._half = entries_max // 2
        self._young: dict[_Key, _Held] = {}
        self._old: dict[_Key, _Held] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def find(self, key: _Key) -> _Held | None:
        """Returns what is held under a key, None if nothing is."""
        held = self._young.get(key)
        if held is None:
            held = self._old.get(key)
            if held is not None:
                self.keep(key, held)
        return held

    def keep(self, key: _Key, held: _Held) -> None:
        """Holds a value, in place of an earlier one under the same key."""
        if len(self._young) >= self._half and key not in self._young:
            self._old, self._young = self._young, {}
        self._young[key] = held
