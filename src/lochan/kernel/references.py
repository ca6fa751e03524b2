"""References by name: create, find, list, assign, delete; and finishing half-done steps.

`int/refs` is a chain of internal commits whose index lists every live name; its element carries the
*incarnation*, the sequence of the commit that added it. Each name has a row besides. The steps:

create   1. commit the names to `int/refs` (a name that is listed is taken);
         2. put each row, on condition that it is absent or a tombstone of an earlier incarnation.
delete   1. turn the row into a tombstone, on condition that it is as it was read;
         2. commit the removal to `int/refs`, on condition that the incarnation is still the same.

A crash between the two leaves a listed name without a row, or with a tombstone of the same
incarnation; the next call for that name (get, list, create, delete) finishes the step, under the
same conditions. Tombstones stay until the collector purges them under its grace, so a late finisher
finds them and can never bring a deleted reference back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from lochan.base.errors import (
    AlreadyExists,
    Corrupt,
    Exhausted,
    HeadConflict,
    Invalid,
    KeysConflict,
    LochanError,
    NewerFormat,
    ReferenceNotFound,
    Unavailable,
    Unknown,
)
from lochan.base.ids import ObjId
from lochan.base.limits.commits import MOVES_MAX
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.rows import Move, ReferenceElement, ReferenceRow, decode_reference_element
from lochan.kernel.claims import ClaimedProposal
from lochan.kernel.context import RepositoryContext
from lochan.kernel.moves import UNMOVED, Once, left_by, moved, moves_since, without_tokens
from lochan.kernel.name_index import (
    AddNames,
    BranchCount,
    BranchLimit,
    ListedReference,
    NameIndex,
    NewReferenceRow,
    RemoveName,
    UnreadableReference,
    row_of,
)
from lochan.kernel.provenance import SWEEP, Initiator
from lochan.kernel.publish import Proposal, Publisher, Settled
from lochan.kernel.settled import SettledMove, observed
from lochan.kernel.views import CommitView
from lochan.persist.references import StampedRow
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, Write

__all__ = ["Decide", "Destination", "MovedReference", "NewReferenceRow", "ReferenceIndex"]


class Destination(msgspec.Struct, frozen=True):
    """Where a move leads, and what the ref-log records of it."""

    pointer: ObjId
    kind: str
    source: str = ""
    base: bytes = b""
    drops_sealed: bool = False
    """Whether the sealed tokens leave the row with this move: their files are given up."""


class MovedReference(msgspec.Struct, frozen=True):
    """A row after a move; no move if there was nothing to do."""

    row: ReferenceRow
    move: Move | None


Decide = Callable[[ReferenceRow], Destination | None]

_Moved = Done[MovedReference]
_Created = Done[ReferenceRow]
_CHANGED: Final = Doubt("the reference was changed", "read it again")


class ReferenceIndex:
    """All references of a repository."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context
        self.publisher = Publisher(context, REFS_NAME)
        """The publisher of the index of names, shared by all callers on this server."""
        self._index = NameIndex(context)
        self._branches = BranchCount()

    def create_many(self, wanted: Sequence[NewReferenceRow], who: Initiator) -> list[ReferenceRow]:
        """Creates references, all or none; AlreadyExists if one of the names is taken."""
        if not wanted:
            return []
        add = self.prepare_create(wanted, who)
        (settled,) = self.publisher.publish([add])
        return self.finish_create(add, settled)

    def prepare_create(
        self,
        wanted: Sequence[NewReferenceRow],
        who: Initiator,
        operation: bytes | None = None,
        branches_max: int | None = None,
    ) -> AddNames:
        """Prepares step 1; the caller publishes it, alone or chained with others.

        With an operation id, names that the same operation has added are no conflict. If there
        would be more than `branches_max` branches, it is refused.
        """
        if not wanted or len({new.name for new in wanted}) != len(wanted):
            raise Invalid("references are created by different names, at least one")
        limit = None if branches_max is None else BranchLimit(branches_max, self._branches)
        return AddNames(self._context, wanted, who, operation, limit)

    def finish_create(
        self, add: AddNames, settled: Settled, claimed: ClaimedProposal | None = None
    ) -> list[ReferenceRow]:
        """Step 2, after step 1; repeats both if a name conflicted that is deleted by now.

        `claimed` is the published proposal, if the request has an idempotency key.
        """
        retry = self._retry()
        proposal: Proposal = add if claimed is None else claimed
        while isinstance(settled, KeysConflict):
            for name in self._index.find_many(add.names):
                # `find` finishes a half-done deletion; a live reference is a conflict.
                if self.find(name) is not None:
                    raise AlreadyExists(f"Named reference '{name}' already exists.")
            retry.again(at_once=True)
            (settled,) = self.publisher.publish([proposal])
        if isinstance(settled, LochanError):
            raise settled
        if claimed is not None and claimed.done is not None:
            return self.created_by(claimed.done.commits[-1], add.names)
        with _decided("create"):
            return [self._finish_create(name, one) for name, one in add.elements.items()]

    def created_by(self, commit: CommitView, names: Sequence[RefName]) -> list[ReferenceRow]:
        """Returns the references that a commit of the index has added, as they were then.

        A creation that is half done is finished.
        """
        made = self._index.find_many(names, commit)
        for name in names:
            self.find(name)
        return [row_of(name, made[name]) for name in names]

    def find(self, name: RefName) -> StampedRow | None:
        """Returns a live reference, or None; finishes what was left half done."""
        found = self._context.references.fetch(name)
        if found is not None and not found.row.deleted:
            return found
        retry = self._retry()
        while True:
            element = self._index.find(name)
            if element is None:
                return None
            if found is not None and found.row.incarnation == element.incarnation:
                with observed(self._context, [name]):
                    made = MovedReference(found.row, found.row.moves[-1])
                    self._finish_delete(name, element.incarnation, made)
            elif found is None or found.row.incarnation < element.incarnation:
                self._finish_create(name, element)
            retry.again(at_once=True)
            found = self._context.references.fetch(name)
            if found is not None and not found.row.deleted:
                return found

    def get(self, name: RefName) -> StampedRow:
        """Returns a live reference; ReferenceNotFound if there is none."""
        found = self.find(name)
        if found is None:
            raise _missing(name)
        return found

    def page(self, start: str, end: str | None, limit: int) -> list[ListedReference]:
        """Returns live references in the order of their names, from `start` on, before `end`.

        The page has fewer than `limit` only at the end of the range. A row of a newer format does
        not hide the other references: it is listed as the index of names knows it. A damaged row
        fails the listing.
        """
        first = b"f" + start.encode()
        stop = b"g" if end is None else b"f" + end.encode()
        listed: list[ListedReference] = []
        while len(listed) < limit:
            missing = limit - len(listed)
            items = self._index.page(first, stop, missing)
            rows = self._context.references.find_many([name for name, _ in items])
            for (name, element), found in zip(items, rows, strict=True):
                if isinstance(found, NewerFormat):
                    listed.append(_unreadable(name, element, found))
                    continue
                live = self.find(name) if found is None or found.row.deleted else found
                if live is not None:
                    listed.append(live.row)
            if len(items) < missing:
                break
            first = b"f" + items[-1][0].encode() + b"\0"
        return listed

    def index(self) -> CommitView:
        """Returns the present commit of the index, which lists the names as files."""
        return self._index.head()

    def incarnations(self, names: Sequence[RefName]) -> dict[RefName, int]:
        """Returns which of the names the index lists, and in which incarnation."""
        return {name: one.incarnation for name, one in self._index.find_many(names).items()}

    def assign(
        self, name: RefName, expected: ObjId, pointer: ObjId, who: Initiator
    ) -> ReferenceRow:
        """Points a reference elsewhere; the old head stays in the ref-log."""
        return self.move(name, lambda row: _destination(row, expected, pointer, "assign"), who).row

    def delete(
        self, name: RefName, expected: ObjId, who: Initiator, *, once: Once | None = None
    ) -> ReferenceRow:
        """Deletes a reference if it points at the expected commit."""
        return self.remove(
            name, lambda row: _destination(row, expected, expected, "delete"), who, once=once
        )

    def remove(
        self, name: RefName, decide: Decide, who: Initiator, *, once: Once | None = None
    ) -> ReferenceRow:
        """Deletes a reference if the decision on its row is a move of the kind `delete`."""
        with observed(self._context, [name]):
            made = self.move(name, decide, who, once=once)
            with _decided("delete"):
                self._finish_delete(name, made.row.incarnation, made)
        return made.row

    def delete_expired(self, seen: ReferenceRow, before_us: int) -> bool:
        """Deletes a reference that was read as expired; returns whether it did.

        The row that is replaced must be of the same incarnation and expired, too: one that was
        deleted and created again since is another reference.
        """
        name = RefName(seen.name)

        def decide(row: ReferenceRow) -> Destination:
            expired = row.expires_us is not None and row.expires_us <= before_us
            if row.incarnation != seen.incarnation or not expired:
                raise _missing(name)
            return Destination(ObjId(row.pointer), "delete")

        try:
            self.remove(name, decide, SWEEP)
        except ReferenceNotFound:
            return False
        return True

    def find_done(self, name: RefName, once: Once) -> MovedReference | None:
        """Returns a reference as it was after the move of an operation, None if there is none."""
        # The row before the log: a move is copied to the log before it leaves the row.
        found = self._context.references.fetch(name)
        row = None if found is None or found.row.incarnation != once.incarnation else found.row
        for move in moves_since(self._context.moves, name, once.incarnation, 0, row):
            if move.operation == once.operation:
                if row is None:
                    row = row_of(name, self._index.get_created(name, once.incarnation))
                return MovedReference(left_by(row, once.incarnation, move), move)
        return None

    def move(
        self,
        name: RefName,
        decide: Decide,
        who: Initiator,
        *,
        dry_run: bool = False,
        once: Once | None = None,
    ) -> MovedReference:
        """Makes a move that is no commit, by the row protocol of `persist/rows.py`.

        With `once` the move is made once, in one incarnation of the reference: if the row or the
        log contains its operation id, the recorded move is the answer. If there was nothing to do,
        the row records that too, so that a repetition gets the same answer.

        `decide` returns the destination for the live row, None if there is nothing to do; it is
        called again if another writer was first. The destination must be stored by then. A dry run
        decides and writes nothing.
        """
        context = self._context
        operation = context.random.random_bytes(16) if once is None else once.operation

        def plan(found: StampedRow | None) -> Write[ReferenceRow, MovedReference] | _Moved:
            if found is None or (once is not None and found.row.incarnation != once.incarnation):
                # Another incarnation, or none: the operation was done, or never will be.
                gone = None if once is None else self.find_done(name, once)
                if gone is None:
                    raise _missing(name)
                return Done(gone)
            row = found.row
            done = None if once is None else self._move_of(row, operation)
            if done is not None:
                return Done(MovedReference(left_by(row, row.incarnation, done), done))
            destination = decide(row)
            if destination is None and (once is None or dry_run):
                return Done(MovedReference(row, None))
            destination = destination or Destination(ObjId(row.pointer), UNMOVED)
            move = _move_to(row, destination, who, context.clock.now_us(), operation)
            target = moved(row, move, deleted=destination.kind == "delete")
            if destination.drops_sealed:
                target = without_tokens(target, row.sealed_tokens)
            if dry_run:
                return Done(MovedReference(target, move))
            if len(row.moves) == MOVES_MAX:
                self._copy(row, row.moves[:1])
            return Write(target, MovedReference(target, move))

        def find_earlier(write: Write[ReferenceRow, MovedReference]) -> _Moved | None:
            done = self.find_done(name, once or Once(operation, write.row.incarnation))
            if done is None:
                return None
            # Other requests may carry the operation of a claim: the stored move is the answer then.
            return Done(write.answer if once is None else done)

        with observed(context, [name]):
            steps = partial(context.references.swap, name, plan, self._retry(), _CHANGED)
            read, report = partial(self.find, name), self._report_moved
            return steps(find_done=find_earlier, read=read, report=report)

    def _report_moved(self, made: MovedReference) -> None:
        """Reports a move; a deletion is reported when it is finished."""
        observer, move = self._context.observer, made.move
        if observer is not None and move is not None and move.kind not in (UNMOVED, "delete"):
            observer.settle(self._context, SettledMove(made.row, move))

    def _report_created(self, row: ReferenceRow) -> None:
        if self._context.observer is not None:
            self._context.observer.settle(self._context, SettledMove(row, row.moves[0]))

    def _move_of(self, row: ReferenceRow, operation: bytes) -> Move | None:
        """Returns the move of an operation in this incarnation, None if it made none."""
        moves = moves_since(self._context.moves, row.name, row.incarnation, 0, row)
        return next((move for move in moves if move.operation == operation), None)

    def _copy(self, row: ReferenceRow, moves: Sequence[Move]) -> None:
        """Copies moves that are about to leave a row."""
        self._context.repeat(lambda: self._context.moves.copy(row, moves))

    def _finish_create(self, name: RefName, element: ReferenceElement) -> ReferenceRow:
        """Step 2 of create, by the creator or by another caller after a crash."""
        row = row_of(name, element)

        def decide(found: StampedRow | None) -> Write[ReferenceRow, ReferenceRow] | _Created:
            if found is None:
                return Write(row, row)
            if found.row.incarnation >= element.incarnation:
                return Done(row)
            if not found.row.deleted:
                raise Corrupt(f"{name!r} is live in two incarnations")
            # The tombstone is replaced; its moves must be in the log before.
            self._copy(found.row, found.row.moves)
            return Write(row, row)

        # Nearly always there is no row yet.
        with observed(self._context, [name]):
            return self._context.references.swap(
                name,
                decide,
                self._retry(),
                _CHANGED,
                assume_absent=True,
                report=self._report_created,
            )

    def _finish_delete(
        self, name: RefName, incarnation: int, made: MovedReference | None = None
    ) -> None:
        """Step 2 of delete, by the deleter or by another caller after a crash."""
        (settled,) = self.publisher.publish([RemoveName(self._context, name, incarnation)])
        if isinstance(settled, LochanError):
            raise settled
        observer = self._context.observer
        if observer is not None and settled.commits and made is not None and made.move is not None:
            observer.settle(self._context, SettledMove(made.row, made.move))

    def _retry(self) -> Retry:
        return self._context.retry_steps()


def _move_to(
    row: ReferenceRow, wanted: Destination, who: Initiator, now_us: int, operation: bytes
) -> Move:
    return Move(
        row.version + 1,
        row.pointer,
        wanted.pointer,
        wanted.kind,
        who.name,
        now_us,
        operation,
        wanted.source,
        wanted.base,
        row.moves[-1].version if row.moves else 0,
        who.roles,
    )


def _unreadable(name: RefName, raw: bytes, error: NewerFormat) -> UnreadableReference:
    element = decode_reference_element(raw)
    return UnreadableReference(name, element.kind, element.created_us, error.message)


def _missing(name: RefName) -> ReferenceNotFound:
    return ReferenceNotFound(f"Named reference '{name}' not found")


def _destination(row: ReferenceRow, expected: ObjId, pointer: ObjId, kind: str) -> Destination:
    if row.pointer != expected:
        raise HeadConflict(f"{row.name!r} points at {row.pointer.hex()}, not at {expected.hex()}")
    return Destination(pointer, kind)


@contextmanager
def _decided(step: str) -> Iterator[None]:
    """Turns errors that mean "no effect" into Unknown, because step 1 has taken effect."""
    try:
        yield
    except (Exhausted, Unavailable) as error:
        raise Unknown(
            f"the {step} is decided but not finished ({error.message})",
            public=f"the {step} is decided but not finished; send it again or read the reference",
        ) from error
