"""Use cases on references: read, list, create, assign, delete, and what happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.base.errors import Conflict, HeadConflict, Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits import (
    EXPIRY_GRACE_S,
    PAGE_ENTRIES_MAX,
    REFERENCES_PER_CALL_MAX,
    SCAN_ENTRIES_MAX,
)
from lochan.base.names import REFS_NAME, RefName, ref_name
from lochan.base.times import check_time
from lochan.catalog.meta import meta_of
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.claims import ClaimedMove
from lochan.kernel.history import iterate_log
from lochan.kernel.listing import ListedReference, UnreadableReference, page_references
from lochan.kernel.logs import Logs
from lochan.kernel.parts import Parts
from lochan.kernel.plan import CommitPlan
from lochan.kernel.publish import Settled
from lochan.kernel.references import Destination, MovedReference, Names
from lochan.kernel.references import NewReference as NewRow
from lochan.kernel.reflog import RefLog
from lochan.kernel.tags import BRANCH, TAG, Tags
from lochan.kernel.tags import Annotation as TagText
from lochan.kernel.tokens import PageToken, Tokens
from lochan.kernel.views import CommitView
from lochan.model.references import Annotation, Reference, ReferenceMetadata, ReferenceMove
from lochan.model.results import Page
from lochan.service.calls import ANYONE, Call, Gate, Right
from lochan.service.claims import claim_moves
from lochan.service.filters import FilterKind, compile_filter
from lochan.service.lanes import OnLane
from lochan.service.pages import check_limit
from lochan.service.resolve import Resolver

_KIND: Final = "references"

# Sorts after every character that a name may hold.
_AFTER_NAMES: Final = "\x7f"


class NewReference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to be made; without a source it is a bare branch, which holds nothing."""

    kind: str
    name: str
    source: str | None
    expires_us: int | None = None
    annotation: Annotation | None = None


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

    def __init__(self, parts: Parts, names: Names, resolver: Resolver, gate: Gate) -> None:
        self._parts = parts
        self._names = names
        self._resolver = resolver
        self._gate = gate
        self._tags = Tags(parts, names)
        self._logs = Logs(parts)
        self._ref_log = RefLog(parts)
        self._tokens = Tokens(parts.description.token_key)

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
            rows = page_references(self._parts, self._names, at, end, step)
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

    def create(self, call: Call, new: NewReference) -> OnLane[Reference]:
        """Prepares a branch or a tag."""
        return self.create_many(call, [new]).then(lambda made: made[0])

    def create_many(
        self, call: Call, wanted: Sequence[NewReference]
    ) -> OnLane[tuple[Reference, ...]]:
        """Prepares references, all or none; names are added in the lane of their index."""
        if not 0 < len(wanted) <= REFERENCES_PER_CALL_MAX:
            raise Invalid(f"one call creates 1 to {REFERENCES_PER_CALL_MAX} references")
        for new in wanted:
            self._gate.check(call, Right.CREATE_REFERENCE, new.name)
        # What is yet to be made has no life that could be meant.
        claimed = claim_moves(self._parts, call, "", 0)
        done = self._made_before(wanted, claimed)
        if done is not None:
            return OnLane(REFS_NAME, _NothingToAdd(), lambda _: done)
        rows = [self._row_of(new) for new in wanted]
        operation = None if claimed is None else claimed.operation
        add = self._names.prepare_create(rows, call.who, operation)

        def finish(settled: Settled) -> tuple[Reference, ...]:
            made = self._names.finish_create(add, settled)
            return tuple(self._resolver.reference(row) for row in made)

        return OnLane(REFS_NAME, add, finish, operations=len(rows), finish_writes=True)

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
        self._gate.check(call, Right.ASSIGN_REFERENCE, name)
        full = self._resolver.name(name)
        claimed = self._claim(call, full)
        done = self._done_before(full, claimed)
        if done is not None:
            return self._resolver.reference(done.row)
        view = self._resolver.view(target)
        meant = self._meant(name, kind, expected)
        source = target.partition("@")[0]

        def decide(row: ReferenceRow) -> Destination:
            self._check_meant(row, meant)
            return Destination(view.obj_id, "assign", source)

        row = self._names.move(full, decide, call.who, once=claimed).row
        return self._resolver.reference(row)

    def delete(
        self, call: Call, name: str, expected: str | None, *, kind: str | None = None
    ) -> Reference:
        """Deletes a reference that points where the caller believes; merged or not."""
        self._gate.check(call, Right.DELETE_REFERENCE, name)
        full = self._resolver.name(name)
        if full == self._parts.description.default_branch:
            raise Invalid(f"Default branch '{full}' cannot be deleted.")
        claimed = self._claim(call, full)
        done = self._done_before(full, claimed)
        if done is not None:
            return self._resolver.reference(done.row)
        row = self._names.get(full).row
        if claimed is None or row.incarnation == claimed.incarnation:
            self._check_meant(row, self._meant(name, kind, expected))
        gone = self._names.delete(full, ObjId(row.pointer), call.who, once=claimed)
        return self._resolver.reference(gone)

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
                consistent = all(True for _ in _first(self._parts, view))
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

    def sweep_expired(self, call: Call, limit: int = PAGE_ENTRIES_MAX) -> int:
        """Deletes branches whose time was over a minute ago; returns how many."""
        before_us = self._parts.clock.now_us() - EXPIRY_GRACE_S * 1_000_000
        swept, at = 0, ""
        while True:
            rows = self._names.page(at, None, PAGE_ENTRIES_MAX)
            for row in rows:
                if row.expires_us is None or row.expires_us > before_us:
                    continue
                if row.name == self._parts.description.default_branch or swept == limit:
                    continue
                swept += self._delete_if_still(call, row)
            if len(rows) < PAGE_ENTRIES_MAX:
                return swept
            at = rows[-1].name + "\0"

    def _delete_if_still(self, call: Call, row: ReferenceRow) -> int:
        try:
            self.delete(call, row.name, row.pointer.hex(), kind=row.kind)
        except (Conflict, ReferenceNotFound):
            # Somebody committed meanwhile, and the next sweep looks again; or somebody swept.
            return 0
        return 1

    def _claim(self, call: Call, name: RefName) -> ClaimedMove | None:
        if call.idempotency_key is None:
            return None
        found = self._names.find(name)
        incarnation = None if found is None else found.row.incarnation
        return claim_moves(self._parts, call, name, incarnation)

    def _done_before(self, name: RefName, claimed: ClaimedMove | None) -> MovedReference | None:
        """Returns what an earlier try of the same request has done, whatever happened since."""
        if claimed is None or not claimed.repeated:
            return None
        # What was left half done is finished by looking.
        self._names.find(name)
        return self._names.find_done(name, claimed.operation)

    def _made_before(
        self, wanted: Sequence[NewReference], claimed: ClaimedMove | None
    ) -> tuple[Reference, ...] | None:
        """Returns the references that an earlier try has made, as they were then."""
        made = []
        for new in wanted:
            done = self._done_before(ref_name(new.name), claimed)
            if done is None or done.move is None:
                return None
            row = msgspec.structs.replace(
                done.row, kind=new.kind, created_us=done.move.when_us, expires_us=new.expires_us
            )
            made.append(self._resolver.reference(row))
        return tuple(made)

    def _row_of(self, new: NewReference) -> NewRow:
        name = ref_name(new.name)
        if new.kind not in (BRANCH, TAG):
            raise Invalid(f"a reference is a BRANCH or a TAG, not {new.kind[:40]!r}")
        now_us = self._parts.clock.now_us()
        if new.expires_us is not None and (new.kind != BRANCH or new.expires_us <= now_us):
            raise Invalid("only a branch expires, at a time that is still to come")
        if new.expires_us is not None:
            check_time("expiresAt", new.expires_us)
        if new.source is None:
            if new.kind != BRANCH:
                raise Invalid("a tag names a commit; say which")
            return NewRow(name, BRANCH, EMPTY_ID, new.expires_us)
        pointer = self._resolver.view(new.source).obj_id
        if new.annotation is not None:
            if new.kind != TAG:
                raise Invalid("only a tag is annotated")
            said = new.annotation
            pointer = self._tags.annotate(
                pointer, TagText(said.message, said.properties, said.signature)
            )
        return NewRow(name, new.kind, pointer, new.expires_us)

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
        if row.kind != BRANCH or row.name == self._parts.description.default_branch:
            metadata = ReferenceMetadata(said, head.sequence)
        else:
            default = self._resolver.head(
                self._resolver.row(self._parts.description.default_branch)
            )
            apart = self._logs.ahead_behind(head, default)
            metadata = ReferenceMetadata(
                said, head.sequence, apart.ahead, apart.behind, apart.base.hex()
            )
        return msgspec.structs.replace(reference, metadata=metadata)


class _NothingToAdd:
    """A member in place of names that an earlier try has added."""

    incarnation = None

    def plan(self, head: Head) -> Sequence[CommitPlan]:  # noqa: ARG002 - the protocol says so
        """Plans nothing."""
        return []


def _first(parts: Parts, view: CommitView) -> Sequence[CommitView]:
    """Reads the latest commits of a line; what is missing raises."""
    found = []
    for one in iterate_log(parts.views, view.obj_id):
        found.append(one)
        if len(found) == PAGE_ENTRIES_MAX:
            break
    return found
