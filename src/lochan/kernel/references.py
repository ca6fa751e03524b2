"""References by name: create, find, list, assign, delete; and finishing what others left half done.

`int/refs` is a chain of internal commits whose index lists every live name; its element carries the
*incarnation*, the sequence of the commit that added it. Each name has a row besides. The steps:

create   1. commit the names to `int/refs` (a name that is listed is taken);
         2. put each row, on condition that it is absent or a tombstone of an earlier incarnation.
delete   1. turn the row into a tombstone, on condition that it is as it was read;
         2. commit the removal to `int/refs`, on condition that the incarnation is still the same.

A crash between the two leaves a listed name without a row, or with a tombstone of the same
incarnation; whoever comes next (get, list, create, delete) finishes the step, under the same
conditions. Tombstones stay until the collector purges them under its grace, so a late finisher
finds them and can never bring a deleted reference back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    ReferenceNotFound,
    Unavailable,
    Unknown,
)
from lochan.base.ids import ObjId
from lochan.base.keys import Key, file_key, file_path
from lochan.base.limits import MOVES_MAX
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.rows import (
    Move,
    ReferenceElement,
    ReferenceRow,
    decode_reference_element,
    encode_reference_element,
)
from lochan.index.layers import find_many, read_page
from lochan.kernel.build import Head
from lochan.kernel.moves import Once, left_by, moved
from lochan.kernel.parts import Parts
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.publish import Published, Publisher, Settled
from lochan.kernel.retry import Retry
from lochan.kernel.views import CommitView
from lochan.kv.store import Won
from lochan.persist.references import StampedRow

_FIRST_VERSION: Final = 1


class NewReference(msgspec.Struct, frozen=True):
    """A reference to be created."""

    name: RefName
    kind: str
    pointer: ObjId
    expires_us: int | None = None


class Destination(msgspec.Struct, frozen=True):
    """Where a move leads, and what the ref-log is to say of it."""

    pointer: ObjId
    kind: str
    source: str = ""
    base: bytes = b""


class MovedReference(msgspec.Struct, frozen=True):
    """A row after a move; no move if there was nothing to do."""

    row: ReferenceRow
    move: Move | None


Decide = Callable[[ReferenceRow], Destination | None]


class Names:
    """All references of a repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._publisher = Publisher(parts, REFS_NAME)

    @property
    def publisher(self) -> Publisher:
        """The publisher of the index of names, which everybody on this server shares."""
        return self._publisher

    def create_many(self, wanted: Sequence[NewReference], who: str) -> list[ReferenceRow]:
        """Creates references, all or none; AlreadyExists if one of the names is taken."""
        if not wanted:
            return []
        add = self.prepare_create(wanted, who)
        (settled,) = self._publisher.publish([add])
        return self.finish_create(add, settled)

    def prepare_create(
        self, wanted: Sequence[NewReference], who: str, operation: bytes | None = None
    ) -> AddNames:
        """Prepares step 1 for whoever publishes it, alone or chained with others.

        With an operation id, names that it has added before are not in its way.
        """
        if not wanted or len({new.name for new in wanted}) != len(wanted):
            raise Invalid("references are created by different names, at least one")
        return AddNames(self._parts, wanted, who, operation)

    def finish_create(self, add: AddNames, settled: Settled) -> list[ReferenceRow]:
        """Step 2, when step 1 was settled; if names were in the way that are gone, both again."""
        retry = self._retry()
        while isinstance(settled, KeysConflict):
            listed = self._listed(add.names)
            own = {name: one for name, one in listed.items() if add.has_made(one)}
            if len(own) == len(add.names):
                return [self._finish_create(name, own[name]) for name in add.names]
            for name in listed:
                # A half-deleted one is finished by looking; a live one is in the way.
                if self.find(name) is not None:
                    raise AlreadyExists(f"Named reference '{name}' already exists.")
            retry.again(at_once=True)
            (settled,) = self._publisher.publish([add])
        if isinstance(settled, LochanError):
            raise settled
        with _decided("create"):
            return [self._finish_create(name, one) for name, one in add.elements.items()]

    def find(self, name: RefName) -> StampedRow | None:
        """Returns a live reference, or None; finishes what was left half done."""
        retry = self._retry()
        while True:
            found = self._parts.references.fetch(name)
            if found is not None and not found.row.deleted:
                return found
            element = self._element(name)
            if element is None:
                return None
            if found is not None and found.row.incarnation == element.incarnation:
                self._finish_delete(name, element.incarnation)
            elif found is None or found.row.incarnation < element.incarnation:
                self._finish_create(name, element)
            retry.again(at_once=True)

    def get(self, name: RefName) -> StampedRow:
        """Returns a live reference; ReferenceNotFound if there is none."""
        found = self.find(name)
        if found is None:
            raise _missing(name)
        return found

    def page(self, start: str, end: str | None, limit: int) -> list[ReferenceRow]:
        """Returns live references in the order of their names, from `start` on, before `end`.

        Fewer than `limit` only where there are no more: names that turn out to be deleted are made
        up for.
        """
        first = b"f" + start.encode()
        stop = b"g" if end is None else b"f" + end.encode()
        rows: list[ReferenceRow] = []
        while len(rows) < limit:
            missing = limit - len(rows)
            items = read_page(self._parts.nodes, self._head().files, first, stop, missing)
            rows += self._live([RefName(file_path(Key(key))) for key, _ in items])
            if len(items) < missing:
                break
            first = items[-1][0] + b"\0"
        return rows

    def incarnations(self, names: Sequence[RefName]) -> dict[RefName, int]:
        """Returns which of the names the index lists, and in which life."""
        return {name: element.incarnation for name, element in self._listed(names).items()}

    def _live(self, names: Sequence[RefName]) -> list[ReferenceRow]:
        """Returns the rows of those listed names that are live; finishes what is half done."""
        rows: list[ReferenceRow] = []
        for name, found in zip(names, self._parts.references.fetch_many(names), strict=True):
            live = found
            if found is None or found.row.deleted:
                live = self.find(name)
            if live is not None:
                rows.append(live.row)
        return rows

    def assign(self, name: RefName, expected: ObjId, pointer: ObjId, who: str) -> ReferenceRow:
        """Points a reference elsewhere; the old head stays in the ref-log."""
        return self.move(name, lambda row: _elsewhere(row, expected, pointer, "assign"), who).row

    def delete(
        self, name: RefName, expected: ObjId, who: str, *, once: Once | None = None
    ) -> ReferenceRow:
        """Deletes a reference that points where the caller believes."""
        row = self.move(
            name,
            lambda row: _elsewhere(row, expected, expected, "delete"),
            who,
            once=once,
        ).row
        with _decided("delete"):
            self._finish_delete(name, row.incarnation)
        return row

    def find_done(self, name: RefName, operation: bytes) -> MovedReference | None:
        """Returns a reference as the move of an operation left it, in whichever life."""
        # The row before the log: what leaves the one is in the other by then.
        found = self._parts.references.fetch(name)
        if found is None:
            return None
        moves = [(found.row.incarnation, move) for move in found.row.moves]
        for incarnation, move in (*moves, *self._parts.moves.fetch_all(name)):
            if move.operation == operation:
                return MovedReference(left_by(found.row, incarnation, move), move)
        return None

    def move(
        self,
        name: RefName,
        decide: Decide,
        who: str,
        *,
        dry_run: bool = False,
        once: Once | None = None,
    ) -> MovedReference:
        """Makes a move that is no commit, by compare-and-swap; resolves a lost reply.

        What is to be done `once` is made in one life of the reference: if the row or the log knows
        it, that is the answer, as it was then.

        `decide` looks at the live row and says where to, or None if nothing is left to do; it is
        asked again when somebody else was first. What it points at must be stored by then. A dry
        run decides and writes nothing.
        """
        parts = self._parts
        operation = parts.chance.random_bytes(16) if once is None else once.operation
        retry = self._retry()
        while True:
            found = self.find(name)
            if found is None or (once is not None and found.row.incarnation != once.incarnation):
                # Another life, or none: what it was to do is done, or can be done no more.
                gone = None if once is None else self.find_done(name, once.operation)
                if gone is None:
                    raise _missing(name)
                return gone
            row = found.row
            done = None if once is None else self._move_of(row, once.operation)
            if done is not None:
                return MovedReference(left_by(row, row.incarnation, done), done)
            wanted = decide(row)
            if wanted is None:
                return MovedReference(row, None)
            move = Move(
                row.version + 1,
                row.pointer,
                wanted.pointer,
                wanted.kind,
                who,
                parts.clock.now_us(),
                operation,
                wanted.source,
                wanted.base,
                row.moves[-1].version if row.moves else 0,
            )
            target = moved(row, move, deleted=wanted.kind == "delete")
            if dry_run:
                return MovedReference(target, move)
            if len(row.moves) == MOVES_MAX:
                self._copy(row, row.moves[:1])
            if self._write(target, found):
                return MovedReference(target, move)
            retry.again(at_once=retry.attempts == 1)

    def _move_of(self, row: ReferenceRow, operation: bytes) -> Move | None:
        """Returns the move that an operation has made, in this life of the reference."""
        moves = [*row.moves]
        if len(moves) == MOVES_MAX:
            moves += self._parts.moves.fetch_after(row.name, row.incarnation, 0)
        return next((move for move in moves if move.operation == operation), None)

    def _write(self, row: ReferenceRow, expected: StampedRow | None) -> bool:
        """Swaps a row; after a lost reply sends the same again, then looks for its operation."""
        references = self._parts.references
        retry = self._retry()
        unsure = False
        while True:
            try:
                outcome = references.update(row, expected)
                if isinstance(outcome, Won):
                    return True
                return unsure and self._took_effect(row)
            except Unknown:
                unsure = True
            except Unavailable:
                # Without effect, but an earlier one may have had one.
                if not unsure:
                    raise
            _again_or_unknown(retry)

    def _copy(self, row: ReferenceRow, moves: Sequence[Move]) -> None:
        """Copies moves that are about to leave a row; a lost reply is answered by sending again."""
        retry = self._retry()
        while True:
            try:
                return self._parts.moves.copy(row, moves)
            except Unknown:
                retry.again()

    def _took_effect(self, row: ReferenceRow) -> bool:
        """Tells whether a write that is not in place any more had been there."""
        found = self._parts.references.fetch(RefName(row.name))
        if found is None:
            return False
        if found.row.operation == row.operation:
            return True
        known = found.row.moves if found.row.incarnation == row.incarnation else ()
        log = self._parts.moves.fetch_after(row.name, row.incarnation, row.version - 1)
        return any(move.operation == row.operation for move in (*known, *log))

    def _finish_create(self, name: RefName, element: ReferenceElement) -> ReferenceRow:
        """Step 2 of create, by the creator or by whoever comes next."""
        parts = self._parts
        first = Move(
            _FIRST_VERSION,
            b"",
            element.pointer,
            "create",
            element.who,
            element.created_us,
            element.operation,
        )
        row = ReferenceRow(
            1,
            name,
            element.kind,
            element.pointer,
            _FIRST_VERSION,
            element.incarnation,
            element.operation,
            element.created_us,
            expires_us=element.expires_us,
            moves=(first,),
        )
        # Nearly always there is nothing yet: hope so before looking.
        if self._write(row, None):
            return row
        retry = self._retry()
        while True:
            found = parts.references.fetch(name)
            if found is not None and found.row.incarnation >= element.incarnation:
                return row
            if found is not None:
                if not found.row.deleted:
                    raise Corrupt(f"{name!r} is live in two incarnations")
                # The tombstone gives way; what it remembers must be in the log before.
                self._copy(found.row, found.row.moves)
            if self._write(row, found):
                return row
            retry.again(at_once=True)

    def _finish_delete(self, name: RefName, incarnation: int) -> None:
        """Step 2 of delete, by the deleter or by whoever comes next."""
        self._publish(_RemoveName(self._parts, name, incarnation))

    def _publish(self, member: _RemoveName) -> None:
        (settled,) = self._publisher.publish([member])
        if isinstance(settled, LochanError):
            raise settled
        if not isinstance(settled, Published):
            raise Corrupt("a publisher answers every member")

    def _head(self) -> CommitView:
        found = self._parts.references.fetch(REFS_NAME)
        if found is None:
            raise Corrupt("the index of references has lost its row")
        return self._parts.views.load(ObjId(found.row.pointer))

    def _element(self, name: RefName) -> ReferenceElement | None:
        return self._listed([name]).get(name)

    def _listed(self, names: Sequence[RefName]) -> dict[RefName, ReferenceElement]:
        """Returns those of the names that the index lists."""
        by_key = {bytes(file_key(name)): name for name in names}
        keys = sorted(by_key)
        elements = find_many(self._parts.nodes, self._head().files, keys)
        return {
            by_key[key]: decode_reference_element(element)
            for key, element in zip(keys, elements, strict=True)
            if element is not None
        }

    def _retry(self) -> Retry:
        return self._parts.retry_steps()


class AddNames:
    """Adds names to the index; each gets the sequence of the commit as its incarnation."""

    incarnation = None

    def __init__(
        self,
        parts: Parts,
        wanted: Sequence[NewReference],
        who: str,
        operation: bytes | None = None,
    ) -> None:
        self._wanted = wanted
        self._claimed = operation is not None
        self.names = [new.name for new in wanted]
        self._who = who
        self._operation = operation or parts.chance.random_bytes(16)
        self._now_us = parts.clock.now_us()
        self.elements: dict[RefName, ReferenceElement] = {}

    def has_made(self, element: ReferenceElement) -> bool:
        """Tells whether a listed name was added by an earlier try of the same operation."""
        return self._claimed and element.operation == self._operation

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans one commit with all names; each expects that it is not listed."""
        self.elements = {
            new.name: ReferenceElement(
                new.kind,
                new.pointer,
                head.view.sequence + 1,
                self._now_us,
                self._operation,
                self._who,
                new.expires_us,
            )
            for new in self._wanted
        }
        operations = [
            Operation(file_key(name), encode_reference_element(element), None)
            for name, element in self.elements.items()
        ]
        hidden = (("operation", (self._operation.hex(),)),)
        return [CommitPlan(operations, "create references", hidden=hidden)]


class _RemoveName:
    """Removes a name from the index if it is still of the same incarnation."""

    incarnation = None

    def __init__(self, parts: Parts, name: RefName, incarnation: int) -> None:
        self._name = name
        self._wanted = incarnation
        self._operation = parts.chance.random_bytes(16)

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the removal; nothing if somebody else has finished it."""
        key = file_key(self._name)
        found = head.find([key])[key]
        if found is None or decode_reference_element(found).incarnation != self._wanted:
            return []
        hidden = (("operation", (self._operation.hex(),)),)
        return [CommitPlan([Operation(key, None, found)], "delete reference", hidden=hidden)]


def _missing(name: RefName) -> ReferenceNotFound:
    return ReferenceNotFound(f"Named reference '{name}' not found")


def _elsewhere(row: ReferenceRow, expected: ObjId, pointer: ObjId, kind: str) -> Destination:
    if row.pointer != expected:
        raise HeadConflict(f"{row.name!r} points at {row.pointer.hex()}, not at {expected.hex()}")
    return Destination(pointer, kind)


@contextmanager
def _decided(step: str) -> Iterator[None]:
    """Keeps the second half of a step from ending in an error that says "without effect"."""
    try:
        yield
    except (Exhausted, Unavailable) as error:
        raise Unknown(
            f"the {step} is decided but not finished ({error.message})",
            public=f"the {step} is decided but not finished; send it again or read the reference",
        ) from error


def _again_or_unknown(retry: Retry) -> None:
    try:
        retry.again()
    except Exhausted as error:
        raise Unknown(
            f"it is unknown whether the reference was changed ({error.message}); read it again",
            public="it is unknown whether the reference was changed; read it again",
        ) from None
