"""Publishing a chain of commits on one branch by one compare-and-swap.

The steps of one attempt, and what a crash after each leaves:

1. take the row, from memory if allowed; load its head;
2. let every member plan on the head of the chain so far; one that is refused leaves the chain, and
   the next one's parent is the one before it;
3. `apply` all objects and the new row, on condition that the row is still the one of step 1.
   (A crash before leaves nothing; after, the commits stand.)
4. won: everything planned is published, and every refusal was computed on the true head;
   lost: read the row again and start over, members keep their operation ids and stored values;
   unknown: **send the same conditional write again**. If that wins, it is published now, and the
   first one, should it still be on its way, can only lose. If it loses, the row has moved on:
   **walk** from the present head and from the old pointer of every later move down to the chain's
   own generation. Found: the first one had won. Else both lost.

A refusal computed on a row from memory counts only when the swap of the same chain wins, or when a
fresh read shows the same stamp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol

import msgspec

from lochan.base.errors import (
    Conflict,
    Corrupt,
    Invalid,
    LochanError,
    NotABranch,
    NotFound,
    ReferenceNotFound,
    Unavailable,
    Unknown,
)
from lochan.base.ids import ObjId
from lochan.base.limits import CHAIN_BYTES_MAX
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Builder, Built, Head
from lochan.kernel.foresight import read_ahead
from lochan.kernel.history import contains
from lochan.kernel.moves import advanced
from lochan.kernel.parts import Parts
from lochan.kernel.plan import CommitPlan
from lochan.kernel.recent import Recent
from lochan.kernel.retry import Retry
from lochan.kernel.views import CommitView
from lochan.kv.store import Adds, Hold, Outcome, SetIf, Won
from lochan.persist.references import StampedRow, read_row


class Member(Protocol):
    """One who waits to commit: plans anew on whatever the head has become."""

    @property
    def incarnation(self) -> int | None:
        """The life of the branch that is meant, None for whichever is there."""
        ...

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Returns the commits to be made on this head, none if nothing is left to do."""
        ...


class Published(msgspec.Struct, frozen=True):
    """A member's commits, published; empty if it had nothing to do on this head."""

    head: CommitView
    commits: tuple[CommitView, ...]


Settled = Published | LochanError

Apply = Callable[[Adds, SetIf], Outcome]

Join = Callable[[], Sequence[Member]]
"""Returns those who came since a batch was taken; they belong to it from then on."""

Find = Callable[[RefName], StampedRow | None]
"""How a row is read: as it is, or by `Names.find`, which finishes what was left half done."""

_CAUTIOUS_ROUNDS = 8


def _nobody() -> Sequence[Member]:
    return ()


# What a member may be refused for; anything else is the trouble of the whole chain.
_REFUSALS = (Conflict, Invalid, NotFound)


class _Chain(msgspec.Struct):
    """Members planned on one row: what each got, and what has to be written."""

    row: StampedRow
    settled: list[Settled]
    built: list[Built]

    @property
    def head(self) -> CommitView | None:
        return self.built[-1].view if self.built else None


class Begun(msgspec.Struct, frozen=True):
    """A chain that is planned, and what its write consists of."""

    chain: _Chain
    row: ReferenceRow
    objects: list[tuple[ObjId, bytes]]
    condition: SetIf


class Publisher:
    """Publishes the chains of one branch; remembers its row between calls.

    Optimistic while alone: the row comes from memory. Once a swap was lost to another server, rows
    are held (locked where the store can) before planning, which makes turns fair and a second loss
    impossible; after eight undisturbed rounds it is optimistic again. The condition stays in every
    write: a hold is for fairness, never for correctness.
    """

    def __init__(self, parts: Parts, name: RefName, find: Find | None = None) -> None:
        self._parts = parts
        self._name = name
        self._find = find or parts.references.fetch
        self._known: StampedRow | None = None
        self._recent: Recent | None = None
        self._cautious_rounds = 0

    @property
    def parts(self) -> Parts:
        """The repository that the branch belongs to."""
        return self._parts

    def publish(self, members: Sequence[Member], join: Join = _nobody) -> list[Settled]:
        """Publishes what can be published of the members; answers each.

        A row that is held may have been waited for. Those who came meanwhile are asked to `join`
        then, and are answered after the others.
        """
        members = list(members)
        retry = self._parts.retry()
        while True:
            if self._cautious_rounds:
                settled = self._publish_held(members, join)
            else:
                settled = self._publish_hoping(members)
            if settled is not None:
                return settled
            retry.again(at_once=retry.attempts == 1)

    def begin(self, members: Sequence[Member]) -> Begun | None:
        """Plans members for a write together with other branches; None if they go alone.

        Alone goes who is not undisturbed, has nothing to write, or too much.
        """
        known = self._known
        if known is None or self._cautious_rounds:
            return None
        chain = self._plan(known, members, self._recent)
        if not chain.built:
            return None
        row, objects, condition = self._write_of(chain)
        if sum(len(raw) for _, raw in objects) > CHAIN_BYTES_MAX // 4:
            return None
        return Begun(chain, row, objects, condition)

    def end(self, begun: Begun, outcome: Outcome | None) -> list[Settled] | None:
        """Settles what was begun by the outcome of its write, None if that is unknown.

        Returns None if the members must be published anew.
        """
        if self._ended(begun, outcome):
            return begun.chain.settled
        self._lose()
        return None

    def preview(self, members: Sequence[Member]) -> list[Settled]:
        """Answers as `publish` would, and writes nothing: a dry run."""
        # It may run beside a publish, so it must not touch what that one remembers.
        return self._plan(self._fetch(), members, None).settled

    def _publish_hoping(self, members: Sequence[Member]) -> list[Settled] | None:
        """One attempt on the row as it is remembered; None if it must be tried again."""
        # Read once: the index of names has one publisher for all threads.
        known = self._known
        row = self._fetch() if known is None else known
        chain = self._plan(row, members, self._recent)
        if not chain.built:
            return chain.settled if known is None or self._is_current(row) else None
        if self._swap(chain, self._parts.store.apply):
            return chain.settled
        self._lose()
        return None

    def _lose(self) -> None:
        self._known = None
        if self._parts.store.capabilities.row_locks:
            self._cautious_rounds = _CAUTIOUS_ROUNDS

    def _publish_held(self, members: list[Member], join: Join) -> list[Settled] | None:
        """One attempt on a row that is held meanwhile; where it cannot be held, one that hopes."""
        try:
            hold = self._parts.references.hold(self._name)
        except Unavailable:
            self._known = None
            return self._publish_hoping(members)
        with closing(_Held(hold)) as held:
            members += join()
            row = held.row
            if row is None or row.row.deleted:
                # Half created or half deleted, perhaps: finish it, then hold what is there.
                self._check_live(self._find(self._name))
                return None
            check_takes_commits(row.row)
            undisturbed = self._known is not None and self._known.stamp == row.stamp
            self._cautious_rounds = self._cautious_rounds - 1 if undisturbed else _CAUTIOUS_ROUNDS
            chain = self._plan(row, members, self._recent)
            self._known = row
            if not chain.built or self._swap(chain, held.apply):
                return chain.settled
            self._known = None
            return None

    def _fetch(self) -> StampedRow:
        return self._check_live(self._find(self._name))

    def _check_live(self, found: StampedRow | None) -> StampedRow:
        if found is None or found.row.deleted:
            raise ReferenceNotFound(f"Named reference '{self._name}' not found")
        check_takes_commits(found.row)
        return found

    def _is_current(self, row: StampedRow) -> bool:
        current = self._fetch().stamp == row.stamp
        if not current:
            # The next attempt reads for itself: a refusal must end even while others go on.
            self._known = None
        return current

    def _plan(self, row: StampedRow, members: Sequence[Member], recent: Recent | None) -> _Chain:
        """Step 2."""
        parts = self._parts
        head = parts.views.load(ObjId(row.row.pointer))
        if recent is not None and recent.head != head.obj_id:
            recent = None
        builder = Builder(parts.views, parts.nodes, parts.rule, parts.clock, head, recent)
        if len(members) > 1 and row is not self._known:
            read_ahead(parts.nodes, head, members)
        chain = _Chain(row, [], [])
        for member in members:
            try:
                check_incarnation(member, row.row)
                made: list[Built] = []
                top = head
                for plan in member.plan(Head(head, builder, row.row)):
                    made.append(builder.build(top, plan))
                    top = made[-1].view
            except _REFUSALS as refusal:
                chain.settled.append(refusal)
                continue
            chain.settled.append(Published(top, tuple(built.view for built in made)))
            chain.built += made
            head = top
        return chain

    def _swap(self, chain: _Chain, apply: Apply) -> bool:
        """Steps 3 and 4; tells whether the chain is published."""
        row, objects, condition = self._write_of(chain)
        outcome: Outcome | None
        try:
            outcome = self._apply(objects, condition, apply)
        except Unavailable:
            return False
        except Unknown:
            outcome = None
        return self._ended(Begun(chain, row, objects, condition), outcome)

    def _write_of(self, chain: _Chain) -> tuple[ReferenceRow, list[tuple[ObjId, bytes]], SetIf]:
        """Returns what step 3 writes: the row to come, the objects, the condition."""
        parts = self._parts
        head = chain.built[-1].view
        operation = parts.chance.random_bytes(16)
        row = advanced(chain.row.row, head.obj_id, operation, parts.clock.now_us())
        objects = [item for built in chain.built for item in built.objects()]
        return row, objects, parts.references.condition(row, chain.row)

    def _ended(self, begun: Begun, outcome: Outcome | None) -> bool:
        """Step 4; tells whether the chain is published. An outcome of None is unknown."""
        if outcome is None:
            outcome = self._resolve(begun.chain, begun.objects, begun.condition)
            if outcome is None:
                # Published, but by which stamp nobody said, and others may have written since.
                self._known = None
                self._remember(begun.chain)
                return True
        if not isinstance(outcome, Won):
            return False
        self._known = StampedRow(begun.row, outcome.stamp)
        self._remember(begun.chain)
        return True

    def _remember(self, chain: _Chain) -> None:
        """Keeps what was published at hand for the next chain."""
        recent = self._recent
        for built in chain.built:
            self._parts.views.remember(built.view)
            self._parts.nodes.remember(built.nodes)
            if recent is None:
                recent = Recent(built.view)
            elif built.view.obj_id != recent.head:
                recent.add(built.view)
        self._recent = recent

    def _apply(self, objects: list[tuple[ObjId, bytes]], condition: SetIf, apply: Apply) -> Outcome:
        parts = self._parts
        items_max = parts.store.capabilities.batch_items_max
        if len(objects) > items_max or sum(len(raw) for _, raw in objects) > CHAIN_BYTES_MAX:
            # Too much for one statement: objects first, they are harmless without the row.
            parts.objects.store_many(objects)
            objects = []
        return apply(parts.objects.adds(objects), condition)

    def _resolve(
        self, chain: _Chain, objects: list[tuple[ObjId, bytes]], condition: SetIf
    ) -> Outcome | None:
        """Finds out what became of a write whose reply was lost; None if it had won before."""
        retry = self._parts.retry()
        while True:
            try:
                outcome = self._apply(objects, condition, self._parts.store.apply)
                if isinstance(outcome, Won):
                    return outcome
                return None if self._was_published(chain) else outcome
            except (Unavailable, Unknown):
                # A walk that cannot read does not know either.
                self._again_or_unknown(retry)

    def _again_or_unknown(self, retry: Retry) -> None:
        try:
            retry.again()
        except LochanError as error:
            raise Unknown(
                f"it is unknown whether the commit took effect ({error.message}); read the branch",
                public="it is unknown whether the commit took effect; read the branch",
            ) from None

    def _was_published(self, chain: _Chain) -> bool:
        """Walks from everywhere the branch has been since."""
        parts = self._parts
        wanted = chain.built[-1].view
        before = chain.row.row
        heads: list[ObjId] = []
        found = parts.references.fetch(self._name)
        if found is not None:
            moves = found.row.moves if found.row.incarnation == before.incarnation else ()
            heads = [ObjId(found.row.pointer)]
            heads += [ObjId(move.old) for move in moves if move.version > before.version]
        log = parts.moves.fetch_after(before.name, before.incarnation, before.version)
        heads += [ObjId(move.old) for move in log]
        return any(
            contains(parts.views, parts.views.load(head), wanted.obj_id, wanted.generation)
            for head in dict.fromkeys(heads)
        )


class _Held:
    """A held row; given up when it is closed, whatever happened."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self.row = read_row(hold.entry)
        self.apply: Apply = hold.apply

    def close(self) -> None:
        self._hold.release()


def head_at(parts: Parts, name: RefName, view: CommitView) -> Head:
    """Returns any commit as a head to plan on; what is planned there is for nobody to publish."""
    builder = Builder(parts.views, parts.nodes, parts.rule, parts.clock, view)
    return Head(view, builder, ReferenceRow(1, name, "BRANCH", view.obj_id, 0, 0, b"", 0))


def check_takes_commits(row: ReferenceRow) -> None:
    """Refuses tags, before what they point at is taken for a commit."""
    if row.kind not in ("BRANCH", "INTERNAL"):
        raise NotABranch(f"{row.name!r} is not a branch; commits go to branches")


def check_incarnation(member: Member, row: ReferenceRow) -> None:
    """Refuses a member that means an earlier life of the branch."""
    check_takes_commits(row)
    if member.incarnation is not None and member.incarnation != row.incarnation:
        raise ReferenceNotFound(f"the branch {row.name!r} was deleted and created again")
    if row.deleted:
        raise Corrupt("a deleted row was planned on")
