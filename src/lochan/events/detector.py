"""Finds the names whose history goes on after known positions, with few reads of many rows.

    detector = ChangeDetector(context)
    known = detector.place()                          # before the positions are taken
    ...
    now = detector.place()
    for name in detector.changed_since(known, now, positions_of, unknown):
        ...                                           # `replay` what came after its position

Two questions find every name, whatever happened to it:

* `changed_rows` compares all rows with positions, page by page: rows that moved, were created, were
  marked as deleted. A tombstone is such a row for a day.
* `touched` lists the names that were added to the index of names, or removed from it, between two
  of its commits. So a name is found that was created, deleted and swept in the meantime.

It costs for n references, of which d are tombstones of the last day, and m changes of the index of
names: one scan and one call of `positions_of` for each 1,000 of n + d, one read of the index's row,
and one read for each 20 of m. What has changed costs its own reads, in `events/replay.py`.

A name that is found is a hint: a position may have moved on since the row was read. The caller
takes the position first, reads the row after that, and replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lochan.base.checks import check_stored
from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, file_path
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.codec.cursors import IndexPlace, ReplayPosition
from lochan.codec.rows import ReferenceRow
from lochan.events.replay import is_behind
from lochan.index.layers import diff
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log
from lochan.kernel.name_index import NameIndex
from lochan.kernel.settled import is_observed
from lochan.kernel.views import CommitView

PositionsOf = Callable[[Sequence[RefName]], Mapping[RefName, ReplayPosition]]
"""Returns the known positions of up to 1,000 names; a name without one is left out."""


class ChangeDetector:
    """Compares the references of one repository with positions; it remembers nothing."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context
        self._index = NameIndex(context)

    def place(self) -> IndexPlace:
        """Returns the present commit of the index of names."""
        return place_of_index(self._index.head())

    def changed_since(
        self, known: IndexPlace, now: IndexPlace, positions_of: PositionsOf, unknown: ReplayPosition
    ) -> Iterator[RefName]:
        """Yields each name that may have changes after its position, once, in no special order.

        All changes of the index up to `known` are in the positions; `now` was read before this is
        called. `unknown` is the position of names that have none.
        """
        touched = self.touched(known, now)
        yield from touched
        seen = set(touched)
        for name in self.changed_rows(positions_of, unknown):
            if name not in seen:
                yield name

    def changed_rows(self, positions_of: PositionsOf, unknown: ReplayPosition) -> Iterator[RefName]:
        """Yields the names whose rows show changes after their positions, in the order of names.

        A row that cannot be read has no changes until an upgrade, or a repair, makes it readable.
        """
        start: bytes | None = b""
        while start is not None:
            page = self._context.references.scan(start, PAGE_ENTRIES_MAX)
            rows = [found.row for found in page.rows if is_observed(found.row)]
            yield from behind(rows, positions_of, unknown)
            start = page.next_start

    def touched(self, known: IndexPlace, now: IndexPlace) -> list[RefName]:
        """Returns the names that were created or removed after one place up to another."""
        if known == now:
            return []
        found: dict[RefName, None] = {}
        below = now.pointer
        for view in iterate_log(self._context.views, ObjId(now.pointer)):
            if view.sequence <= known.sequence:
                break
            found.update(dict.fromkeys(self._names_in(view)))
            below = view.parent
        check_stored(below == known.pointer, "the index of names is one line of commits")
        return list(found)

    def _names_in(self, view: CommitView) -> list[RefName]:
        """Returns the names that a commit of the index added or removed."""
        own = None if view.body is None else view.body.own
        if own is None:
            index = Universe.FILES
            parent = self._context.views.load(view.parent)
            changes = diff(self._context.nodes, parent.index(index), view.index(index))
            own = tuple([change.key for change in changes])
        return [RefName(file_path(Key(key))) for key in own]


def place_of_index(view: CommitView) -> IndexPlace:
    """Returns the place of a commit of the index of names."""
    return IndexPlace(view.sequence, view.obj_id)


def behind(
    rows: Sequence[ReferenceRow], positions_of: PositionsOf, unknown: ReplayPosition
) -> list[RefName]:
    """Returns the names of those rows that show changes after their positions."""
    names = [RefName(row.name) for row in rows]
    positions = positions_of(names) if names else {}
    return [
        name
        for name, row in zip(names, rows, strict=True)
        if is_behind(positions.get(name, unknown), row)
    ]
