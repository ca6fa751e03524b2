"""Use cases on references: read, list, create, assign, delete, and what happened to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import HeadConflict, Invalid
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Key, Universe, file_key, file_path, prefix_end
from lochan.base.limits.requests import PAGE_ENTRIES_MAX, REFERENCES_PER_CALL_MAX, SCAN_ENTRIES_MAX
from lochan.base.names import REFS_NAME, ref_name
from lochan.base.times import check_time
from lochan.catalog.meta import meta_of
from lochan.catalog.types import ContentTypes
from lochan.codec.rows import ReferenceRow
from lochan.index.layers import read_page
from lochan.index.marks import is_mark
from lochan.kernel.claims import ClaimedProposal, RequestOutcome
from lochan.kernel.context import RepositoryContext
from lochan.kernel.head_moves import StagedGuard
from lochan.kernel.history import ahead_behind, iterate_log
from lochan.kernel.moves import Once
from lochan.kernel.name_index import ListedReference, UnreadableReference
from lochan.kernel.publish import Settled
from lochan.kernel.references import Destination, MovedReference, NewReferenceRow, ReferenceIndex
from lochan.kernel.reflog import UNREADABLE, RefLog
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
from lochan.service.policy import Access, WriteTarget, initiator_of
from lochan.service.quotas import NO_QUOTA, ReferenceQuota
from lochan.service.resolve import Resolver
from lochan.service.write_rights import MovedKeys, check_whole

_KIND: Final = "references"

# Sorts after every character that a name may hold.
_AFTER_NAMES: Final = "\x7f"

# The first key after those of all names in their index.
_AFTER_FILES: Final = prefix_end(bytes((Universe.FILES,)))

_NAME_IN_SPEC: Final = re.compile(r"[^@~^*]+")
_COMMIT: Final = re.compile(r"[0-9a-f]{64}")


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
        guard: StagedGuard,
        quota: ReferenceQuota = NO_QUOTA,
    ) -> None:
        super().__init__(context, types, resolver, claims, access)
        self._names = names
        self._guard = guard
        self._quota = quota
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
        after: str = "",
    ) -> Page[Reference]:
        """Returns references in the order of their names, after one if given; all without a limit.

        Those that the caller may not view are left out. A page looks at a bounded number of those
        that a filter or a right leaves out, so it may be short and still have a token. One whose
        row has a newer format is listed without a hash.
        """
        check_limit(limit)
        self._access.check_seen(call)
        selected = f"{prefix}\0{filter}\0{after}"
        if not (prefix + after).isascii():
            # Names are ASCII, so none begins with this prefix.
            return Page((), None)
        at, end = max(prefix, after and f"{after}\0"), f"{prefix}{_AFTER_NAMES}" if prefix else None
        if token is not None:
            at = self._place_of(PageToken(token), selected)
        accepts = compile_filter(filter, FilterKind.REFERENCES)
        with_metadata = fetch_all or (accepts is not None and accepts.reads_metadata)
        found: list[Reference] = []
        scanned = hidden = 0
        further: str | None = None
        while further is None:
            count = PAGE_ENTRIES_MAX if limit is None or accepts else limit - len(found) + 1
            step = PAGE_ENTRIES_MAX if hidden else min(count, PAGE_ENTRIES_MAX)
            rows = self._names.page(at, end, step)
            if rows and hidden >= SCAN_ENTRIES_MAX:
                return Page(tuple(found), self._concealed(rows[0].name, selected))
            seen = [row for row in rows if self._may_view(call, row)]
            hidden += len(rows) - len(seen)
            scanned += len(seen) * (1 if accepts is None else accepts.cost())
            for row in seen:
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
            if further is None and accepts is not None and seen and scanned >= SCAN_ENTRIES_MAX:
                further = seen[-1].name + "\0"
        if further is None:
            return Page(tuple(found), None)
        next_page = self._tokens.make(_KIND, EMPTY_ID, further.encode(), selected)
        return Page(tuple(found), next_page)

    def _place_of(self, token: PageToken, selected: str) -> str:
        """Returns the name where a page begins."""
        commit, place = self._tokens.read(token, _KIND, selected)
        if not is_mark(place):
            return place.decode()
        index = self._context.views.load(commit)
        return file_path(Key(self._reveal(index, index.files, place)))

    def _concealed(self, name: str, selected: str) -> PageToken | None:
        """Returns a token for the page that begins at a name, which it does not show.

        The place is one in the present index of names. If the name was deleted there since it was
        read, the next one is marked; None if there is none.
        """
        index = self._names.index()
        following = read_page(
            self._context.nodes, index.files, bytes(file_key(name)), _AFTER_FILES, 1
        )
        if not following:
            return None
        place = self._conceal(index, index.files, following[0][0])
        return self._tokens.make(_KIND, index.obj_id, place, selected)

    def _may_view(self, call: Call, row: ListedReference) -> bool:
        """Returns whether a listing shows a reference."""
        if isinstance(row, UnreadableReference):
            return self._views(call, row.name)
        return self._access.allows(
            call, Action.VIEW_REFERENCE, row.name, row.incarnation, ObjId(row.pointer)
        )

    def _views(self, call: Call, name: str) -> bool:
        return self._access.allows(call, Action.VIEW_REFERENCE, name)

    def create(self, call: Call, new: NewReference) -> PendingWrite[Reference]:
        """Prepares a branch or a tag."""
        return self.create_many(call, [new]).then(lambda made: made[0])

    def create_many(
        self, call: Call, requests: Sequence[NewReference]
    ) -> PendingWrite[tuple[Reference, ...]]:
        """Prepares references, all or none; names are added in the lane of their index.

        A reference shows the commit that it points to as a whole, so the caller needs the right
        to read all keys of the source, or the same rights under the new name.
        """
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
            add = self._names.prepare_create(
                rows, initiator_of(call), operation, self._quota.branches_max
            )

            def finish(claimed: ClaimedProposal | None, settled: Settled) -> tuple[Reference, ...]:
                made = self._names.finish_create(add, settled, claimed)
                return tuple(self._resolver.reference(row) for row in made)

            return NamesWrite(add, claimed, finish, len(rows))

        def earlier(done: RequestOutcome) -> tuple[Reference, ...]:
            made = self._names.created_by(done.commits[-1], [ref_name(name) for name in created])
            references = tuple(self._resolver.reference(row) for row in made)
            for new, reference in zip(requests, references, strict=True):
                self._check_copied(call, new, ObjId(bytes.fromhex(reference.hash)))
            return references

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
        """Points a reference elsewhere; the old head stays in the ref-log.

        StagedWork if files are staged on it.
        """
        full, source_name = self._resolver.name(name), source.name or ""
        action = Action.ASSIGN_REFERENCE
        target = WriteTarget(self._access, call, action, full, source=source_name)
        rights = MovedKeys(target, self._resolver.name(source_name) if source_name else None)

        def work(claim: ClaimMove) -> Reference:
            view = self._resolver.read(call, Action.READ_CONTENT, source).view
            rights.check_source()
            check = self._checked(target, kind, expected)

            def decide(row: ReferenceRow, *, dry_run: bool) -> Destination:
                rights.check_row(row)
                check(row)
                rights.check_change(self._context.nodes, self._resolver.head(row), view)
                leaves = row.pointer != view.obj_id
                if leaves:
                    self._guard.prepare(row, dry_run=dry_run)
                return Destination(view.obj_id, "assign", source_name, drops_sealed=leaves)

            def move(once: Once | None, *, dry_run: bool) -> MovedReference:
                chosen, who = partial(decide, dry_run=dry_run), initiator_of(call)
                return self._names.move(full, chosen, who, dry_run=dry_run, once=once)

            if call.idempotency_key is not None and not rights.is_full:
                # What is denied writes nothing, not even its claim.
                move(None, dry_run=True)
            return self._resolver.reference(move(claim(), dry_run=False).row)

        def earlier(made: MovedReference) -> Reference:
            rights.check_made(self._context, made)
            return self._resolver.reference(made.row)

        return self._claims.move(target, work, earlier)

    def delete(
        self, call: Call, name: str, expected: ReferenceSpec | None, *, kind: str | None = None
    ) -> Reference:
        """Deletes a reference that points where the caller expects; merged or not."""
        full = self._resolver.name(name)
        target = WriteTarget(self._access, call, Action.DELETE_REFERENCE, full)

        def work(claim: ClaimMove) -> Reference:
            if full == self._context.description.default_branch:
                raise Invalid(f"Default branch '{full}' cannot be deleted.")
            check = self._checked(target, kind, expected)

            def decide(row: ReferenceRow) -> Destination:
                target.check_row(row)
                check(row)
                return Destination(ObjId(row.pointer), "delete")

            row = self._names.remove(full, decide, initiator_of(call), once=claim())
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
        """Returns everything that happened to a name, newest first, in all its incarnations.

        The name of a source is left out if the caller may not view it.
        """
        self._access.check_seen(call)
        full = self._resolver.name(name)
        self._access.decide(call, Action.READ_LOG, full)
        page = self._ref_log.page(full, limit, token)
        shown = tuple([self._without_hidden_source(call, move) for move in page.items])
        return msgspec.structs.replace(page, items=shown)

    def _without_hidden_source(self, call: Call, move: ReferenceMove) -> ReferenceMove:
        if move.kind == UNREADABLE or all(
            self._views(call, name) for name in _names_in(move.source)
        ):
            return move
        return msgspec.structs.replace(move, source="")

    def _row_of(self, call: Call, new: NewReference) -> NewReferenceRow:
        name = ref_name(new.name)
        if new.kind not in (BRANCH, TAG):
            raise Invalid(f"a reference is a BRANCH or a TAG, not {new.kind[:40]!r}")
        now_us = self._context.clock.now_us()
        if new.expires_us is not None and (new.kind != BRANCH or new.expires_us <= now_us):
            raise Invalid("only a branch expires, at a time that is still to come")
        if new.expires_us is not None:
            check_time("expiresAt", new.expires_us)
        if new.kind == BRANCH:
            try:
                self._quota.check_expiry(new.expires_us, now_us)
            except Invalid as error:
                raise self._access.refused(call, Action.CREATE_REFERENCE, name, error) from None
        if new.source is None:
            if new.kind != BRANCH:
                raise Invalid("a tag names a commit; say which")
            return NewReferenceRow(name, BRANCH, EMPTY_ID, new.expires_us, new.concealed)
        source = self._resolver.read(call, Action.READ_CONTENT, new.source)
        reference = None if source.row is None else source.row.name
        check_whole(self._access, call, reference, name)
        pointer = source.view.obj_id
        if new.annotation is not None:
            if new.kind != TAG:
                raise Invalid("only a tag is annotated")
            pointer = self._tags.annotate(pointer, new.annotation)
        return NewReferenceRow(name, new.kind, pointer, new.expires_us, new.concealed)

    def _check_copied(self, call: Call, new: NewReference, commit: ObjId) -> None:
        """Raises Denied unless the caller may create a reference that it has created before."""
        if new.source is not None:
            named = new.source.name
            source = None if named is None else self._resolver.name(named)
            self._access.decide(call, Action.READ_CONTENT, source, None, commit)
            check_whole(self._access, call, source, new.name)

    def _checked(
        self, target: WriteTarget, kind: str | None, expected: ReferenceSpec | None
    ) -> Callable[[ReferenceRow], None]:
        """Returns the check that the row which is about to be moved is as expected."""
        self._resolver.prove_expected(target.call, target.name, expected)
        view = self._resolver.expected(target.name, expected)

        def check(row: ReferenceRow) -> None:
            if kind is not None and row.kind != kind:
                raise Invalid(
                    f"Expected reference type {kind} does not match existing reference "
                    f"'{row.name}' of type {row.kind}"
                )
            if view is None or expected is None:
                return
            head = self._resolver.head(row).obj_id
            if head != view.obj_id:
                self._resolver.check_expected(target.call, row, expected, view)
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
        """Returns what is computed, as far as the caller may read it.

        The message of the head is part of the log; the distance is only from a default branch that
        the caller may view.
        """
        head = self._resolver.head(row)
        meta = None
        if head.body is not None and self._access.allows(
            call, Action.READ_LOG, row.name, row.incarnation, head.obj_id
        ):
            meta = meta_of(head)
        default = self._context.description.default_branch
        if row.kind != BRANCH or row.name == default or not self._views(call, default):
            return ReferenceMetadata(meta, head.sequence)
        other = self._resolver.read_row(call, Action.VIEW_REFERENCE, default)
        apart = ahead_behind(self._context.views, head, self._resolver.head(other))
        return ReferenceMetadata(meta, head.sequence, apart.ahead, apart.behind, apart.base.hex())


def _names_in(source: str) -> Iterator[str]:
    """Yields the names of references in what a move has recorded as its source.

    That is one specification, or several with commas; a commit may be named by its hash.
    """
    for text in source.split(","):
        name = _NAME_IN_SPEC.match(text)
        if name is not None and _COMMIT.fullmatch(name[0]) is None:
            yield name[0]
