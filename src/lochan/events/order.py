"""Puts settled changes into the order of each reference.

Threads of one process report changes in any order. A change is released when every operation on the
same reference that was under way when it was reported has ended: what begins later reads the row
that the change has left, so its own change is younger. Released changes of a reference are sorted
by incarnation and version. Changes of different references have no order.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lochan.base.ports import NewLock
from lochan.events.changes import Change

Place = tuple[bytes, str]


class _Reported(msgspec.Struct):
    """A change, and the operations that have to end before it is released."""

    change: Change
    blockers: set[int]


class _Line(msgspec.Struct):
    """What is under way and what waits on one reference."""

    under_way: set[int] = msgspec.field(default_factory=set)
    waiting: list[_Reported] = msgspec.field(default_factory=list)


class ChangeOrder:
    """The changes of one process that wait until their order is known.

    `release` is called under the lock, so that no other thread comes between two changes; it must
    neither wait nor raise.
    """

    def __init__(self, new_lock: NewLock, release: Callable[[Change], None]) -> None:
        self._pass_on = release
        self._lock = new_lock()
        self._lines: dict[Place, _Line] = {}
        self._number = 0

    def begin(self, place: Place) -> int:
        """Counts an operation on a reference."""
        with self._lock:
            self._number += 1
            self._lines.setdefault(place, _Line()).under_way.add(self._number)
            return self._number

    def add(self, change: Change) -> None:
        """Takes a change and releases what can be."""
        with self._lock:
            line = self._lines.setdefault(change.place, _Line())
            line.waiting.append(_Reported(change, set(line.under_way)))
            self._release(change.place, line)

    def end(self, place: Place, number: int) -> None:
        """Ends an operation and releases what waited for it."""
        with self._lock:
            line = self._lines[place]
            line.under_way.discard(number)
            for reported in line.waiting:
                reported.blockers.discard(number)
            self._release(place, line)

    def _release(self, place: Place, line: _Line) -> None:
        """Releases the oldest changes up to the first that has to wait."""
        line.waiting.sort(key=lambda reported: reported.change.position)
        count = 0
        while count < len(line.waiting) and not line.waiting[count].blockers:
            count += 1
        released = [reported.change for reported in line.waiting[:count]]
        del line.waiting[:count]
        if not line.waiting and not line.under_way:
            del self._lines[place]
        for change in released:
            self._pass_on(change)
