"""The ref-log: everything that ever happened to a name, newest first, in pages.

Moves that are no commits come from the row and from the log partition, all incarnations of the
name; commits come from history. Between two moves lie the commits from where the later one started
(its `old`) down to where the earlier one led (its `new`); after the last move those from the
present head. A move is in the row from the swap that made it until it is in the log, so reading the
row first and the log afterwards misses none, whatever crashed in between.

A copied move of a newer format does not hide the others: it is an entry of the kind UNREADABLE,
which contains its position and states that an upgrade is needed. The commits next to it are left
out, because only that move contains where they end.

A token contains which move comes next and from which commit to walk down to it. Both are in the
past and never change, so pages fit together while the reference moves on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from lochan.base.checks import check_stored
from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log
from lochan.kernel.moves import UNMOVED, LoggedMove, UnreadableMove
from lochan.kernel.provenance import read_provenance
from lochan.kernel.tokens import PageToken, Tokens
from lochan.kernel.views import CommitView
from lochan.model.references import ReferenceMove
from lochan.model.results import Page

_KIND: Final = "ref-log"
UNREADABLE: Final = "UNREADABLE"
_PLACE_BYTES: Final = 8
_END: Final = (1 << 63) - 1
"""Above every incarnation and every version."""

_NOWHERE: Final = ObjId(bytes(len(EMPTY_ID)))
"""In a token: the commit is not known. No object has this id."""


class _Place(msgspec.Struct, frozen=True):
    """Where reading continues: at a commit of one incarnation, before the moves below a version."""

    incarnation: int
    below: int
    commit: ObjId | None
    """None below a move that cannot be read: only that move contains which commits lie there."""


class RefLog:
    """Reads the ref-logs of one repository."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context
        self._tokens = Tokens(context.description.token_key)

    def page(self, name: RefName, limit: int, token: str | None = None) -> Page[ReferenceMove]:
        """Returns what happened to a name, live or deleted; raises if nothing ever did."""
        if not 0 < limit <= PAGE_ENTRIES_MAX:
            raise Invalid(f"a page has 1 to {PAGE_ENTRIES_MAX} entries, not {limit}")
        # The row before the log: a move is copied to the log before it leaves the row.
        found = self._context.references.fetch(name)
        row = None if found is None else found.row
        recent = () if row is None else tuple((row.incarnation, move) for move in row.moves)
        if token is not None:
            place = self._read(name, token)
        elif row is not None:
            place = _Place(row.incarnation, row.version + 1, ObjId(row.pointer))
        else:
            place = _Place(_END, _END, EMPTY_ID)
        entries, further = self._collect(name, recent, place, limit)
        if not entries and token is None:
            raise ReferenceNotFound(f"Named reference '{name}' not found")
        return Page(tuple(entries), self._token(name, further))

    def _collect(
        self, name: RefName, recent: tuple[tuple[int, LoggedMove], ...], start: _Place, limit: int
    ) -> tuple[list[ReferenceMove], _Place | None]:
        """Gathers entries from a place on; returns with them where to go on."""
        place = start
        entries: list[ReferenceMove] = []
        moves: list[tuple[int, LoggedMove]] = []
        while True:
            if not moves:
                moves = self._moves_before(name, recent, place, limit)[::-1]
            incarnation, move = moves[-1] if moves else (0, None)
            # Nothing lies above the last move of an earlier incarnation: it ended by a delete.
            lowest = _leads_to(move) if incarnation == place.incarnation else None
            for view in self._above(place, lowest):
                if len(entries) == limit:
                    return entries, _Place(place.incarnation, place.below, view.obj_id)
                entries.append(_of_commit(view, place.incarnation))
            if move is None:
                return entries, None
            if len(entries) == limit:
                at = place.commit if lowest is None else lowest
                return entries, _Place(place.incarnation, place.below, at)
            if isinstance(move, UnreadableMove) or move.kind != UNMOVED:
                entries.append(_of_move(incarnation, move))
            place = _Place(incarnation, move.version, _starts_from(move))
            moves.pop()

    def _above(self, place: _Place, lowest: ObjId | None) -> Iterator[CommitView]:
        """Yields the commits from a place down to where the move below it led."""
        if lowest is None or place.commit is None or place.commit == lowest:
            return
        for view in iterate_log(self._context.views, place.commit):
            if view.obj_id == lowest:
                return
            yield view
        check_stored(lowest == EMPTY_ID, "a head descends from where its last move led")

    def _moves_before(
        self, name: RefName, recent: tuple[tuple[int, LoggedMove], ...], place: _Place, limit: int
    ) -> list[tuple[int, LoggedMove]]:
        """Returns moves older than a place, newest first, of the row and of the log, each once."""
        log = self._context.moves.fetch_before(name, place.incarnation, place.below, limit)
        # Of the row only what is not older than the log's page: older ones come with the next.
        oldest = (log[-1][0], log[-1][1].version) if log else (0, 0)
        merged = {(incarnation, move.version): move for incarnation, move in log}
        for incarnation, move in recent:
            at = (incarnation, move.version)
            if oldest <= at < (place.incarnation, place.below):
                merged[at] = move
        return [(at[0], merged[at]) for at in sorted(merged, reverse=True)]

    def _token(self, name: RefName, place: _Place | None) -> PageToken | None:
        if place is None:
            return None
        numbers = (place.incarnation, place.below)
        key = b"".join(number.to_bytes(_PLACE_BYTES, "big") for number in numbers)
        return self._tokens.make(_KIND, place.commit or _NOWHERE, key, of=name)

    def _read(self, name: RefName, token: str) -> _Place:
        commit, key = self._tokens.read(PageToken(token), _KIND, of=name)
        incarnation = int.from_bytes(key[:_PLACE_BYTES], "big")
        below = int.from_bytes(key[_PLACE_BYTES:], "big")
        return _Place(incarnation, below, None if commit == _NOWHERE else commit)


def _of_commit(view: CommitView, incarnation: int) -> ReferenceMove:
    body = view.body
    check_stored(body is not None, "the empty commit is in no log")
    provenance = read_provenance(() if body is None else body.hidden)
    return ReferenceMove(
        provenance.kind,
        view.parent.hex(),
        view.obj_id.hex(),
        provenance.who.name,
        0 if body is None else body.created_us,
        provenance.operation,
        provenance.source,
        provenance.base,
        incarnation,
        0,
        provenance.who.roles,
    )


def _leads_to(move: LoggedMove | None) -> ObjId | None:
    return None if move is None or isinstance(move, UnreadableMove) else ObjId(move.new)


def _starts_from(move: LoggedMove) -> ObjId | None:
    return None if isinstance(move, UnreadableMove) else ObjId(move.old or EMPTY_ID)


def _of_move(incarnation: int, move: LoggedMove) -> ReferenceMove:
    if isinstance(move, UnreadableMove):
        reason, version = move.reason, move.version
        return ReferenceMove(UNREADABLE, None, "", "", 0, "", reason, "", incarnation, version)
    return ReferenceMove(
        move.kind,
        move.old.hex() or None,
        move.new.hex(),
        move.who,
        move.when_us,
        move.operation.hex(),
        move.source,
        move.base.hex(),
        incarnation,
        move.version,
        move.roles,
    )
