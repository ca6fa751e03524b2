"""The use case of committing: validated outside the lane as far as possible, planned inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from lochan.base.errors import Invalid
from lochan.base.keys import Key, Universe, table_elements
from lochan.base.limits import COMMIT_OPERATIONS_MAX
from lochan.base.names import RefName
from lochan.catalog.commit import CatalogCommit, CommitText
from lochan.catalog.contents import load_content_ids
from lochan.catalog.meta import headers_of
from lochan.catalog.types import ContentTypes
from lochan.kernel.changes import own_changes
from lochan.kernel.claims import Done, Request
from lochan.kernel.context import RepositoryContext
from lochan.kernel.provenance import Provenance
from lochan.kernel.publish import Settled
from lochan.kernel.views import CommitView
from lochan.model.commits import AddedContent, CommitMeta, Committed, Operation
from lochan.model.specs import ReferenceSpec
from lochan.service.calls import Call, Gate, Right
from lochan.service.claims import Claims
from lochan.service.pending_writes import PendingWrite, answered
from lochan.service.resolve import Resolver

_Answer = TypeVar("_Answer")


class Commits:
    """Commits to the branches of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        resolver: Resolver,
        claims: Claims,
        gate: Gate,
    ) -> None:
        self._context = context
        self._types = types
        self._resolver = resolver
        self._claims = claims
        self._gate = gate

    def commit(
        self,
        call: Call,
        branch: str,
        expected: ReferenceSpec | None,
        meta: CommitMeta,
        operations: Sequence[Operation],
    ) -> PendingWrite[Committed]:
        """Prepares a commit; what it expects is as of the expected hash, an ancestor of the head.

        Changes of other keys since then do not matter.
        """

        def work(request: Request | None, earlier: Committed | None) -> PendingWrite[Committed]:
            if earlier is not None:
                return answered(_in_order(earlier, operations))
            return self.prepare(call, request, branch, expected, meta, operations)

        return self.attempt(call, branch, work)

    def attempt(
        self,
        call: Call,
        branch: str,
        prepare: Callable[[Request | None, Committed | None], PendingWrite[_Answer]],
    ) -> PendingWrite[_Answer]:
        """Prepares a write that is one commit, or answers it from what an earlier try committed."""
        if call.idempotency_key is None:
            return prepare(None, None)
        name = self._resolver.name(branch)

        def find(request: Request) -> Committed | None:
            done = self._claims.find_commits(call, request)
            return None if done is None else self._committed(name, done)

        request = self._claims.request(call, Right.COMMIT, name)
        return self._claims.attempt(request, find, partial(prepare, request))

    def prepare(
        self,
        call: Call,
        request: Request | None,
        branch: str,
        expected: ReferenceSpec | None,
        meta: CommitMeta,
        operations: Sequence[Operation],
    ) -> PendingWrite[Committed]:
        """Prepares a commit that was not made before, as far as is known."""
        name = self._resolver.name(branch)
        self._gate.check(call, Right.COMMIT, name)
        if not 0 < len(operations) <= COMMIT_OPERATIONS_MAX:
            raise Invalid(f"a commit has 1 to {COMMIT_OPERATIONS_MAX} operations")
        said = Provenance(who=call.who, operation=self._context.random.random_bytes(16).hex())
        text = CommitText(meta.message, headers_of(meta, call.who), said.headers())
        base = self._resolver.expected_id(name, expected)
        proposal = CatalogCommit(self._context, self._types, base, operations, text)
        tried = self._claims.once(request, proposal)

        def finish(settled: Settled) -> Committed:
            outcome = tried.settle(settled)
            if isinstance(outcome, Done):
                return _in_order(self._committed(name, outcome), operations)
            return Committed(name, outcome.head.obj_id.hex(), proposal.added)

        return PendingWrite(
            name, tried.proposal, finish, operations=len(operations), keyed=request is not None
        )

    def _committed(self, name: RefName, done: Done) -> Committed:
        commit = done.commits[-1]
        return Committed(name, commit.obj_id.hex(), self._added_by(commit))

    def _added_by(self, commit: CommitView) -> tuple[AddedContent, ...]:
        """Finds out what an earlier try has added: ids that no key of it held before."""
        changes = own_changes(self._context.views, self._context.nodes, commit)
        changes = [change for change in changes if change.key[0] == Universe.TABLES]
        before = [change.left for change in changes if change.left is not None]
        after = {change.key: change.right for change in changes if change.right is not None}
        ids = load_content_ids(self._context, self._types, [*before, *after.values()])
        known = {ids[element] for element in before}
        return tuple(
            AddedContent(table_elements(Key(key)), ids[element])
            for key, element in after.items()
            if ids[element] not in known
        )


def _in_order(committed: Committed, operations: Sequence[Operation]) -> Committed:
    """Returns an earlier answer with the new contents in the order in which they were sent."""
    ids = {added.key: added for added in committed.added}
    sent = dict.fromkeys(operation.key for operation in operations)
    added = tuple(ids[key] for key in sent if key in ids)
    return msgspec.structs.replace(committed, added=added)
