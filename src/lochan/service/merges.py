"""Use cases of the merge family, and those that move a branch whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import msgspec

from lochan.base.checks import check_stored
from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound, TooLarge
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits import REBASE_COMMITS_MAX
from lochan.catalog.conflicts import merge_conflict
from lochan.catalog.merge import CarryContents, CatalogMerge, Wishes, read_wishes
from lochan.catalog.meta import headers_of
from lochan.catalog.types import ContentTypes
from lochan.kernel.claims import ClaimedMove, Done, Request
from lochan.kernel.context import RepositoryContext
from lochan.kernel.head_moves import HeadMoved, HeadMoves, Source, head_moved
from lochan.kernel.history import is_ancestor
from lochan.kernel.merge import (
    Carried,
    CarryProposal,
    Choices,
    MergeConflict,
    MergeProposal,
    replayed,
    reverted,
    squashed,
    title_of,
)
from lochan.kernel.provenance import Provenance
from lochan.kernel.publish import Published, Settled, head_at
from lochan.kernel.references import MovedReference, ReferenceIndex
from lochan.kernel.views import CommitView
from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.requests import (
    KeyResolution,
    MergeRequest,
    MoveRequest,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.results import ContentConflict, Merged
from lochan.model.specs import ReferenceSpec
from lochan.service.calls import Call, Gate, Right
from lochan.service.claims import Claims
from lochan.service.pending_writes import PendingWrite, answered
from lochan.service.resolve import Resolver

_NO_KEYS: Mapping[ContentKey, KeyResolution] = {}


class _Wanted(msgspec.Struct, frozen=True):
    """What all proposals of the family are told alike."""

    branch: str
    expected: ReferenceSpec | None
    dry_run: bool
    conflicts_as_result: bool


class _Tried(msgspec.Struct, frozen=True):
    """A write of the family: its claim to be, and what an earlier try of it has done."""

    request: Request | None
    earlier: Done | None
    again: Callable[[Done], PendingWrite[Merged]]
    """Prepares the same for what another try turns out to have done."""


class Merges:
    """Merges into the branches of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        names: ReferenceIndex,
        resolver: Resolver,
        claims: Claims,
        gate: Gate,
    ) -> None:
        self._context = context
        self._types = types
        self._resolver = resolver
        self._gate = gate
        self._claims = claims
        self._moves = HeadMoves(context, names)

    def merge(self, call: Call, ask: MergeRequest) -> PendingWrite[Merged]:
        """Prepares a merge; everything the source has since the merge base, or nothing."""
        return self._attempt(call, ask, ask.source.name or "", partial(self._merge, call, ask))

    def _merge(self, call: Call, ask: MergeRequest, tried: _Tried) -> PendingWrite[Merged]:
        earlier = tried.earlier
        source = self._source(ask.source) if earlier is None else self._merged_by(earlier)
        shown = ask.source.name or source.obj_id.hex()
        meta = ask.meta or CommitMeta(message="")
        message = meta.message or f"Merged {shown} at {source.obj_id.hex()} into {ask.branch}"
        wishes = read_wishes(self._context, self._types, ask.default, ask.keys)

        def make(choices: Choices) -> MergeProposal:
            return MergeProposal(
                self._context,
                source,
                message,
                choices,
                replay=not ask.squash,
                headers=headers_of(meta, call.who),
            )

        wanted = _Wanted(ask.branch, ask.expected, ask.dry_run, ask.conflicts_as_result)
        said = self._said(call, "merge", shown)
        return self._on_lane(call, wanted, make, wishes, said, tried, source.obj_id)

    def transplant(self, call: Call, ask: TransplantRequest) -> PendingWrite[Merged]:
        """Prepares commits that follow each other to be made again, oldest first."""
        return self._attempt(call, ask, ask.source, partial(self._transplant, call, ask))

    def _transplant(
        self, call: Call, ask: TransplantRequest, tried: _Tried
    ) -> PendingWrite[Merged]:
        line = self._line(ask.hashes)
        for earlier, later in pairwise(line):
            if later.parent != earlier.obj_id:
                raise Invalid("Sequence of hashes is not contiguous.")
        if ask.source and tried.earlier is None:
            self._check_reachable(ask.source, line)
        return self._carry(call, ask, line, "transplant", tried)

    def cherry_pick(self, call: Call, ask: TransplantRequest) -> PendingWrite[Merged]:
        """Prepares any commits to be made again, in the order given."""

        def pick(tried: _Tried) -> PendingWrite[Merged]:
            return self._carry(call, ask, self._line(ask.hashes), "cherry-pick", tried)

        return self._attempt(call, ask, ask.source, pick)

    def revert(self, call: Call, ask: RevertRequest) -> PendingWrite[Merged]:
        """Prepares commits that undo others of the branch."""
        return self._attempt(call, ask, "", partial(self._revert, call, ask))

    def _revert(self, call: Call, ask: RevertRequest, tried: _Tried) -> PendingWrite[Merged]:
        line = self._line(ask.hashes)
        carried = []
        for view in line:
            text = f"Revert {view.obj_id.hex()}: {title_of(view)}"
            if ask.meta is not None and ask.meta.message:
                text = ask.meta.message
            one = reverted(self._context, view, text)
            headers = headers_of(ask.meta or CommitMeta(message=""), call.who)
            carried.append(msgspec.structs.replace(one, headers=headers))
        wanted = _Wanted(ask.branch, ask.expected, ask.dry_run, ask.conflicts_as_result)
        wishes = read_wishes(self._context, self._types, "NORMAL", _NO_KEYS)
        said = self._said(call, "revert", ",".join(spec.text() for spec in ask.hashes)[:200])
        return self._on_lane(call, wanted, _carrying(carried, undone=line), wishes, said, tried)

    def rebase(self, call: Call, ask: RebaseRequest) -> Merged:
        """Makes a branch's own commits again on another head and moves the branch there."""
        wishes = read_wishes(self._context, self._types, ask.default, ask.keys)
        if wishes.values:
            raise Invalid("a rebase takes no resolved contents; merge instead")

        def move(expected: CommitView | None, once: ClaimedMove | None) -> HeadMoved:
            return self._moves.rebase(
                self._resolver.name(ask.branch),
                Source(self._source(ask.onto), ask.onto.name or ""),
                call.who,
                choices=wishes.choices,
                expected=None if expected is None else expected.obj_id,
                dry_run=ask.dry_run,
                plan=CarryContents(self._context, self._types),
                once=once,
            )

        return self._moved(call, ask, ask.onto.name or "", move)

    def fast_forward(self, call: Call, ask: MoveRequest) -> Merged:
        """Moves a branch to a commit that has everything of it."""

        def move(expected: CommitView | None, once: ClaimedMove | None) -> HeadMoved:
            return self._moves.fast_forward(
                self._resolver.name(ask.branch),
                Source(self._source(ask.source), ask.source.name or ""),
                call.who,
                expected=None if expected is None else expected.obj_id,
                dry_run=ask.dry_run,
                once=once,
            )

        return self._moved(call, ask, ask.source.name or "", move)

    def force(self, call: Call, ask: MoveRequest) -> Merged:
        """Moves a branch to a commit whatever it has; the old head stays in the ref-log."""

        def move(expected: CommitView | None, once: ClaimedMove | None) -> HeadMoved:
            return self._moves.force(
                self._resolver.name(ask.branch),
                Source(self._source(ask.source), ask.source.name or ""),
                call.who,
                expected=None if expected is None else expected.obj_id,
                dry_run=ask.dry_run,
                once=once,
            )

        return self._moved(call, ask, ask.source.name or "", move)

    def _source(self, spec: ReferenceSpec) -> CommitView:
        """Returns what is to be merged; a hash that was named with a reference is one of its own.

        (The empty commit has nothing that could be merged; to empty a branch, assign it.)
        """
        view = self._resolver.view(spec)
        if view.obj_id == EMPTY_ID:
            raise Invalid("The source of a merge is a commit, not the empty hash.")
        if spec.name is not None and spec.hash is not None:
            self._check_reachable(spec.name, [view])
        return view

    def _line(self, hashes: Sequence[ReferenceSpec]) -> list[CommitView]:
        if not hashes:
            raise Invalid("No hashes given to transplant.")
        if len(hashes) > REBASE_COMMITS_MAX:
            raise TooLarge(f"at most {REBASE_COMMITS_MAX} commits are carried in one call")
        line = [self._resolver.view(one) for one in hashes]
        if any(view.obj_id == EMPTY_ID for view in line):
            raise Invalid("The empty hash is no commit that could be carried or undone.")
        return line

    def _check_reachable(self, name: str, line: Sequence[CommitView]) -> None:
        head = self._resolver.view(ReferenceSpec(name))
        for view in line:
            if not is_ancestor(self._context.views, view, head):
                raise ReferenceNotFound(
                    f"Could not find commit '{view.obj_id.hex()}' in reference '{name}'."
                )

    def _carry(
        self,
        call: Call,
        ask: TransplantRequest,
        line: Sequence[CommitView],
        kind: str,
        tried: _Tried,
    ) -> PendingWrite[Merged]:
        meta = ask.meta or CommitMeta(message="")
        if ask.squash:
            message = meta.message or f"Transplanted {len(line)} commits"
            headers = headers_of(meta, call.who)
            carried = [squashed(self._context, line, message, headers, ())]
        else:
            carried = replayed(self._context, line)
            if meta.message and len(carried) == 1:
                carried = [msgspec.structs.replace(carried[0], message=meta.message)]
        wanted = _Wanted(ask.branch, ask.expected, ask.dry_run, ask.conflicts_as_result)
        wishes = read_wishes(self._context, self._types, ask.default, ask.keys)
        said = self._said(call, kind, ask.source)
        return self._on_lane(call, wanted, _carrying(carried), wishes, said, tried)

    def _said(self, call: Call, kind: str, source: str) -> Provenance:
        operation = self._context.random.random_bytes(16).hex()
        return Provenance(kind, source, "", call.who, operation)

    def _attempt(
        self,
        call: Call,
        ask: MergeRequest | TransplantRequest | RevertRequest,
        source: str,
        prepare: Callable[[_Tried], PendingWrite[Merged]],
    ) -> PendingWrite[Merged]:
        """Prepares a proposal of the family, or answers it from what an earlier try has done."""
        name = self._resolver.name(ask.branch)
        claims = self._claims
        request = None if ask.dry_run else claims.request(call, Right.COMMIT, name, source)

        def again(done: Done) -> PendingWrite[Merged]:
            return prepare(_Tried(request, done, again))

        return claims.attempt(
            request,
            partial(claims.find_commits, call),
            lambda earlier: prepare(_Tried(request, earlier, again)),
        )

    def _merged_by(self, earlier: Done) -> CommitView:
        """Returns the source of a merge that was done: a parent of its last commit, or noted."""
        if not earlier.commits:
            return self._context.views.load(ObjId(bytes.fromhex(earlier.source)))
        body = earlier.commits[-1].body
        check_stored(body is not None and len(body.parents) > 1, "a merge has two parents")
        return self._context.views.load(EMPTY_ID if body is None else ObjId(body.parents[-1]))

    def _on_lane(
        self,
        call: Call,
        wanted: _Wanted,
        make: Callable[[Choices], MergeProposal | CarryProposal],
        wishes: Wishes,
        said: Provenance,
        tried: _Tried,
        source: ObjId | None = None,
    ) -> PendingWrite[Merged]:
        name = self._resolver.name(wanted.branch)
        expected = self._resolver.expected(name, wanted.expected)
        if expected is not None:
            # The caller may have named it by steps from another; it is told which one that was.
            wanted = msgspec.structs.replace(
                wanted, expected=ReferenceSpec(None, expected.obj_id.hex())
            )
        proposal = CatalogMerge(self._context, self._types, expected, make, wishes, said)

        done = tried.earlier
        if done is not None:
            # Planned once more on the head of then, it says the same of every key as it did then.
            proposal.plan(head_at(self._context, name, done.target))
            return answered(_success(name, wanted, proposal, done.target, done.commits))
        self._gate.check(call, Right.COMMIT, name)
        once = self._claims.once(tried.request, proposal)

        def finish(settled: Settled) -> Merged:
            if isinstance(settled, KeysConflict) and wanted.conflicts_as_result:
                return _outcome(name, wanted, proposal, settled)
            outcome = once.settle(settled)
            if isinstance(outcome, Published):
                outcome = once.note(outcome, call.who, source)
            if isinstance(outcome, Done):
                return tried.again(outcome).finish(settled)
            return _success(name, wanted, proposal, outcome.head, outcome.commits)

        # How much there is to do is known when it is done; never on the event loop.
        operations = 1_000_000
        return PendingWrite(
            name,
            once.proposal,
            finish,
            wanted.dry_run,
            operations,
            keyed=tried.request is not None,
        )

    def _moved(
        self,
        call: Call,
        ask: RebaseRequest | MoveRequest,
        source: str,
        move: Callable[[CommitView | None, ClaimedMove | None], HeadMoved],
    ) -> Merged:
        """Moves a branch whole, or answers from the move that an earlier try has made."""
        name = self._resolver.name(ask.branch)
        right = Right.ASSIGN_REFERENCE
        request = None if ask.dry_run else self._claims.request(call, right, name, source)

        def work(earlier: MovedReference | None) -> Merged:
            expected = self._resolver.expected(name, ask.expected)
            if earlier is not None:
                done = head_moved(self._context, earlier)
            else:
                self._gate.check(call, right, name)
                self._resolver.row(name)
                try:
                    done = move(expected, self._claims.claim_move(request))
                except KeysConflict as refusal:
                    raise self._told(refusal) from None
            return Merged(
                branch=name,
                applied=done.moved and not ask.dry_run,
                successful=True,
                hash=done.row.pointer.hex() if not ask.dry_run else None,
                effective_target=done.before.hex(),
                expected=None if expected is None else expected.obj_id.hex(),
                commits=tuple(view.obj_id.hex() for view in done.commits),
            )

        return self._claims.attempt(request, partial(self._claims.find_move, call), work)

    def _told(self, refusal: KeysConflict) -> KeysConflict:
        conflicts = [one for one in refusal.details if isinstance(one, MergeConflict)]
        if not conflicts:
            # The rules of namespaces have told their own.
            return refusal
        return merge_conflict(self._context, self._types, conflicts, {})


def _carrying(
    carried: Sequence[Carried], undone: Sequence[CommitView] = ()
) -> Callable[[Choices], CarryProposal]:
    return lambda choices: CarryProposal(carried, choices, None, undone)


def _outcome(name: str, wanted: _Wanted, proposal: CatalogMerge, refusal: KeysConflict) -> Merged:
    conflicts = [one for one in refusal.details if isinstance(one, ContentConflict)]
    return Merged(
        branch=name,
        applied=False,
        successful=False,
        hash=None,
        effective_target="" if proposal.target is None else proposal.target.obj_id.hex(),
        expected=None if wanted.expected is None else wanted.expected.hash,
        common_ancestor=None if proposal.base is None else proposal.base.obj_id.hex(),
        keys=proposal.outcomes(conflicts),
    )


def _success(
    name: str,
    wanted: _Wanted,
    proposal: CatalogMerge,
    head: CommitView,
    made: Sequence[CommitView],
) -> Merged:
    commits = tuple(view.obj_id.hex() for view in made)
    target = proposal.target or head
    # What a dry run would commit has no hash; with nothing to do the branch stays where it is.
    is_known = not wanted.dry_run or not commits
    return Merged(
        branch=name,
        applied=bool(commits) and not wanted.dry_run,
        successful=True,
        hash=(made[-1] if made else head).obj_id.hex() if is_known else None,
        effective_target=target.obj_id.hex(),
        expected=None if wanted.expected is None else wanted.expected.hash,
        common_ancestor=None if proposal.base is None else proposal.base.obj_id.hex(),
        keys=proposal.outcomes(()),
        commits=() if wanted.dry_run else commits,
    )
