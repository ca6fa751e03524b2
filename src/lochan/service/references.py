"""Use cases on references: read, list, create, assign, delete, and what happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from lochan.base.errors import HeadConflict, Invalid
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits import (
    PAGE_ENTRIES_MAX,
    REFERENCES_PER_CALL_MAX,
    SCAN_ENTRIES_MAX,
)
from lochan.base.names import REFS_NAME, ref_name
from lochan.base.times import check_time
from lochan.catalog.meta import meta_of
from lochan.codec.rows import ReferenceRow
from lochan.kernel.claims import (
    ClaimedProposal,
    Request,
    claim_on_branch,
    find_claim,
    find_done,
)
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ahead_behind, iterate_log
from lochan.kernel.name_index import ListedReference, UnreadableReference
from lochan.kernel.publish import Settled
from lochan.kernel.references import Destination, MovedReference, NewReferenceRow, ReferenceIndex
from lochan.kernel.reflog import RefLog
from lochan.kernel.tags import BRANCH, TAG, Tags
from lochan.kernel.tokens import PageToken, Tokens
from lochan.kernel.views import CommitView
from lochan.model.references import Reference, ReferenceMetadata, ReferenceMove
from lochan.model.requests import NewReference
from lochan.model.results import Page
from lochan.rules.filters import FilterKind, compile_filter
from lochan.service.calls import ANYONE, Call, Gate, Right
from lochan.service.claims import Claims
from lochan.service.pages import check_limit
from lochan.service.pending_writes import PendingWrite, answered
from lochan.service.resolve import Resolver

_KIND: Final = "references"

# Sorts after every character that a name may hold.
_AFTER_NAMES: Final = "\x7f"


class PreviousHead(msgspec.Struct, frozen=True):
    """Where a reference pointed before; `consistent` is None where nobody looked."""

    hash: str
    when_us: int | None
    consistent: bool | None = None


class ReferenceHistory(msgspec.Struct, frozen=True):
    """Where a reference points, and where it pointed lately."""

    reference: Reference
    current: PreviousHead
    previous: tuple[PreviousHead, ...]


class References:
    """The references of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        names: ReferenceIndex,
        resolver: Resolver,
        claims: Claims,
        gate: Gate,
    ) -> None:
        self._context = context
        self._claims = claims
        self._names = names
        self._resolver = resolver
        self._gate = gate
        self._tags = Tags(context)
        self._ref_log = RefLog(context)
        self._tokens = Tokens(context.description.token_key)

    def get(self, name: str, *, fetch_all: bool = False, call: Call = ANYONE) -> Reference:
        """Returns a reference by its name."""
        self._gate.check(call, Right.VIEW_REFERENCE, name)
        return self._shown(self._resolver.row(name), fetch_all=fetch_all)

    def list(
        self,
        limit: int | None = None,
        token: str | None = None,
        *,
        filter: str = "",  # noqa: A002 - the name that users know
        fetch_all: bool = False,
        prefix: str = "",
        call: Call = ANYONE,
    ) -> Page[Reference]:
        """Returns references in the order of their names; all of them without a limit.

        One whose row has a newer format is listed without a hash.
        """
        check_limit(limit)
        self._gate.check(call, Right.VIEW_REFERENCE)
        wanted = f"{prefix}\0{filter}"
        if not prefix.isascii():
            # No name has other characters, so none begins so.
            return Page((), None)
        at, end = prefix, f"{prefix}{_AFTER_NAMES}" if prefix else None
        if token is not None:
            at = self._tokens.read(PageToken(token), _KIND, wanted)[1].decode()
        accepts = compile_filter(filter, FilterKind.REFERENCES)
        found: list[Reference] = []
        scanned = 0
        further: str | None = None
        while further is None:
            room = PAGE_ENTRIES_MAX if limit is None or accepts else limit - len(found) + 1
            step = min(room, PAGE_ENTRIES_MAX)
            rows = self._names.page(at, end, step)
            scanned += len(rows) * (1 if accepts is None else accepts.cost())
            for row in rows:
                shown = self._shown(
                    row, fetch_all=fetch_all or (accepts is not None and accepts.reads_metadata)
                )
                if accepts is not None:
                    if not accepts.accepts_reference(shown):
                        continue
                    if not fetch_all:
                        shown = msgspec.structs.replace(shown, metadata=None)
                if limit is not None and len(found) == limit:
                    further = row.name
                    break
                found.append(shown)
            if len(rows) < step:
                break
            at = rows[-1].name + "\0"
            if further is None and accepts is not None and scanned >= SCAN_ENTRIES_MAX:
                further = at
        made = None
        if further is not None:
            made = self._tokens.make(_KIND, EMPTY_ID, further.encode(), wanted)
        return Page(tuple(found), made)

    def create(self, call: Call, new: NewReference) -> PendingWrite[Reference]:
        """Prepares a branch or a tag."""
        return self.create_many(call, [new]).then(lambda made: made[0])

    def create_many(
        self, call: Call, wanted: Sequence[NewReference]
    ) -> PendingWrite[tuple[Reference, ...]]:
        """Prepares references, all or none; names are added in the lane of their index."""
        if not 0 < len(wanted) <= REFERENCES_PER_CALL_MAX:
            raise Invalid(f"one call creates 1 to {REFERENCES_PER_CALL_MAX} references")
        right = Right.CREATE_REFERENCE
        # What is listed where is the matter of one internal branch, which is always there.
        request = self._claims.request(call, right, REFS_NAME)

        def find(request: Request) -> CommitView | None:
            for new in wanted:
                self._gate.check(call, right, new.name)
            claimed = find_claim(self._context, request)
            done = None if claimed is None else find_done(self._context, claimed)
            return None if done is None else done.commits[-1]

        def work(earlier: CommitView | None) -> PendingWrite[tuple[Reference, ...]]:
            if earlier is None:
                return self._create(call, wanted, request)
            made = self._names.created_by(earlier, [ref_name(new.name) for new in wanted])
            return answered(tuple(self._resolver.reference(row) for row in made))

        return self._claims.attempt(request, find, work)

    def _create(
        self, call: Call, wanted: Sequence[NewReference], request: Request | None
    ) -> PendingWrite[tuple[Reference, ...]]:
        for new in wanted:
            self._gate.check(call, Right.CREATE_REFERENCE, new.name)
        rows = [self._row_of(new) for new in wanted]
        claim = None if request is None else claim_on_branch(self._context, request)
        add = self._names.prepare_create(rows, call.who, None if claim is None else claim.operation)
        claimed = None if claim is None else ClaimedProposal(self._context, add, claim)

        def finish(settled: Settled) -> tuple[Reference, ...]:
            made = self._names.finish_create(add, settled, claimed)
            return tuple(self._resolver.reference(row) for row in made)

        return PendingWrite(
            REFS_NAME, claimed or add, finish, operations=len(rows), finish_writes=True
        )

    def assign(
        self,
        call: Call,
        name: str,
        expected: str | None,
        target: str,
        *,
        kind: str | None = None,
    ) -> Reference:
        """Points a reference elsewhere; the old head stays in the ref-log."""
        full = self._resolver.name(name)
        source = target.partition("@")[0]
        request = self._claims.request(call, Right.ASSIGN_REFERENCE, full, source)

        def work(earlier: MovedReference | None) -> Reference:
            if earlier is not None:
                return self._resolver.reference(earlier.row)
            self._gate.check(call, Right.ASSIGN_REFERENCE, full)
            view = self._resolver.view(target)
            meant = self._meant(name, kind, expected)

            def decide(row: ReferenceRow) -> Destination:
                self._check_meant(row, meant)
                return Destination(view.obj_id, "assign", source)

            once = self._claims.claim_move(request)
            return self._resolver.reference(self._names.move(full, decide, call.who, once=once).row)

        return self._claims.attempt(request, partial(self._claims.find_move, call), work)

    def delete(
        self, call: Call, name: str, expected: str | None, *, kind: str | None = None
    ) -> Reference:
        """Deletes a reference that points where the caller believes; merged or not."""
        full = self._resolver.name(name)
        if full == self._context.description.default_branch:
            raise Invalid(f"Default branch '{full}' cannot be deleted.")
        request = self._claims.request(call, Right.DELETE_REFERENCE, full)

        def work(earlier: MovedReference | None) -> Reference:
            if earlier is not None:
                return self._resolver.reference(earlier.row)
            self._gate.check(call, Right.DELETE_REFERENCE, full)
            meant = self._meant(name, kind, expected)

            def decide(row: ReferenceRow) -> Destination:
                self._check_meant(row, meant)
                return Destination(ObjId(row.pointer), "delete")

            once = self._claims.claim_move(request)
            return self._resolver.reference(self._names.remove(full, decide, call.who, once=once))

        return self._claims.attempt(request, partial(self._claims.find_move, call), work)

    def recent_changes(
        self, name: str, *, scan_commits: bool = False, call: Call = ANYONE
    ) -> ReferenceHistory:
        """Returns where a reference points and pointed; with a scan, whether that is all there."""
        self._gate.check(call, Right.VIEW_REFERENCE, name)
        row = self._resolver.row(name)
        reference = self._resolver.reference(row)

        def looked(pointer: bytes, when_us: int | None) -> PreviousHead:
            consistent = None
            if scan_commits:
                view = self._tags.peel(ObjId(pointer)).commit
                consistent = all(True for _ in _first(self._context, view))
            return PreviousHead(pointer.hex(), when_us, consistent)

        previous = tuple(looked(pointer, when) for pointer, when in row.previous)
        return ReferenceHistory(reference, looked(row.pointer, None), previous)

    def log(
        self, name: str, limit: int = 100, token: str | None = None, *, call: Call = ANYONE
    ) -> Page[ReferenceMove]:
        """Returns everything that happened to a name, newest first."""
        self._gate.check(call, Right.READ_LOG, name)
        page = self._ref_log.page(
            self._resolver.name(name), limit, None if token is None else PageToken(token)
        )
        moves = tuple(
            ReferenceMove(
                one.kind,
                one.old.hex() if one.old else None,
                one.new.hex(),
                one.who,
                one.when_us,
                one.operation,
                one.source,
                one.base,
                one.incarnation,
                one.version,
            )
            for one in page.entries
        )
        return Page(moves, page.token)

    def _row_of(self, new: NewReference) -> NewReferenceRow:
        name = ref_name(new.name)
        if new.kind not in (BRANCH, TAG):
            raise Invalid(f"a reference is a BRANCH or a TAG, not {new.kind[:40]!r}")
        now_us = self._context.clock.now_us()
        if new.expires_us is not None and (new.kind != BRANCH or new.expires_us <= now_us):
            raise Invalid("only a branch expires, at a time that is still to come")
        if new.expires_us is not None:
            check_time("expiresAt", new.expires_us)
        if new.source is None:
            if new.kind != BRANCH:
                raise Invalid("a tag names a commit; say which")
            return NewReferenceRow(name, BRANCH, EMPTY_ID, new.expires_us)
        pointer = self._resolver.view(new.source).obj_id
        if new.annotation is not None:
            if new.kind != TAG:
                raise Invalid("only a tag is annotated")
            pointer = self._tags.annotate(pointer, new.annotation)
        return NewReferenceRow(name, new.kind, pointer, new.expires_us)

    def _meant(
        self, name: str, kind: str | None, expected: str | None
    ) -> tuple[str | None, ObjId | None]:
        view = self._resolver.expected(name, expected)
        return kind, None if view is None else view.obj_id

    def _check_meant(self, row: ReferenceRow, meant: tuple[str | None, ObjId | None]) -> None:
        kind, expected = meant
        if kind is not None and row.kind != kind:
            raise Invalid(
                f"Expected reference type {kind} does not match existing reference "
                f"'{row.name}' of type {row.kind}"
            )
        if expected is None:
            return
        head = self._resolver.head(row).obj_id
        if head != expected:
            raise HeadConflict(
                f"Named-reference '{row.name}' is not at expected hash '{expected.hex()}', "
                f"but at '{head.hex()}'."
            )

    def _shown(self, row: ListedReference, *, fetch_all: bool) -> Reference:
        if isinstance(row, UnreadableReference):
            return Reference(row.kind, row.name, "", created_us=row.created_us)
        reference = self._resolver.reference(row)
        if not fetch_all:
            return reference
        head = self._resolver.head(row)
        said = None if head.body is None else meta_of(head)
        if row.kind != BRANCH or row.name == self._context.description.default_branch:
            metadata = ReferenceMetadata(said, head.sequence)
        else:
            default = self._resolver.head(
                self._resolver.row(self._context.description.default_branch)
            )
            apart = ahead_behind(self._context.views, head, default)
            metadata = ReferenceMetadata(
                said, head.sequence, apart.ahead, apart.behind, apart.base.hex()
            )
        return msgspec.structs.replace(reference, metadata=metadata)


def _first(context: RepositoryContext, view: CommitView) -> Sequence[CommitView]:
    """Reads the latest commits of a line; what is missing raises."""
    found = []
    for one in iterate_log(context.views, view.obj_id):
        found.append(one)
        if len(found) == PAGE_ENTRIES_MAX:
            break
    return found
