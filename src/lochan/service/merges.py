"""Use cases of the merge family, and those that move a branch whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import msgspec

from lochan.base.checks import check_stored
from lochan.base.errors import Invalid, KeysConflict, LochanError, ReferenceNotFound, TooLarge
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import REBASE_COMMITS_MAX
from lochan.catalog.conflicts import merge_conflict
from lochan.catalog.merge import CarryContents, CatalogMerge, Resolutions, read_resolutions
from lochan.catalog.meta import headers_of
from lochan.catalog.types import ContentTypes
from lochan.kernel.claims import RequestOutcome
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
from lochan.kernel.publish import Published, head_at
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
from lochan.service.pending_writes import PendingWrite
from lochan.service.policy import Access, Action, Call, WriteTarget
from lochan.service.resolve import Resolved, Resolver

_NO_KEYS: Mapping[ContentKey, KeyResolution] = {}

# The size of a merge is not known before it is planned, so it counts as heavy: never on the loop.
_MERGE_OPERATIONS: Final = 1_000_000

_Request = MergeRequest | TransplantRequest | RevertRequest
_Make = Callable[[Choices], MergeProposal | CarryProposal]


_Commits = list[CommitView]


class _Steps(msgspec.Struct, frozen=True):
    """One kind of merge: how to read its commits, propose it, and read them again when resent."""

    read: Callable[[], _Commits]
    propose: Callable[[WriteTarget, _Commits], CatalogMerge]
    reread: Callable[[RequestOutcome], _Commits]
    records_source: bool = False


class Merges(RepositoryWrites):
    """Merges into the branches of one repository.

    The caller needs the right to read a source, because its contents are in the target afterwards.
    """

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        resolver: Resolver,
        claims: Claims,
        access: Access,
        names: ReferenceIndex,
    ) -> None:
        super().__init__(context, types, resolver, claims, access)
        self._moves = HeadMoves(context, names)

    def merge(self, call: Call, request: MergeRequest) -> PendingWrite[Merged]:
        """Prepares a merge; everything the source has since the merge base, or nothing."""
        return self._build(
            call,
            request,
            request.source.name or "",
            _Steps(
                read=lambda: [self._source(call, request.source)],
                propose=lambda target, commits: self._merge(target, request, commits[0]),
                reread=lambda done: [self._merged(done)],
                records_source=True,
            ),
        )

    def _merge(
        self, target: WriteTarget, request: MergeRequest, source: CommitView
    ) -> CatalogMerge:
        name = request.source.name or source.obj_id.hex()
        meta = request.meta or CommitMeta(message="")
        message = meta.message or f"Merged {name} at {source.obj_id.hex()} into {request.branch}"

        def make(choices: Choices) -> MergeProposal:
            return MergeProposal(
                self._context,
                source,
                message,
                choices,
                replay=not request.squash,
                headers=headers_of(meta, target.call.principal),
            )

        resolutions = read_resolutions(self._context, self._types, request.default, request.keys)
        return self._proposal(target, request, make, resolutions, "merge", name)

    def transplant(self, call: Call, request: TransplantRequest) -> PendingWrite[Merged]:
        """Prepares commits that follow each other to be made again, oldest first."""
        return self._build_copies(
            call, request, lambda: self._reachable_line(call, request), "transplant"
        )

    def cherry_pick(self, call: Call, request: TransplantRequest) -> PendingWrite[Merged]:
        """Prepares any commits to be made again, in the order given."""
        return self._build_copies(
            call, request, lambda: self._any_line(call, request), "cherry-pick"
        )

    def _build_copies(
        self, call: Call, request: TransplantRequest, read: Callable[[], _Commits], operation: str
    ) -> PendingWrite[Merged]:
        """Prepares a transplant or a cherry-pick, which differ in the commits that they accept."""
        steps = _Steps(
            read=read,
            propose=lambda target, commits: self._carry(target, request, commits, operation),
            reread=lambda _: self._reread(request),
        )
        return self._build(call, request, request.source, steps)

    def revert(self, call: Call, request: RevertRequest) -> PendingWrite[Merged]:
        """Prepares commits that undo others of the branch."""
        steps = _Steps(
            read=lambda: self._any_line(call, request),
            propose=lambda target, commits: self._revert(target, request, commits),
            reread=lambda _: self._reread(request),
        )
        return self._build(call, request, "", steps)

    def _build(
        self, call: Call, request: _Request, source: str, steps: _Steps
    ) -> PendingWrite[Merged]:
        name = self._resolver.name(request.branch)
        target = WriteTarget(self._access, call, Action.COMMIT, name, source=source)

        def prepare(claim: ClaimKey) -> BranchWrite[Merged]:
            target.check()
            line = steps.read()
            proposal = steps.propose(target, line)
            recorded = line[0].obj_id if steps.records_source else None

            def answer(published: Published) -> Merged:
                return _success(name, request, proposal, published.head, published.commits)

            def refused(error: LochanError) -> Merged:
                if isinstance(error, KeysConflict) and request.conflicts_as_result:
                    return _outcome(name, proposal, error)
                raise error

            return BranchWrite(proposal, claim(), answer, refused, recorded, _MERGE_OPERATIONS)

        def earlier(done: RequestOutcome) -> Merged:
            proposal = steps.propose(target, steps.reread(done))
            return self._earlier(target, request, done, proposal)

        return self._claims.write(target, prepare, earlier, dry_run=request.dry_run)

    def _reread(self, request: TransplantRequest | RevertRequest) -> _Commits:
        return [self._resolver.reread(spec) for spec in request.hashes]

    def _revert(
        self, target: WriteTarget, request: RevertRequest, line: Sequence[CommitView]
    ) -> CatalogMerge:
        meta = request.meta or CommitMeta(message="")
        headers = headers_of(meta, target.call.principal)
        titles = [f"Revert {view.obj_id.hex()}: {title_of(view)}" for view in line]
        carried = [
            reverted(self._context, view, meta.message or title, headers)
            for view, title in zip(line, titles, strict=True)
        ]
        resolutions = read_resolutions(self._context, self._types, "NORMAL", _NO_KEYS)
        named = ",".join(spec.text() for spec in request.hashes)[:200]
        make = _carrying(carried, undone=line)
        return self._proposal(target, request, make, resolutions, "revert", named)

    def rebase(self, call: Call, request: RebaseRequest) -> Merged:
        """Makes a branch's own commits again on another head and moves the branch there."""
        resolutions = read_resolutions(self._context, self._types, request.default, request.keys)
        if resolutions.values:
            raise Invalid("a rebase takes no resolved contents; merge instead")
        move = partial(
            self._moves.rebase,
            choices=resolutions.choices,
            plan=CarryContents(self._context, self._types),
        )
        return self._move(call, request, request.onto, move)

    def fast_forward(self, call: Call, request: MoveRequest) -> Merged:
        """Moves a branch to a commit that has everything of it."""
        return self._move(call, request, request.source, self._moves.fast_forward)

    def force(self, call: Call, request: MoveRequest) -> Merged:
        """Moves a branch to a commit whatever it has; the old head stays in the ref-log."""
        return self._move(call, request, request.source, self._moves.force)

    def _source(self, call: Call, spec: ReferenceSpec) -> CommitView:
        """Returns what is to be merged; a hash that was named with a reference is one of its own.

        (The empty commit has nothing that could be merged; to empty a branch, assign it.)
        """
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec)
        if resolved.view.obj_id == EMPTY_ID:
            raise Invalid("The source of a merge is a commit, not the empty hash.")
        if resolved.row is not None and spec.hash is not None:
            self._check_reachable(resolved, [resolved.view])
        return resolved.view

    def _any_line(self, call: Call, request: TransplantRequest | RevertRequest) -> list[CommitView]:
        """Returns the commits that a request names by their hashes."""
        read = partial(self._resolver.read, call, Action.READ_CONTENT)
        return _commits(read(spec) for spec in _named(request))

    def _reachable_line(self, call: Call, request: TransplantRequest) -> list[CommitView]:
        """Returns commits that follow each other, of the source if the request names one."""
        if not request.source:
            line = self._any_line(call, request)
        else:
            action, resolver = Action.READ_CONTENT, self._resolver
            source = resolver.read(call, action, ReferenceSpec(request.source))
            line = _commits(
                resolver.read_on(call, action, source, spec) for spec in _named(request)
            )
            self._check_reachable(source, line)
        for earlier, later in pairwise(line):
            if later.parent != earlier.obj_id:
                raise Invalid("Sequence of hashes is not contiguous.")
        return line

    def _check_reachable(self, source: Resolved, line: Sequence[CommitView]) -> None:
        row = source.row
        if row is None:
            return
        head = self._resolver.head(row)
        for view in line:
            if not is_ancestor(self._context.views, view, head):
                raise ReferenceNotFound(
                    f"Could not find commit '{view.obj_id.hex()}' in reference '{row.name}'."
                )

    def _carry(
        self, target: WriteTarget, request: TransplantRequest, line: Sequence[CommitView], kind: str
    ) -> CatalogMerge:
        meta = request.meta or CommitMeta(message="")
        if request.squash:
            message = meta.message or f"Transplanted {len(line)} commits"
            headers = headers_of(meta, target.call.principal)
            carried = [squashed(self._context, line, message, headers, ())]
        else:
            carried = replayed(self._context, line)
            if meta.message and len(carried) == 1:
                carried = [msgspec.structs.replace(carried[0], message=meta.message)]
        resolutions = read_resolutions(self._context, self._types, request.default, request.keys)
        make = _carrying(carried)
        return self._proposal(target, request, make, resolutions, kind, request.source)

    def _proposal(
        self,
        target: WriteTarget,
        request: _Request,
        make: _Make,
        resolutions: Resolutions,
        kind: str,
        source: str,
    ) -> CatalogMerge:
        expected = self._resolver.expected(target.name, request.expected)
        operation = self._context.random.random_bytes(16).hex()
        provenance = Provenance(kind, source, "", target.call.principal, operation)
        return CatalogMerge(
            self._context, self._types, target.check_head, expected, make, resolutions, provenance
        )

    def _earlier(
        self, target: WriteTarget, request: _Request, done: RequestOutcome, proposal: CatalogMerge
    ) -> Merged:
        """Answers as an earlier try did: planned again on its head, each key has its outcome."""
        proposal.plan_again(head_at(self._context, target.name, done.target))
        return _success(target.name, request, proposal, done.target, done.commits)

    def _merged(self, done: RequestOutcome) -> CommitView:
        """Returns the source of a merge that was done: a parent of its last commit, or recorded."""
        if not done.commits:
            return self._context.views.load(ObjId(bytes.fromhex(done.source)))
        body = done.commits[-1].body
        check_stored(body is not None and len(body.parents) > 1, "a merge has two parents")
        return self._context.views.load(EMPTY_ID if body is None else ObjId(body.parents[-1]))

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

        def work(claim: ClaimMove) -> Merged:
            expected = self._resolver.expected(name, request.expected)
            view = self._source(call, source)
            try:
                moved = move(
                    name,
                    Source(view, source_name),
                    call.principal,
                    expected=None if expected is None else expected.obj_id,
                    dry_run=dry_run,
                    once=claim(),
                    authorise=target.check_row,
                )
            except KeysConflict as refusal:
                raise self._in_words(refusal) from None
            return answer(moved, expected)

        def earlier(made: MovedReference) -> Merged:
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


def _named(request: TransplantRequest | RevertRequest) -> tuple[ReferenceSpec, ...]:
    """Returns the hashes of a request; at least one, and not too many."""
    if not request.hashes:
        raise Invalid("No hashes given to transplant.")
    if any(spec.name is not None for spec in request.hashes):
        # A step from the head of the source would be taken instead.
        raise Invalid("commits that are carried or undone are named by their hashes")
    if len(request.hashes) > REBASE_COMMITS_MAX:
        raise TooLarge(f"at most {REBASE_COMMITS_MAX} commits are carried in one call")
    return request.hashes


def _commits(resolved: Iterable[Resolved]) -> list[CommitView]:
    """Returns the commits that are to be carried or undone."""
    line = [each.view for each in resolved]
    if any(view.obj_id == EMPTY_ID for view in line):
        raise Invalid("The empty hash is no commit that could be carried or undone.")
    return line


def _carrying(
    carried: Sequence[Carried], undone: Sequence[CommitView] = ()
) -> Callable[[Choices], CarryProposal]:
    return lambda choices: CarryProposal(carried, choices, None, undone)


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
        commits=() if request.dry_run else commits,
    )


def _hex(view: CommitView | None) -> str | None:
    return None if view is None else view.obj_id.hex()
