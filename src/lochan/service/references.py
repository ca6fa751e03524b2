"""Use cases on references: read, list, create, assign, delete, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import msgspec

from lochan.base.errors import Denied, HeadConflict, Invalid
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.requests import PAGE_ENTRIES_MAX, REFERENCES_PER_CALL_MAX, SCAN_ENTRIES_MAX
from lochan.base.names import REFS_NAME, ref_name
from lochan.base.times import check_time
from lochan.catalog.meta import meta_of
from lochan.catalog.types import ContentTypes
from lochan.codec.rows import ReferenceRow
from lochan.kernel.claims import ClaimedProposal, RequestOutcome
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ahead_behind, iterate_log
from lochan.kernel.name_index import ListedReference, UnreadableReference
from lochan.kernel.publish import Settled
from lochan.kernel.references import Destination, MovedReference, NewReferenceRow, ReferenceIndex
from lochan.kernel.reflog import RefLog
from lochan.kernel.tags import BRANCH, TAG, Tags
from lochan.kernel.tokens import PageToken
from lochan.model.references import (
    PreviousHead,
    Reference,
    ReferenceHistory,
    ReferenceMetadata,
    ReferenceMove,
)
from lochan.model.requests import NewReference
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.rules.filters import FilterKind, compile_filter
from lochan.service.claims import ClaimKey, ClaimMove, Claims, NamesWrite, RepositoryWrites
from lochan.service.pages import check_limit
from lochan.service.pending_writes import PendingWrite
from lochan.service.policy import Access, Action, Call, WriteTarget
from lochan.service.resolve import Resolver

_KIND: Final = "references"

# Sorts after every character that a name may hold.
_AFTER_NAMES: Final = "\x7f"


class References(RepositoryWrites):
    """The references of one repository."""

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
        self._names = names
        self._tags = Tags(context)
        self._ref_log = RefLog(context)

    def get(self, call: Call, name: str, *, fetch_all: bool = False) -> Reference:
        """Returns a reference by its name."""
        row = self._resolver.read_row(call, Action.VIEW_REFERENCE, name)
        return self._described(call, row, fetch_all=fetch_all)

    def list(
        self,
        call: Call,
        limit: int | None = None,
        token: str | None = None,
        *,
        filter: str = "",  # noqa: A002 - the name that users know
        fetch_all: bool = False,
        prefix: str = "",
    ) -> Page[Reference]:
        """Returns references in the order of their names; all of them without a limit.

        Those that the caller may not view are left out. One whose row has a newer format is listed
        without a hash.
        """
        check_limit(limit)
        selected = f"{prefix}\0{filter}"
        if not prefix.isascii():
            # Names are ASCII, so none begins with this prefix.
            return Page((), None)
        at, end = prefix, f"{prefix}{_AFTER_NAMES}" if prefix else None
        if token is not None:
            at = self._tokens.read(PageToken(token), _KIND, selected)[1].decode()
        accepts = compile_filter(filter, FilterKind.REFERENCES)
        with_metadata = fetch_all or (accepts is not None and accepts.reads_metadata)
        found: list[Reference] = []
        scanned = 0
        further: str | None = None
        while further is None:
            count = PAGE_ENTRIES_MAX if limit is None or accepts else limit - len(found) + 1
            step = min(count, PAGE_ENTRIES_MAX)
            rows = self._names.page(at, end, step)
            scanned += len(rows) * (1 if accepts is None else accepts.cost())
            for row in rows:
                if not self._may_view(call, row):
                    continue
                reference = self._described(call, row, fetch_all=with_metadata)
                if accepts is not None:
                    if not accepts.accepts_reference(reference):
                        continue
                    if not fetch_all:
                        reference = msgspec.structs.replace(reference, metadata=None)
                if limit is not None and len(found) == limit:
                    further = row.name
                    break
                found.append(reference)
            if len(rows) < step:
                break
            at = rows[-1].name + "\0"
            if further is None and accepts is not None and scanned >= SCAN_ENTRIES_MAX:
                further = at
        next_page = None
        if further is not None:
            next_page = self._tokens.make(_KIND, EMPTY_ID, further.encode(), selected)
        return Page(tuple(found), next_page)

    def _may_view(self, call: Call, row: ListedReference) -> bool:
        """Decides on each reference of a listing."""
        decide, action = self._access.decide, Action.VIEW_REFERENCE
        try:
            if isinstance(row, UnreadableReference):
                decide(call, action, row.name)
            else:
                decide(call, action, row.name, row.incarnation, ObjId(row.pointer))
        except Denied:
            return False
        return True

    def create(self, call: Call, new: NewReference) -> PendingWrite[Reference]:
        """Prepares a branch or a tag."""
        return self.create_many(call, [new]).then(lambda made: made[0])

    def create_many(
        self, call: Call, requests: Sequence[NewReference]
    ) -> PendingWrite[tuple[Reference, ...]]:
        """Prepares references, all or none; names are added in the lane of their index."""
        if not 0 < len(requests) <= REFERENCES_PER_CALL_MAX:
            raise Invalid(f"one call creates 1 to {REFERENCES_PER_CALL_MAX} references")
        # The index of names is an internal branch, which always exists.
        created = [new.name for new in requests]
        target = WriteTarget(
            self._access, call, Action.CREATE_REFERENCE, REFS_NAME, created=created
        )

        def prepare(claim: ClaimKey) -> NamesWrite[tuple[Reference, ...]]:
            target.check()
            rows = [self._row_of(call, new) for new in requests]
            claimed = claim()
            operation = None if claimed is None else claimed.operation
            add = self._names.prepare_create(rows, call.principal, operation)

            def finish(claimed: ClaimedProposal | None, settled: Settled) -> tuple[Reference, ...]:
                made = self._names.finish_create(add, settled, claimed)
                return tuple(self._resolver.reference(row) for row in made)

            return NamesWrite(add, claimed, finish, len(rows))

        def earlier(done: RequestOutcome) -> tuple[Reference, ...]:
            made = self._names.created_by(done.commits[-1], [ref_name(name) for name in created])
            return tuple(self._resolver.reference(row) for row in made)

        return self._claims.write(target, prepare, earlier)

    def assign(
        self,
        call: Call,
        name: str,
        expected: ReferenceSpec | None,
        source: ReferenceSpec,
        *,
        kind: str | None = None,
    ) -> Reference:
        """Points a reference elsewhere; the old head stays in the ref-log."""
        full, source_name = self._resolver.name(name), source.name or ""
        action = Action.ASSIGN_REFERENCE
        target = WriteTarget(self._access, call, action, full, source=source_name)

        def work(claim: ClaimMove) -> Reference:
            pointer = self._resolver.read(call, Action.READ_CONTENT, source).view.obj_id
            check = self._checked(target, kind, expected)

            def decide(row: ReferenceRow) -> Destination:
                check(row)
                return Destination(pointer, "assign", source_name)

            return earlier(self._names.move(full, decide, call.principal, once=claim()))

        def earlier(moved: MovedReference) -> Reference:
            return self._resolver.reference(moved.row)

        return self._claims.move(target, work, earlier)

    def delete(
        self, call: Call, name: str, expected: ReferenceSpec | None, *, kind: str | None = None
    ) -> Reference:
        """Deletes a reference that points where the caller expects; merged or not."""
        full = self._resolver.name(name)
        if full == self._context.description.default_branch:
            raise Invalid(f"Default branch '{full}' cannot be deleted.")
        target = WriteTarget(self._access, call, Action.DELETE_REFERENCE, full)

        def work(claim: ClaimMove) -> Reference:
            check = self._checked(target, kind, expected)

            def decide(row: ReferenceRow) -> Destination:
                check(row)
                return Destination(ObjId(row.pointer), "delete")

            row = self._names.remove(full, decide, call.principal, once=claim())
            return self._resolver.reference(row)

        return self._claims.move(target, work, lambda moved: self._resolver.reference(moved.row))

    def recent_changes(
        self, call: Call, name: str, *, scan_commits: bool = False
    ) -> ReferenceHistory:
        """Returns where a reference points and pointed; with a scan, whether that is complete."""
        row = self._resolver.read_row(call, Action.VIEW_REFERENCE, name)

        def described(pointer: bytes, when_us: int | None) -> PreviousHead:
            consistent = None
            if scan_commits:
                latest = iterate_log(
                    self._context.views, self._tags.peel(ObjId(pointer)).commit.obj_id
                )
                # To read the latest commits raises an error if one of them is missing.
                consistent = all(True for _ in islice(latest, PAGE_ENTRIES_MAX))
            return PreviousHead(pointer.hex(), when_us, consistent)

        previous = tuple(described(pointer, when) for pointer, when in row.previous)
        current = described(row.pointer, None)
        return ReferenceHistory(self._resolver.reference(row), current, previous)

    def log(
        self, call: Call, name: str, limit: int = 100, token: str | None = None
    ) -> Page[ReferenceMove]:
        """Returns everything that happened to a name, newest first, in all its incarnations."""
        full = self._resolver.name(name)
        self._access.decide(call, Action.READ_LOG, full)
        return self._ref_log.page(full, limit, token)

    def _row_of(self, call: Call, new: NewReference) -> NewReferenceRow:
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
        pointer = self._resolver.read(call, Action.READ_CONTENT, new.source).view.obj_id
        if new.annotation is not None:
            if new.kind != TAG:
                raise Invalid("only a tag is annotated")
            pointer = self._tags.annotate(pointer, new.annotation)
        return NewReferenceRow(name, new.kind, pointer, new.expires_us)

    def _checked(
        self, target: WriteTarget, kind: str | None, expected: ReferenceSpec | None
    ) -> Callable[[ReferenceRow], None]:
        """Returns the check of the row that is about to be moved: authorised, and as expected."""
        view = self._resolver.expected(target.name, expected)

        def check(row: ReferenceRow) -> None:
            target.check_row(row)
            if kind is not None and row.kind != kind:
                raise Invalid(
                    f"Expected reference type {kind} does not match existing reference "
                    f"'{row.name}' of type {row.kind}"
                )
            if view is None:
                return
            head = self._resolver.head(row).obj_id
            if head != view.obj_id:
                raise HeadConflict(
                    f"Named-reference '{row.name}' is not at expected hash '{view.obj_id.hex()}', "
                    f"but at '{head.hex()}'."
                )

        return check

    def _described(self, call: Call, row: ListedReference, *, fetch_all: bool) -> Reference:
        if isinstance(row, UnreadableReference):
            return Reference(row.kind, row.name, "", created_us=row.created_us)
        reference = self._resolver.reference(row)
        if not fetch_all:
            return reference
        return msgspec.structs.replace(reference, metadata=self._metadata(call, row))

    def _metadata(self, call: Call, row: ReferenceRow) -> ReferenceMetadata:
        """Returns what is computed; the distance only from a default branch that one may view."""
        head = self._resolver.head(row)
        meta = None if head.body is None else meta_of(head)
        default = self._context.description.default_branch
        if row.kind != BRANCH or row.name == default:
            return ReferenceMetadata(meta, head.sequence)
        try:
            other = self._resolver.read_row(call, Action.VIEW_REFERENCE, default)
        except Denied:
            return ReferenceMetadata(meta, head.sequence)
        apart = ahead_behind(self._context.views, head, self._resolver.head(other))
        return ReferenceMetadata(meta, head.sequence, apart.ahead, apart.behind, apart.base.hex())
