"""Makes the events of a change once for all subscriptions that want the same types of them.

To make events costs many times more than to hand one over. The events of the last changes are kept,
so that subscriptions that are at about the same place of the history get the same ones. A
subscription that is far behind, and a change with very many events, are served as if nothing was
kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice

from lochan.base.limits.events import EVENT_SHARED_CHANGES_MAX, EVENT_SHARED_MAX
from lochan.base.ports import Lock, NewLock
from lochan.events.builder import EventBuilder, Wants
from lochan.events.changes import Change
from lochan.model.events import Event

_Name = tuple[tuple[bytes, str], tuple[int, int], frozenset[str]]


class _Kept:
    """The events of a change; one subscription makes them while others wait for the lock."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.events: list[Event] | None = None
        self.is_large = False


class SharedEvents:
    """The events of changes, for all subscriptions of a process."""

    def __init__(self, builder: EventBuilder, new_lock: NewLock) -> None:
        self._builder = builder
        self._new_lock = new_lock
        self._lock = new_lock()
        self._kept: OrderedDict[_Name, _Kept] = OrderedDict()
        self._durable = 0
        self.is_shared = False
        """Whether there is more than one subscription."""

    def make_durable(self, change: Change) -> None:
        """Returns when a change will stay, whatever happens to this process."""
        # All repositories of a process are in one store.
        if change.epoch > self._durable:
            change.context.store.flush(change.epoch)
            self._durable = max(change.epoch, self._durable)

    def build(
        self, change: Change, wanted: frozenset[str], wants_key: Wants | None
    ) -> Iterator[Event]:
        """Returns the events of a change that have one of the wanted types, in their order.

        Contents are read only for keys that are wanted; None wants all of them, and only then
        events are shared.
        """
        if wants_key is not None:
            return self._builder.build(change, wanted, wants_key)
        if not self.is_shared:
            return self._builder.build(change, wanted, _every)
        kept = self._find(change, wanted)
        with kept.lock:
            if kept.events is not None:
                return iter(kept.events)
            made = self._builder.build(change, wanted, _every)
            if kept.is_large:
                return made
            first = list(islice(made, EVENT_SHARED_MAX + 1))
            if len(first) <= EVENT_SHARED_MAX:
                kept.events = first
                return iter(first)
            kept.is_large = True
            return chain(first, made)

    def _find(self, change: Change, wanted: frozenset[str]) -> _Kept:
        name = (change.place, change.position, wanted)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                kept = self._kept[name] = _Kept(self._new_lock())
                if len(self._kept) > EVENT_SHARED_CHANGES_MAX:
                    self._kept.popitem(last=False)
            return kept


def _every(key: bytes) -> bool:  # noqa: ARG001 - whatever the key is
    return True
