"""Use cases of the merge family, and those that move a branch whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Denied, HeadConflict, Invalid, KeysConflict, LochanError
from lochan.catalog.conflicts import merge_conflict
from lochan.catalog.merge import CarryContents, CatalogMerge, Resolutions, read_resolutions
from lochan.catalog.meta import headers_of, recommitted
from lochan.catalog.types import ContentTypes
from lochan.kernel.claims import RequestOutcome
from lochan.kernel.context import RepositoryContext
from lochan.kernel.head_moves import HeadMoved, HeadMoves, Source, StagedGuard, head_moved
from lochan.kernel.merge import (
    ALL_KEYS,
    Carried,
    CarryProposal,
    CarryRights,
    MergeProposal,
    replayed,
    reverted,
    squashed,
)
from lochan.kernel.merge_choices import Choices, MergeConflict
from lochan.kernel.messages import title_of
from lochan.kernel.provenance import Provenance
from lochan.kernel.publish import Published, Publisher, head_at
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
from lochan.service.claims import BranchWrite, ClaimKey, ClaimMove, Claims, RepositoryWrites
from lochan.service.merge_sources import MergeLine, MergeSources, line_of
from lochan.service.pending_writes import PendingWrite
from lochan.service.policy import Access, WriteTarget, initiator_of
from lochan.service.resolve import Resolver
from lochan.service.write_rights import MovedKeys, check_messages, rights_to_carry

_NO_KEYS: Mapping[ContentKey, KeyResolution] = {}

# A merge whose size is not known before it is planned counts as heavy: never on the loop.
_MERGE_OPERATIONS: Final = 1_000_000

_Request = MergeRequest | TransplantRequest | RevertRequest
_Make = Callable[[Choices, CarryRights], MergeProposal | CarryProposal]


class _Steps(msgspec.Struct, frozen=True):
    """One kind of merge: how to read its commits, propose it, and read them again when resent."""

    action: Action
    read: Callable[[], MergeLine]
    propose: Callable[[WriteTarget, MergeLine], CatalogMerge]
    reread: Callable[[RequestOutcome], MergeLine]
    records_source: bool = False
    quotes: bool = False
    """Whether messages of the source are in the commits that are made."""


class Merges(RepositoryWrites):
    """Merges into the branches of one repository.

    The caller needs the right to read a source, because its contents are in the target afterwards,
    and rights over every key that would change: to read it in the source, and to write or remove it
    in the target.
    """

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        resolver: Resolver,
        claims: Claims,
        access: Access,
        names: ReferenceIndex,
        guard: StagedGuard,
    ) -> None:
        super().__init__(context, types, resolver, claims, access)
        self._names = names
        self._moves = HeadMoves(context, names, guard)
        self._sources = MergeSources(context, resolver, names)

    def merge(self, call: Call, request: MergeRequest) -> PendingWrite[Merged]:
        """Prepares a merge; everything the source has since the merge base, or nothing."""
        return self._build(
            call,
            request,
            request.source.name or "",
            _Steps(
                action=Action.MERGE,
                read=lambda: line_of([self._sources.read(call, request.source)]),
                propose=lambda target, line: self._merge(target, request, line),
                reread=lambda done: MergeLine(
                    [self._sources.find_merged(done)], self._sources.name(request.source.name)
                ),
                records_source=True,
                quotes=not request.squash,
            ),
        )

    def _merge(self, target: WriteTarget, request: MergeRequest, line: MergeLine) -> CatalogMerge:
        (source,) = line.commits
        who = target.call.principal
        name = request.source.name or source.obj_id.hex()
        meta = request.meta or CommitMeta(message="")
        message = meta.message or f"Merged {name} at {source.obj_id.hex()} into {request.branch}"

        def make(choices: Choices, rights: CarryRights) -> MergeProposal:
            return MergeProposal(
                self._context,
                source,
                message,
                choices,
                replay=not request.squash,
                headers=headers_of(meta, who),
                rights=rights,
                rewrite=partial(recommitted, who=who),
                empty=request.empty,
                records_source=request.records_source,
            )

        resolutions = read_resolutions(
            self._context, self._types, request.default, request.keys, request.paths
        )
        provenance = self._provenance(target, "merge", name)
        if not request.records_source:
            provenance = msgspec.structs.replace(provenance, source_hash=source.obj_id.hex())
        return self._proposal(target, request, line, make, resolutions, provenance)

    def transplant(self, call: Call, request: TransplantRequest) -> PendingWrite[Merged]:
        """Prepares commits that follow each other to be made again, oldest first."""

        def reread(_: RequestOutcome) -> MergeLine:
            return MergeLine(self._sources.reread(request), self._sources.name(request.source))

        def read() -> MergeLine:
            return self._sources.read_reachable(call, request)

        return self._build_copies(call, request, read, reread, "transplant")

    def cherry_pick(self, call: Call, request: TransplantRequest) -> PendingWrite[Merged]:
        """Prepares any commits to be made again, in the order given."""

        def reread(_: RequestOutcome) -> MergeLine:
            commits = self._sources.reread(request)
            return MergeLine(commits, self._sources.find_holder(request.source, commits))

        def read() -> MergeLine:
            return self._sources.read_picked(call, request)

        return self._build_copies(call, request, read, reread, "cherry-pick")

    def _build_copies(
        self,
        call: Call,
        request: TransplantRequest,
        read: Callable[[], MergeLine],
        reread: Callable[[RequestOutcome], MergeLine],
        operation: str,
    ) -> PendingWrite[Merged]:
        """Prepares a transplant or a cherry-pick, which differ in the commits that they accept."""
        steps = _Steps(
            action=Action.MERGE,
            read=read,
            propose=lambda target, line: self._carry(target, request, line, operation),
            reread=reread,
            quotes=True,
        )
        return self._build(call, request, request.source, steps)

    def revert(self, call: Call, request: RevertRequest) -> PendingWrite[Merged]:
        """Prepares commits that undo others of the branch; they are read in the branch itself."""
        steps = _Steps(
            action=Action.COMMIT,
            read=lambda: self._sources.read_undone(call, request),
            propose=lambda target, line: self._revert(target, request, line),
            reread=lambda _: MergeLine(
                self._sources.reread(request), self._sources.name(request.branch)
            ),
        )
        return self._build(call, request, "", steps)

    def _build(
        self, call: Call, request: _Request, source: str, steps: _Steps
    ) -> PendingWrite[Merged]:
        name = self._resolver.name(request.branch)
        target = WriteTarget(self._access, call, steps.action, name, source=source)

        def prepare(claim: ClaimKey) -> BranchWrite[Merged]:
            target.check()
            self._resolver.prove_expected(call, name, request.expected)
            line = steps.read()
            if steps.quotes:
                check_messages(self._access, call, line.reference, name)
            proposal = steps.propose(target, line)
            recorded = line.commits[0].obj_id if steps.records_source else None
            if call.idempotency_key is not None and not request.dry_run:
                self._check_keys_first(target, line, proposal)

            def answer(published: Published) -> Merged:
                return _success(name, request, proposal, published.head, published.commits)

            def refused(error: LochanError) -> Merged:
                if isinstance(error, KeysConflict) and request.conflicts_as_result:
                    return _outcome(name, proposal, error)
                raise error

            operations = _MERGE_OPERATIONS
            if steps.records_source and not request.dry_run:
                changes = self._sources.count_changes(name, line.commits[0])
                operations = operations if changes is None else changes + 1
            return BranchWrite(proposal, claim(), answer, refused, recorded, operations)

        def earlier(done: RequestOutcome) -> Merged:
            line = steps.reread(done)
            for view in line.commits:
                self._access.decide(call, Action.READ_CONTENT, line.reference, None, view.obj_id)
            if steps.quotes:
                check_messages(self._access, call, line.reference, name)
            proposal = steps.propose(target, line)
            return self._earlier(target, request, done, proposal)

        return self._claims.write(target, prepare, earlier, dry_run=request.dry_run)

    def _check_keys_first(
        self, target: WriteTarget, line: MergeLine, proposal: CatalogMerge
    ) -> None:
        """Plans once for a caller with rights over some keys, before its key is claimed.

        So a request that is denied has written nothing, not even its claim.
        """
        if rights_to_carry(target, line.reference) is ALL_KEYS:
            return
        publisher = Publisher(self._context, target.name, self._names.find)
        (settled,) = publisher.preview([proposal])
        if isinstance(settled, Denied):
            raise settled

    def _revert(self, target: WriteTarget, request: RevertRequest, line: MergeLine) -> CatalogMerge:
        meta = request.meta or CommitMeta(message="")
        headers = headers_of(meta, target.call.principal)
        titles = [f"Revert {view.obj_id.hex()}: {title_of(view)}" for view in line.commits]
        carried = [
            reverted(self._context, view, meta.message or title, headers)
            for view, title in zip(line.commits, titles, strict=True)
        ]
        resolutions = read_resolutions(self._context, self._types, "NORMAL", _NO_KEYS)
        named = ",".join(spec.text() for spec in request.hashes)[:200]
        make = _carrying(carried, undone=line.commits)
        provenance = self._provenance(target, "revert", named)
        return self._proposal(target, request, line, make, resolutions, provenance)

    def rebase(self, call: Call, request: RebaseRequest) -> Merged:
        """Makes a branch's own commits again on another head and moves the branch there."""
        resolutions = read_resolutions(
            self._context, self._types, request.default, request.keys, request.paths
        )
        if resolutions.values:
            raise Invalid("a rebase takes no resolved contents; merge instead")
        name = self._resolver.name(request.branch)
        readable = WriteTarget(self._access, call, Action.ASSIGN_REFERENCE, name).readable()
        rewrite = partial(recommitted, who=call.principal)
        plan = CarryContents(self._context, self._types, readable, rewrite)
        move = partial(self._moves.rebase, choices=resolutions.choices, plan=plan)
        return self._move(call, request, request.onto, move)

    def fast_forward(self, call: Call, request: MoveRequest) -> Merged:
        """Moves a branch to a commit that has everything of it."""
        return self._move(call, request, request.source, self._moves.fast_forward)

    def force(self, call: Call, request: MoveRequest) -> Merged:
        """Moves a branch to a commit whatever it has; the old head stays in the ref-log.

        StagedWork if files are staged.
        """
        return self._move(call, request, request.source, self._moves.force)

    def _carry(
        self, target: WriteTarget, request: TransplantRequest, line: MergeLine, kind: str
    ) -> CatalogMerge:
        meta, who = request.meta or CommitMeta(message=""), target.call.principal
        commits = line.commits
        if request.squash:
            message = meta.message or f"Transplanted {len(commits)} commits"
            headers = headers_of(meta, who)
            carried = [squashed(self._context, commits, message, headers, ())]
        else:
            rewrite = partial(recommitted, who=who, added=request.added)
            carried = replayed(self._context, commits, rewrite=rewrite)
            if meta.message and len(carried) == 1:
                carried = [msgspec.structs.replace(carried[0], message=meta.message)]
        resolutions = read_resolutions(
            self._context, self._types, request.default, request.keys, request.paths
        )
        make, provenance = _carrying(carried), self._provenance(target, kind, request.source)
        return self._proposal(target, request, line, make, resolutions, provenance)

    def _provenance(self, target: WriteTarget, kind: str, source: str) -> Provenance:
        operation = self._context.random.random_bytes(16).hex()
        return Provenance(kind, source, "", initiator_of(target.call), operation)

    def _proposal(
        self,
        target: WriteTarget,
        request: _Request,
        line: MergeLine,
        make: _Make,
        resolutions: Resolutions,
        provenance: Provenance,
    ) -> CatalogMerge:
        expected = self._resolver.expected(target.name, request.expected)
        rights = rights_to_carry(target, line.reference)
        return CatalogMerge(
            self._context,
            self._types,
            target,
            expected,
            lambda choices: make(choices, rights),
            resolutions,
            provenance,
        )

    def _earlier(
        self, target: WriteTarget, request: _Request, done: RequestOutcome, proposal: CatalogMerge
    ) -> Merged:
        """Answers as an earlier try did: planned again on its head, each key has its outcome."""
        proposal.plan_again(head_at(self._context, target.name, done.target))
        return _success(target.name, request, proposal, done.target, done.commits)

    def _move(
        self,
        call: Call,
        request: RebaseRequest | MoveRequest,
        source: ReferenceSpec,
        move: Callable[..., HeadMoved],
    ) -> Merged:
        """Moves a branch whole, or answers from the move that an earlier try has made."""
        name, dry_run = self._resolver.name(request.branch), request.dry_run
        action, source_name = Action.ASSIGN_REFERENCE, source.name or ""
        target = WriteTarget(self._access, call, action, name, source=source_name)
        rights = MovedKeys(target, self._sources.name(source_name))

        def work(claim: ClaimMove) -> Merged:
            self._resolver.prove_expected(call, name, request.expected)
            expected = self._resolver.expected(name, request.expected)
            view = self._sources.read(call, source).view
            rights.check_source()
            move_there = partial(
                move,
                name,
                Source(view, source_name),
                initiator_of(call),
                expected=None if expected is None else expected.obj_id,
                rights=rights,
            )
            try:
                if call.idempotency_key is not None and not rights.is_full:
                    # What is denied writes nothing, not even its claim.
                    move_there(dry_run=True)
                moved = move_there(dry_run=dry_run, once=claim())
            except KeysConflict as refusal:
                raise self._in_words(refusal) from None
            except HeadConflict:
                if request.expected is not None and expected is not None:
                    row = self._names.get(name).row
                    self._resolver.check_expected(call, row, request.expected, expected)
                raise
            return answer(moved, expected)

        def earlier(made: MovedReference) -> Merged:
            rights.check_made(self._context, made)
            expected = self._resolver.expected(name, request.expected)
            return answer(head_moved(self._context, made), expected)

        def answer(moved: HeadMoved, expected: CommitView | None) -> Merged:
            return Merged(
                branch=name,
                applied=moved.moved and not dry_run,
                successful=True,
                hash=moved.row.pointer.hex() if not dry_run else None,
                effective_target=moved.before.hex(),
                expected=_hex(expected),
                commits=tuple(view.obj_id.hex() for view in moved.commits),
            )

        return self._claims.move(target, work, earlier, dry_run=dry_run)

    def _in_words(self, refusal: KeysConflict) -> KeysConflict:
        conflicts = [one for one in refusal.details if isinstance(one, MergeConflict)]
        if not conflicts:
            # The rules of namespaces have words of their own.
            return refusal
        return merge_conflict(self._context, self._types, conflicts, {})


def _carrying(carried: Sequence[Carried], undone: Sequence[CommitView] = ()) -> _Make:
    return lambda choices, rights: CarryProposal(carried, choices, None, undone, rights)


def _outcome(name: str, proposal: CatalogMerge, refusal: KeysConflict) -> Merged:
    conflicts = [one for one in refusal.details if isinstance(one, ContentConflict)]
    return Merged(
        branch=name,
        applied=False,
        successful=False,
        hash=None,
        effective_target="" if proposal.target is None else proposal.target.obj_id.hex(),
        expected=_hex(proposal.expected),
        common_ancestor=_hex(proposal.base),
        keys=proposal.outcomes(conflicts),
        paths=proposal.path_outcomes(conflicts),
    )


def _success(
    name: str,
    request: _Request,
    proposal: CatalogMerge,
    head: CommitView,
    made: Sequence[CommitView],
) -> Merged:
    commits = tuple(view.obj_id.hex() for view in made)
    target = proposal.target or head
    # What a dry run would commit has no hash; with nothing to do the branch stays where it is.
    is_known = not request.dry_run or not commits
    return Merged(
        branch=name,
        applied=bool(commits) and not request.dry_run,
        successful=True,
        hash=(made[-1] if made else head).obj_id.hex() if is_known else None,
        effective_target=target.obj_id.hex(),
        expected=_hex(proposal.expected),
        common_ancestor=_hex(proposal.base),
        keys=proposal.outcomes(()),
        paths=proposal.path_outcomes(()),
        commits=() if request.dry_run else commits,
    )


def _hex(view: CommitView | None) -> str | None:
    return None if view is None else view.obj_id.hex()
