"""Makes the changes of a reference again from what is stored, as they were reported when made.

    row = context.references.fetch(name)                       # the row first, the log later
    for one in replay(context, name, after, None if row is None else row.row):
        ...                       # `one.change` as the hub passes it on, for `EventBuilder.build`
        after = one.after         # what follows it: store this, and nothing of it comes again

History is the outbox: commits are in the chain of the branch, all other changes are moves, which
are in the row of the reference or in the log of moves, those of deleted references too. So nothing
is written for events when a change is made, and those after any `ReplayPosition` can be made again.
They come in the order of the reference, oldest first, one incarnation after the other. Their events
have the same ids as when they were reported live, because ids are made of the same facts.

A `ReplayPosition` is the place behind one change: the incarnation, the version of the last move up
to it, and where the reference pointed then. These need no reading:

* `position_of(row)` is behind everything that a row shows;
* `before_all()` is before everything that ever happened to a name;
* `after_incarnation(n)` is before the first change of any incarnation above `n`. Incarnations are
  sequences of the index of names, so one number is right for all names of a repository;
* `is_behind(position, row)` is whether a row shows changes that are after a position.

What differs from live reports: each change comes alone, where one swap may have published commits
of several requests; the rows in a change have names, kind, incarnation, pointer and nothing more;
`version` counts moves, because history does not record how many swaps commits took; a deletion
comes as soon as it is decided, while live it is reported when the name is free.

Memory is bounded: commits are read in runs of `REPLAY_COMMITS_READ`. Reading costs one call for the
log where a move has left the row or the incarnation differs, and the commits that follow.

Corrupt if history does not fit the position: a move is missing, or the head does not descend from
it. NewerFormat if a move cannot be read; whatever is behind it waits for the upgrade.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from lochan.base.checks import check_stored
from lochan.base.ids import ObjId
from lochan.base.limits.events import REPLAY_COMMITS_READ
from lochan.base.names import RefName
from lochan.codec.cursors import ReplayPosition
from lochan.codec.rows import Move, ReferenceRow
from lochan.events.changes import MERGE_KINDS, TRANSPLANT_KINDS, Change, provenance_of
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ancestor_at, iterate_log
from lochan.kernel.name_index import NameIndex
from lochan.kernel.settled import SettledChange, SettledCommits, SettledMove
from lochan.kernel.tags import TAG
from lochan.kernel.views import CommitView

_OF_SEVERAL_COMMITS: Final = MERGE_KINDS | TRANSPLANT_KINDS


class Replayed(msgspec.Struct, frozen=True):
    """A change, and the position behind it."""

    change: Change
    after: ReplayPosition


def before_all() -> ReplayPosition:
    """Returns the position before everything that ever happened to a name."""
    return after_incarnation(0)


def after_incarnation(incarnation: int) -> ReplayPosition:
    """Returns the position before the first change of any later incarnation."""
    return ReplayPosition(incarnation + 1, 0, b"")


def position_of(row: ReferenceRow) -> ReplayPosition:
    """Returns the position behind everything that a row shows."""
    return ReplayPosition(row.incarnation, _last_version(row), row.pointer)


def is_behind(position: ReplayPosition, row: ReferenceRow) -> bool:
    """Returns whether a row shows changes that are after a position."""
    if row.incarnation != position.incarnation:
        return row.incarnation > position.incarnation
    # A pointer comes back to where it was by a move only, which has a version of its own.
    return position != position_of(row)


def replay(
    context: RepositoryContext, name: RefName, after: ReplayPosition, row: ReferenceRow | None
) -> Iterator[Replayed]:
    """Yields the changes of a name after a position, oldest first, up to what a row shows.

    The row must be read before this is called; None if there is none. Nothing comes if the row is
    of an earlier incarnation than the position.
    """
    if row is not None and not is_behind(after, row):
        return iter(())
    # What was read is in the store already, but perhaps not durable yet.
    return _Replay(context, name, row, context.store.epoch()).run(after)


class _Replay:
    """One walk through what happened to a name."""

    def __init__(
        self, context: RepositoryContext, name: RefName, row: ReferenceRow | None, epoch: int
    ) -> None:
        self._context = context
        self._name = name
        self._row = row
        self._epoch = epoch
        self._kind = (0, "")

    def run(self, after: ReplayPosition) -> Iterator[Replayed]:
        """Yields the moves after a position, and the commits before, between and after them."""
        at = after
        for incarnation, move in self._moves(after):
            if incarnation == at.incarnation:
                check_stored(move.before == at.version, "no move of a reference is missing")
                yield from self._commits(at, ObjId(move.old))
            else:
                check_stored(move.before == 0, "the first move of a reference is there")
            at = ReplayPosition(incarnation, move.version, move.new)
            yield self._replayed(SettledMove(self._state(at), move), at)
        if self._row is not None:
            yield from self._commits(at, ObjId(self._row.pointer))

    def _moves(self, after: ReplayPosition) -> Iterator[tuple[int, Move]]:
        """Yields the moves after a position: those that have left the row come from the log."""
        row = self._row
        if row is None:
            return self._logged(after, None)
        start = (after.incarnation, after.version)
        kept = [(row.incarnation, one) for one in row.moves]
        missing = [one for one in kept if (one[0], one[1].version) > start]
        if row.incarnation == after.incarnation and kept and kept[0][1].before <= after.version:
            return iter(missing)
        end = (row.incarnation, kept[0][1].version if kept else row.version + 1)
        return chain(self._logged(after, end), missing)

    def _logged(
        self, after: ReplayPosition, end: tuple[int, int] | None
    ) -> Iterator[tuple[int, Move]]:
        start = (after.incarnation, after.version + 1)
        return self._context.moves.iterate(self._name, start, end)

    def _commits(self, at: ReplayPosition, top: ObjId) -> Iterator[Replayed]:
        """Yields the commits of a branch above a position, up to a head."""
        if at.pointer in (b"", top) or self._kind_of(at.incarnation) == TAG:
            return
        group: list[CommitView] = []
        before = at
        for view in _line(self._context, ObjId(at.pointer), top):
            if group and not is_one_request(group[-1], view):
                yield (done := self._committed(before, group))
                before, group = done.after, []
            group.append(view)
        yield self._committed(before, group)

    def _committed(self, before: ReplayPosition, group: Sequence[CommitView]) -> Replayed:
        after = ReplayPosition(before.incarnation, before.version, group[-1].obj_id)
        settled = SettledCommits(self._state(before), self._state(after), (tuple(group),))
        return self._replayed(settled, after)

    def _replayed(self, settled: SettledChange, after: ReplayPosition) -> Replayed:
        return Replayed(Change(self._context, settled, self._epoch), after)

    def _state(self, at: ReplayPosition) -> ReferenceRow:
        """Returns what events show of a reference at a position."""
        kind = self._kind_of(at.incarnation)
        return ReferenceRow(1, self._name, kind, at.pointer, at.version, at.incarnation, b"", 0)

    def _kind_of(self, incarnation: int) -> str:
        """Returns branch or tag; that of an incarnation without a row is in the index of names."""
        if self._kind[0] != incarnation:
            row = self._row
            if row is not None and row.incarnation == incarnation:
                kind = row.kind
            else:
                kind = NameIndex(self._context).get_created(self._name, incarnation).kind
            self._kind = (incarnation, kind)
        return self._kind[1]


def _line(context: RepositoryContext, bottom: ObjId, top: ObjId) -> Iterator[CommitView]:
    """Yields the commits above one and up to another, oldest first, read in runs."""
    views = context.views
    head = views.load(top)
    reached = views.load(bottom)
    check_stored(reached.sequence < head.sequence, "a head descends from where it was")
    while reached.sequence < head.sequence:
        upto = min(reached.sequence + REPLAY_COMMITS_READ, head.sequence)
        run: list[CommitView] = []
        for view in iterate_log(views, ancestor_at(views, head, upto)):
            if view.sequence <= reached.sequence:
                break
            run.append(view)
        check_stored(run[-1].parent == reached.obj_id, "a head descends from where it was")
        yield from reversed(run)
        reached = run[0]


def is_one_request(earlier: CommitView, later: CommitView) -> bool:
    """Returns whether two commits in a row belong to one merge or transplant."""
    made, other = provenance_of(earlier), provenance_of(later)
    if made.kind not in _OF_SEVERAL_COMMITS or not made.operation:
        return False
    return (made.kind, made.operation) == (other.kind, other.operation)


def _last_version(row: ReferenceRow) -> int:
    return row.moves[-1].version if row.moves else 0
