"""Publishing a chain of commits on one branch by one compare-and-swap.

The steps of one attempt, and what a crash after each leaves:

1. take the row, from memory if allowed; load its head;
2. every proposal plans on the head of the chain so far; one that is refused leaves the chain, and
   the next one's parent is the one before it;
3. `apply` all objects and the new row, on condition that the row is still the one of step 1.
   Sealed tokens whose files the commits contain leave the row by the same write.
   (A crash before leaves nothing; after, the commits stand.)
4. won: everything planned is published, and every refusal was computed on the true head;
   lost: read the row again and start over, proposals keep their operation ids and stored values;
   unknown: **send the same conditional write again**. If that wins, it is published now, and the
   first one, should it still be on its way, can only lose. If it loses, the row has moved on:
   **walk** from the present head and from the old pointer of every later move down to the chain's
   own generation. Found: the first one had won. Else both lost.

A refusal computed on a row from memory counts only when the swap of the same chain wins, or when a
fresh read shows the same stamp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from lochan.base.errors import (
    Conflict,
    Corrupt,
    Denied,
    Invalid,
    LochanError,
    NotABranch,
    NotFound,
    ReferenceNotFound,
    Unavailable,
    Unknown,
)
from lochan.base.ids import ObjId
from lochan.base.limits.commits import CHAIN_BYTES_MAX, VALUES_KEPT_MAX
from lochan.base.names import INTERNAL_PREFIX, RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Builder, Built, Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import contains
from lochan.kernel.moves import advanced, rewritten, without_tokens
from lochan.kernel.plan import CommitPlan, OutdatedRow, Plan
from lochan.kernel.prefetch import read_ahead
from lochan.kernel.reach import LineReach
from lochan.kernel.recent import Recent
from lochan.kernel.settled import SettledCommits, is_observed, observed
from lochan.kernel.views import CommitView
from lochan.kv.store import Adds, Lost, Outcome, SetIf, Won
from lochan.persist.references import StampedRow
from lochan.persist.rows import Done, Doubt, Stamped, send_until_known


class Proposal(Protocol):
    """A pending commit; it is planned again on each head that it meets."""

    @property
    def incarnation(self) -> int | None:
        """The incarnation of the branch that is meant, None for the present one."""
        ...

    def plan(self, head: Head) -> Sequence[Plan]:
        """Returns the commits to be made on this head, none if nothing is left to do.

        Raises OutdatedRow if the head's row, which may come from memory, is older than one that the
        proposal was prepared with.
        """
        ...


class Published(msgspec.Struct, frozen=True):
    """A proposal's commits, published; empty if it had nothing to do on this head."""

    head: CommitView
    commits: tuple[CommitView, ...]


Settled = Published | LochanError

Apply = Callable[[Adds, SetIf], Outcome]

Join = Callable[[], Sequence[Proposal]]
"""Returns the proposals that arrived since a batch was taken; they join that batch."""

Find = Callable[[RefName], StampedRow | None]
"""Reads a row: as it is, or by `ReferenceIndex.find`, which finishes what was left half done."""

_CAUTIOUS_ROUNDS = 8
_COMMITTED: Final = Doubt("the commit took effect", "read the branch")


# Errors that refuse one proposal; any other error fails the whole chain.
REFUSALS: Final = (Conflict, Denied, Invalid, NotFound)


class _Chain(msgspec.Struct):
    """Proposals planned on one row: the result of each, and what has to be written."""

    row: StampedRow
    settled: list[Settled]
    built: list[Built]
    after: ReferenceRow
    """The row without the sealed tokens that the proposals have taken."""
    reach: LineReach | None

    @property
    def writes(self) -> bool:
        """Whether there is something to be written."""
        return bool(self.built) or self.after is not self.row.row


class Begun(msgspec.Struct, frozen=True):
    """A chain that is planned, and what its write consists of."""

    chain: _Chain
    row: ReferenceRow
    objects: list[tuple[ObjId, bytes]]
    condition: SetIf


class Publisher:
    """Publishes the chains of one branch; remembers its row between calls.

    Optimistic at first: the row comes from memory. Once a swap was lost to another server, rows are
    held (locked where the store can) before planning, which makes turns fair and a second loss
    impossible; after eight rounds without another writer it is optimistic again. The condition
    stays in every write: a hold is for fairness, never for correctness.
    """

    def __init__(self, context: RepositoryContext, name: RefName, find: Find | None = None) -> None:
        self.context = context
        self._name = name
        self._is_internal = name.startswith(INTERNAL_PREFIX)
        self._find = find or context.references.fetch
        self._known: StampedRow | None = None
        self._recent: Recent | None = None
        self._reach: LineReach | None = None
        self._cautious_rounds = 0

    def publish(self, proposals: Sequence[Proposal], join: Join = lambda: ()) -> list[Settled]:
        """Publishes the proposals that are not refused; returns a result for each.

        It may have to wait for a row that it holds. Proposals that arrived meanwhile `join` the
        chain then; their results come after the others.
        """
        if self.context.observer is not None:
            with observed(self.context, [self._name]):
                return self._publish(proposals, join)
        return self._publish(proposals, join)

    def _publish(self, proposals: Sequence[Proposal], join: Join) -> list[Settled]:
        proposals = list(proposals)
        retry = self.context.retry()
        while True:
            if self._cautious_rounds:
                settled = self._publish_held(proposals, join)
            else:
                settled = self._publish_optimistically(proposals)
            if settled is not None:
                return settled
            retry.again(at_once=retry.attempts == 1)

    def begin(self, proposals: Sequence[Proposal]) -> Begun | None:
        """Plans proposals for a write together with other branches; None if that is not possible.

        A branch is published on its own if its row is not in memory or another server has changed
        it lately, if it has nothing to write, or if its write is too large.
        """
        known = self._known
        if known is None or self._cautious_rounds:
            return None
        try:
            chain = self._plan(known, proposals, self._recent, self._take_reach())
        except OutdatedRow:
            self._known = None
            return None
        if not chain.built:
            return None
        begun = self._write_of(chain)
        can = self.context.store.capabilities
        bytes_max = min(CHAIN_BYTES_MAX // 4, can.apply_bytes_max)
        if len(begun.objects) > can.apply_items_max or _size_of(begun.objects) > bytes_max:
            return None
        return begun

    def end(self, begun: Begun, outcome: Outcome | None) -> list[Settled] | None:
        """Settles a chain by the outcome of its write; None is an unknown outcome.

        Returns None if the proposals must be published anew.
        """
        if self._ended(begun, outcome):
            return begun.chain.settled
        self._lose()
        return None

    @property
    def name(self) -> RefName:
        """The branch."""
        return self._name

    def preview(self, proposals: Sequence[Proposal]) -> list[Settled]:
        """Returns what `publish` would return, and writes nothing: a dry run."""
        # A publish may run at the same time, so its remembered row must not be touched.
        return self._plan(self.fetch(), proposals, None, None).settled

    def _publish_optimistically(self, proposals: Sequence[Proposal]) -> list[Settled] | None:
        """One attempt on the row as it is remembered; None if it must be tried again."""
        # Read once: the index of names has one publisher for all threads.
        known = self._known
        row = self.fetch() if known is None else known
        try:
            chain = self._plan(row, proposals, self._recent, self._take_reach())
        except OutdatedRow:
            self._known = None
            return None
        if not chain.writes:
            return chain.settled if known is None or self._is_current(row) else None
        if self._swap(chain, self.context.store.apply):
            return chain.settled
        self._lose()
        return None

    def _lose(self) -> None:
        self._known = None
        if self.context.store.capabilities.row_locks:
            self._cautious_rounds = _CAUTIOUS_ROUNDS

    def _publish_held(self, proposals: list[Proposal], join: Join) -> list[Settled] | None:
        """One attempt on a row that is held meanwhile; if it cannot be held, an optimistic one."""
        references = self.context.references
        try:
            hold = references.hold(self._name)
        except Unavailable:
            self._known = None
            return self._publish_optimistically(proposals)
        try:
            row = None if hold.entry is None else references.read(hold.entry)
            proposals += join()
            if row is None or row.row.deleted:
                # Half created or half deleted, perhaps: finish it, then hold what is there.
                self.fetch()
                return None
            check_takes_commits(row.row)
            undisturbed = self._known is not None and self._known.stamp == row.stamp
            self._cautious_rounds = self._cautious_rounds - 1 if undisturbed else _CAUTIOUS_ROUNDS
            chain = self._plan(row, proposals, self._recent, self._take_reach())
            self._known = row
            if not chain.writes or self._swap(chain, hold.apply):
                return chain.settled
            self._known = None
            return None
        finally:
            hold.release()

    def fetch(self) -> StampedRow:
        """Reads the row of the branch; raises if it is gone, or takes no commits."""
        found = self._find(self._name)
        if found is None or found.row.deleted:
            raise ReferenceNotFound(f"Named reference '{self._name}' not found")
        check_takes_commits(found.row)
        return found

    def check_incarnation(self, proposal: Proposal, row: ReferenceRow) -> None:
        """Refuses a proposal that is meant for another incarnation of the branch."""
        if proposal.incarnation not in (None, row.incarnation):
            raise ReferenceNotFound(f"the branch {self._name!r} was deleted and created again")

    def _is_current(self, row: StampedRow) -> bool:
        current = self.fetch().stamp == row.stamp
        if not current:
            # The next attempt reads the row: a refusal must be final although others keep writing.
            self._known = None
        return current

    def _plan(
        self,
        row: StampedRow,
        proposals: Sequence[Proposal],
        recent: Recent | None,
        reach: LineReach | None,
    ) -> _Chain:
        """Step 2."""
        context = self.context
        if row.row.deleted:
            raise Corrupt("a deleted row was planned on")
        head = context.views.load(ObjId(row.row.pointer))
        if recent is not None and recent.head != head.obj_id:
            recent = None
        builder = Builder(
            context.views, context.nodes, context.rule, context.clock, head, recent, reach=reach
        )
        if len(proposals) > 1 and row is not self._known:
            read_ahead(context.nodes, head, proposals)
        chain = _Chain(row, [], [], row.row, reach)
        for proposal in proposals:
            try:
                self.check_incarnation(proposal, row.row)
                made: list[Built] = []
                top, after = head, chain.after
                for plan in proposal.plan(Head(head, builder, after, context.staged)):
                    after = without_tokens(after, plan.taken)
                    if isinstance(plan, CommitPlan):
                        built = builder.build(top, plan)
                        made.append(built)
                        top = built.view
            except REFUSALS as refusal:
                chain.settled.append(refusal)
                continue
            chain.settled.append(Published(top, tuple([built.view for built in made])))
            chain.built += made
            chain.after = after
            head = top
        if not chain.built and reach is not None:
            self._reach = reach
        return chain

    def _take_reach(self) -> LineReach:
        """Returns what is remembered of merges, which is kept only if the chain is published.

        It gets to know the commits of the chain, and nothing can be read of those if they are not.
        """
        reach, self._reach = self._reach, None
        return reach or LineReach()

    def _swap(self, chain: _Chain, apply: Apply) -> bool:
        """Steps 3 and 4; returns whether the chain is published."""
        begun = self._write_of(chain)
        outcome: Outcome | None
        try:
            outcome = self._apply(begun.objects, begun.condition, apply)
        except Unavailable:
            return False
        except Unknown:
            outcome = None
        return self._ended(begun, outcome)

    def _write_of(self, chain: _Chain) -> Begun:
        """Returns what step 3 writes: the row to come, the objects, the condition."""
        context = self.context
        operation = context.random.random_bytes(16)
        if chain.built:
            head = chain.built[-1].view
            row = advanced(chain.after, head.obj_id, operation, context.clock.now_us())
        else:
            row = rewritten(chain.after, operation)
        objects = [item for built in chain.built for item in built.objects()]
        return Begun(chain, row, objects, context.references.condition(row, chain.row))

    def _ended(self, begun: Begun, outcome: Outcome | None) -> bool:
        """Step 4; returns whether the chain is published. An outcome of None is unknown."""
        settled = self._resolve(begun) if outcome is None else outcome
        if isinstance(settled, Lost):
            return False
        # If the first write had won, its stamp is not known, and others may have written since.
        self._known = Stamped(begun.row, settled.stamp) if isinstance(settled, Won) else None
        self._remember(begun.chain)
        if self.context.observer is not None:
            self._report(begun)
        return True

    def _report(self, begun: Begun) -> None:
        """Reports the commits of a chain that is published."""
        observer, chain = self.context.observer, begun.chain
        if observer is not None and chain.built and is_observed(begun.row):
            self._keep_values(chain)
            groups = [each.commits for each in chain.settled if isinstance(each, Published)]
            made = tuple([commits for commits in groups if commits])
            observer.settle(self.context, SettledCommits(chain.row.row, begun.row, made))

    def _keep_values(self, chain: _Chain) -> None:
        """Keeps the values of small commits in memory: events show them soon."""
        for built in chain.built:
            if len(built.values) <= VALUES_KEPT_MAX:
                for obj_id, raw in built.values:
                    self.context.values.keep(obj_id, raw)

    def _remember(self, chain: _Chain) -> None:
        """Keeps in memory what was published, for the next chain."""
        recent = self._recent
        for built in chain.built:
            if not self._is_internal:
                self.context.key_packs.note(built.view)
            self.context.views.remember(built.view)
            self.context.nodes.remember(built.nodes)
            if recent is None:
                recent = Recent(built.view)
            elif built.view.obj_id != recent.head:
                recent.add(built.view)
        self._recent, self._reach = recent, chain.reach

    def _apply(self, objects: list[tuple[ObjId, bytes]], condition: SetIf, apply: Apply) -> Outcome:
        context = self.context
        can = context.store.capabilities
        bytes_max = min(CHAIN_BYTES_MAX, can.apply_bytes_max)
        if len(objects) > can.apply_items_max or _size_of(objects) > bytes_max:
            # Too much for one statement: objects first, they are harmless without the row.
            context.objects.store_many(objects)
            objects = []
        return apply(context.objects.adds(objects), condition)

    def _resolve(self, begun: Begun) -> Won | Lost | Done[None]:
        """Finds out what became of a write whose reply was lost; Done if it had won before."""
        store = self.context.store
        return send_until_known(
            lambda: self._apply(begun.objects, begun.condition, store.apply),
            lambda: Done(None) if self._was_published(begun.chain) else None,
            self.context.retry(),
            _COMMITTED,
            in_doubt=True,
        )

    def _was_published(self, chain: _Chain) -> bool:
        """Walks from the present head and from every head that the branch was moved away from."""
        context = self.context
        before = chain.row.row
        heads: list[ObjId] = []
        found = context.references.fetch(self._name)
        if not chain.built:
            return found is None or _has_lost_tokens(found.row, chain)
        wanted = chain.built[-1].view
        if found is not None:
            moves = found.row.moves if found.row.incarnation == before.incarnation else ()
            heads = [ObjId(found.row.pointer)]
            heads += [ObjId(move.old) for move in moves if move.version > before.version]
        log = context.moves.fetch_after(before.name, before.incarnation, before.version)
        heads += [ObjId(move.old) for move in log]
        return any(
            contains(context.views, context.views.load(head), wanted.obj_id, wanted.generation)
            for head in dict.fromkeys(heads)
        )


def _has_lost_tokens(row: ReferenceRow, chain: _Chain) -> bool:
    """Returns whether the tokens that a chain without commits takes have left the row."""
    before = chain.row.row
    taken = set(before.sealed_tokens).difference(chain.after.sealed_tokens)
    return row.incarnation != before.incarnation or taken.isdisjoint(row.sealed_tokens)


def _size_of(objects: Sequence[tuple[ObjId, bytes]]) -> int:
    return sum([len(raw) for _, raw in objects])


def head_at(context: RepositoryContext, name: RefName, view: CommitView) -> Head:
    """Returns any commit as a head to plan on; what is planned there is never published."""
    builder = Builder(context.views, context.nodes, context.rule, context.clock, view)
    return Head(view, builder, ReferenceRow(1, name, "BRANCH", view.obj_id, 0, 0, b"", 0))


def check_takes_commits(row: ReferenceRow) -> None:
    """Refuses tags; what they point at may be no commit."""
    if row.kind not in ("BRANCH", "INTERNAL"):
        raise NotABranch(f"{row.name!r} is not a branch; commits go to branches")
