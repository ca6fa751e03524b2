"""The durable cursor of one subscriber in one repository: what was delivered, as rows.

A cursor has a place in the index of names and a position for each name, deleted ones included. A
name without a position has none of its incarnations up to that place undelivered. A *generation* is
a set of positions; a new one is written whole before the cursor names it, so a cursor that jumps to
the present does so in one step.

One search, and what a crash after each step leaves:

1. Read the place of the index now. (Nothing.)
2. For each name that the detector finds: deliver what comes after its position, then move the
   position. (Events that are delivered again.)
3. Remove the positions of names that the index does not list at that place any more: all their
   incarnations are delivered. (Changes of such names are delivered again.)
4. Move the cursor to that place. (Nothing.)

A name that step 2 finds gets a position of its own even if it has no change yet: its creation may
be half done, and its incarnation is below the place of step 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from lochan.base.errors import Corrupt, LochanError, Unknown
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.events import EVENT_MISSED_MAX
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.codec.cursors import CursorRow, IndexPlace, PositionRow, ReplayPosition
from lochan.codec.rows import ReferenceRow
from lochan.events.detector import ChangeDetector
from lochan.events.lease import Lease, LeaseLost
from lochan.events.replay import after_incarnation, is_behind, position_of
from lochan.kernel.context import RepositoryContext
from lochan.kernel.name_index import NameIndex
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.settled import is_observed
from lochan.model.events import MissedChanges
from lochan.persist.cursors import GENERATION_BYTES, CursorRows, Positions, exchange

_EXCLUDED: Final = b""
_BEGINNING: Final = IndexPlace(0, EMPTY_ID)


class Missed(msgspec.Struct, frozen=True):
    """References with changes after their positions; the rest of too many is counted."""

    listed: tuple[MissedChanges, ...]
    left_out: int


class RepositoryCursor:
    """A cursor in memory; only the owner of the lease uses one."""

    def __init__(self, context: RepositoryContext, subscriber: str) -> None:
        self.context = context
        self.detector = ChangeDetector(context)
        self._subscriber = subscriber
        self._rows = CursorRows(context.store, context.instance)
        self._references = ReferenceIndex(context)
        self._index = NameIndex(context)
        self._row: CursorRow | None = None
        self.positions = self._positions_of(_EXCLUDED)

    @property
    def has_row(self) -> bool:
        """Whether the row was read or written."""
        return self._row is not None

    @property
    def is_excluded(self) -> bool:
        """Whether the filter has excluded this repository, so that it has no positions."""
        return self._row is not None and self._row.generation == _EXCLUDED

    @property
    def row(self) -> CursorRow:
        """The row as it was read or written last."""
        if self._row is None:
            raise LeaseLost
        return self._row

    @property
    def unknown(self) -> ReplayPosition:
        """The position of names that have none of their own."""
        return after_incarnation(self.row.place.sequence)

    def load(self) -> bool:
        """Reads the row; returns whether there is one."""
        found = self._rows.fetch(self._subscriber)
        if found is None:
            return False
        self._use(found.row)
        return True

    def begin_at_present(self) -> None:
        """Adds a cursor behind everything that has happened, unless there is one already."""
        if not self.load():
            self._add(self.present(0))

    def begin_excluded(self) -> None:
        """Adds a cursor without positions, unless there is one already."""
        if not self.load():
            self._add(CursorRow(1, self._subscriber, _EXCLUDED, _BEGINNING, 0, 0))

    def begin_at_creation(self, fence: int) -> None:
        """Adds the cursor of a repository that is younger than the subscriber: it gets all."""
        now_us = self.context.clock.now_us()
        self._add(CursorRow(1, self._subscriber, self._generation(), _BEGINNING, now_us, fence))

    def present(self, fence: int) -> CursorRow:
        """Writes positions behind everything, and returns a row with them that is not stored."""
        generation = self._generation()
        positions = self._positions_of(generation)
        now_us = self.context.clock.now_us()
        place = self.detector.place()
        for rows in self._pages():
            positions.store_many(
                [positions.row_of(RefName(row.name), position_of(row), fence) for row in rows]
            )
        return CursorRow(1, self._subscriber, generation, place, now_us, fence)

    def replace(self, row: CursorRow) -> None:
        """Puts another row in place of the one that was read; drops positions not used any more."""
        old, dropped = self.row.generation, self.positions
        self._exchange(row)
        if old not in (_EXCLUDED, row.generation):
            # What is left after a failure is never read.
            with suppress(LochanError):
                dropped.drop()

    def exclude(self, fence: int) -> None:
        """Gives up the positions of a repository that the filter excludes."""
        row = msgspec.structs.replace(self.row, generation=_EXCLUDED, fence=fence)
        self.replace(row)

    def advance(self, place: IndexPlace, complete_us: int, fence: int, step_us: int) -> None:
        """Step 4; writes nothing if only a little time has passed."""
        row = self.row
        if place == row.place and complete_us - row.complete_us < step_us:
            return
        self._exchange(
            msgspec.structs.replace(row, place=place, complete_us=complete_us, fence=fence)
        )

    def forget(self, names: Sequence[RefName], place: IndexPlace) -> None:
        """Step 3, for the names that commits of the index have touched up to a place."""
        if not names:
            return
        listed = self._index.find_many(names, self.context.views.load(ObjId(place.pointer)))
        for name in names:
            found = None if name in listed else self.positions.fetch(self.positions.key(name))
            if found is not None and found.row.at.incarnation <= place.sequence:
                # A position that stays is right as well.
                with suppress(Unknown):
                    self.positions.remove(found)

    def fetch_row(self, name: RefName) -> ReferenceRow | None:
        """Returns the row of a name; finishes a creation that another server has left half done."""
        found = self.context.references.fetch(name)
        if found is None or found.row.deleted:
            live = self._references.find(name)
            found = live or self.context.references.fetch(name)
        return None if found is None else found.row

    def find_missed(self, place: IndexPlace, accepts: Callable[[str], bool]) -> Missed:
        """Returns the references that have changes which are not delivered."""
        listed: list[MissedChanges] = []
        left_out = 0
        for name in self._names_behind(place):
            if not accepts(name):
                continue
            if len(listed) < EVENT_MISSED_MAX:
                found = self.context.references.fetch(name)
                at = self.positions.find(name)
                row = None if found is None else found.row
                listed.append(missed_of(name, self.unknown if at is None else at.at, row))
            else:
                left_out += 1
        return Missed(tuple(listed), left_out)

    def _names_behind(self, place: IndexPlace) -> Iterator[RefName]:
        try:
            touched = self.detector.touched(self.row.place, place)
        except Corrupt:
            # The line of the index is damaged: rows show what they can.
            touched = []
        yield from touched
        seen = set(touched)
        for name in self.detector.changed_rows(self.positions.find_many, self.unknown):
            if name not in seen:
                yield name

    def _pages(self) -> Iterator[list[ReferenceRow]]:
        start: bytes | None = b""
        while start is not None:
            page = self.context.references.scan(start, PAGE_ENTRIES_MAX)
            yield [found.row for found in page.rows if is_observed(found.row)]
            start = page.next_start

    def _add(self, row: CursorRow) -> None:
        """Adds the first row; if another worker was first, its row is used."""
        exchange(self._rows, self._subscriber, None, row, self.context.retry_steps())
        self.load()

    def _exchange(self, row: CursorRow) -> None:
        old = self.row
        if not exchange(self._rows, self._subscriber, old, row, self.context.retry_steps()):
            raise LeaseLost
        self._use(row)

    def _use(self, row: CursorRow) -> None:
        if self._row is None or self._row.generation != row.generation:
            self.positions = self._positions_of(row.generation)
        self._row = row

    def _generation(self) -> bytes:
        return self.context.random.random_bytes(GENERATION_BYTES)

    def _positions_of(self, generation: bytes) -> Positions:
        context = self.context
        return Positions(context.store, context.instance, self._subscriber, generation)


class NamePosition:
    """The position of one name while its changes are delivered: noted often, stored sometimes."""

    def __init__(self, cursor: RepositoryCursor, name: RefName, lease: Lease) -> None:
        self._cursor = cursor
        self._name = name
        self._lease = lease
        self._stored: PositionRow | None = cursor.positions.find(name)
        if self._stored is not None and self._stored.fence > lease.fence:
            raise LeaseLost
        self.at = cursor.unknown if self._stored is None else self._stored.at
        self._is_new = self._stored is None
        self.noted = 0
        """Changes since the position was stored."""

    def note(self, at: ReplayPosition) -> None:
        """Notes that a change was delivered, or is not wanted."""
        self.at = at
        self.noted += 1

    def store(self) -> None:
        """Moves the row behind what was noted; a new name gets one although it has no change."""
        if not self.noted and not self._is_new:
            return
        self._lease.check()
        cursor, old = self._cursor, self._stored
        row = cursor.positions.row_of(self._name, self.at, self._lease.fence)
        retry = cursor.context.retry_steps()
        if not exchange(cursor.positions, cursor.positions.key(self._name), old, row, retry):
            raise LeaseLost
        self._stored, self._is_new, self.noted = row, False, 0


def missed_of(name: RefName, at: ReplayPosition, row: ReferenceRow | None) -> MissedChanges:
    """Returns what is missed of a reference, from a position to what its row shows."""
    before = at.incarnation if at.pointer else 0
    if row is None or row.deleted or not is_behind(at, row):
        return MissedChanges(name, before, at.pointer.hex(), 0, "")
    return MissedChanges(name, before, at.pointer.hex(), row.incarnation, row.pointer.hex())
