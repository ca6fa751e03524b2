"""The caches of a server: what they hold never changes, so they need no coherency.

All repositories of a server share one `Caches`, so that its memory is bounded however many of them
are open. Each repository has maps of its own, and never finds an object of another one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from lochan.base.ids import ObjId
from lochan.base.limits.storage import CACHE_BYTES_MAX

_Held = TypeVar("_Held")

ENTRY_BYTES = 240
"""What an entry costs beside the value: its place in the map, its key, the headers of both."""

# More than one for each that comes, so that a generation is freed before the next one is dropped.
_FREED_TOGETHER: Final = 4


class _Dropped(Protocol):
    """A generation of any kind of cache."""

    def __len__(self) -> int: ...

    def popitem(self) -> object:
        """Removes an entry."""
        ...


class _Aging(Protocol):
    """A cache of any kind."""

    def age(self) -> _Dropped:
        """Returns the old generation, which it drops."""
        ...


class CacheBudget:
    """So many bytes for all caches that were made with it.

    Two generations: an entry that is used moves to the young one, and when that holds half of the
    bytes, all caches drop their old one together. That is as good as least-recently-used to a
    factor of two, and a hit costs one dictionary lookup.

    What is dropped is freed bit by bit, faster than new entries come: to free some thousand commits
    at once takes tens of milliseconds, in which no thread of the process runs.
    """

    def __init__(self, bytes_max: int) -> None:
        self._half_bytes = bytes_max // 2
        self._young_bytes = 0
        self._dropped: list[_Dropped] = []
        # Threads open repositories at the same time: no two caches may get one number.
        self._numbers = count()
        # Weak, so that a repository that is closed takes its caches along.
        self._caches: WeakValueDictionary[int, _Aging] = WeakValueDictionary()

    def cache(self, weigh: Callable[[_Held], int]) -> BoundedCache[_Held]:
        """Returns a new cache; `weigh` returns the bytes that a value takes in memory."""
        made: BoundedCache[_Held] = BoundedCache(self, weigh)
        self._caches[next(self._numbers)] = made
        return made

    def take(self, weight: int) -> None:
        """Counts an entry that is about to be kept."""
        if self._dropped:
            self._free()
        if self._young_bytes + weight > self._half_bytes:
            self._young_bytes = 0
            caches = [reference() for reference in self._caches.valuerefs()]
            self._dropped = [cache.age() for cache in caches if cache is not None]
        self._young_bytes += weight

    def _free(self) -> None:
        """Frees a few dropped entries; other threads may do so at the same time."""
        dropped = self._dropped
        try:
            for _ in range(_FREED_TOGETHER):
                while not dropped[-1]:
                    dropped.pop()
                dropped[-1].popitem()
        except (IndexError, KeyError):
            # There is nothing left, or another thread was first.
            return


class BoundedCache(Generic[_Held]):
    """One map of one repository, within a budget that other caches share."""

    def __init__(self, budget: CacheBudget, weigh: Callable[[_Held], int]) -> None:
        self._budget = budget
        self._weigh = weigh
        self._young: dict[ObjId, _Held] = {}
        self._old: dict[ObjId, _Held] = {}

    def find(self, obj_id: ObjId) -> _Held | None:
        """Returns what is held under the id, None if nothing is."""
        held = self._young.get(obj_id)
        if held is None:
            held = self._old.get(obj_id)
            if held is not None:
                self.keep(obj_id, held)
        return held

    def keep(self, obj_id: ObjId, held: _Held) -> None:
        """Holds a value until it has not been used for long."""
        if obj_id not in self._young:
            self._budget.take(self._weigh(held) + ENTRY_BYTES)
            self._young[obj_id] = held

    def age(self) -> dict[ObjId, _Held]:
        """Returns the old generation, which it drops; the young one is the old one from now on."""
        dropped, self._old, self._young = self._old, self._young, {}
        return dropped


class Caches:
    """The budgets of one server, by what is cached; together they take `bytes_max`.

    Each has a fixed share, so that a scan over many leaves does not push out commits, nor the few
    inner nodes through which every lookup passes.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        share = bytes_max // 15
        self.inner_nodes = CacheBudget(3 * share)
        self.commits = CacheBudget(2 * share)
        self.values = CacheBudget(share)
        self.leaves = CacheBudget(bytes_max - 6 * share)
