"""The use case of committing: validated outside the lane as far as possible, planned inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from lochan.access.policy import Action, Call
from lochan.base.errors import Invalid, LochanError, NothingToCommit
from lochan.base.keys import Key, Universe, table_elements
from lochan.base.limits.requests import COMMIT_OPERATIONS_MAX
from lochan.catalog.commit import CatalogCommit, CommitText
from lochan.catalog.contents import load_content_ids
from lochan.catalog.meta import headers_of
from lochan.catalog.types import ContentTypes
from lochan.kernel.changes import own_changes
from lochan.kernel.claims import RequestOutcome
from lochan.kernel.context import RepositoryContext
from lochan.kernel.provenance import Provenance
from lochan.kernel.publish import Published
from lochan.kernel.views import CommitView
from lochan.model.commits import AddedContent, CommitMeta, Committed, Operation
from lochan.model.requests import CommitRequest
from lochan.model.specs import ReferenceSpec
from lochan.service.claims import BranchWrite, ClaimKey, Claims, RepositoryWrites, raise_refusal
from lochan.service.pending_writes import PendingWrite
from lochan.service.policy import Access, WriteTarget, initiator_of
from lochan.service.protection import BranchProtection
from lochan.service.resolve import Resolver


class Commits:
    """Commits to the branches of one repository."""

    def __init__(self, writes: CommitWrites, files: FileCommits) -> None:
        self._writes = writes
        self._files = files

    def commit(
        self,
        call: Call,
        branch: str,
        expected: ReferenceSpec | None,
        meta: CommitMeta,
        operations: Sequence[Operation],
        *,
        staged: bool = False,
        allow_empty: bool = False,
        staged_at: str = "",
    ) -> PendingWrite[Committed]:
        """Prepares a commit; what it expects is as of the expected hash, an ancestor of the head.

        Changes of other keys since then do not matter. With `staged`, the staged files of the
        branch are in the same commit (`service/file_commits.py`), which is long work.
        """
        request = CommitRequest(
            branch=branch,
            expected=expected,
            meta=meta,
            operations=operations,
            staged=staged,
            allow_empty=allow_empty,
            staged_at=staged_at,
        )
        if staged:
            return self._files.build(call, request)
        if allow_empty:
            raise Invalid("only a commit of staged files may be empty")
        return self._writes.build(call, branch, operations, lambda: request, raise_refusal)


class FileCommits(Protocol):
    """Builds the writes that commit staged files."""

    def build(self, call: Call, request: CommitRequest) -> PendingWrite[Committed]:
        """Returns the write of a request."""
        ...


class CommitWrites(RepositoryWrites):
    """Builds the writes that are one commit; a protected branch refuses them."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        resolver: Resolver,
        claims: Claims,
        access: Access,
        protection: BranchProtection,
    ) -> None:
        super().__init__(context, types, resolver, claims, access)
        self._protection = protection

    def build(
        self,
        call: Call,
        branch: str,
        operations: Sequence[Operation],
        plan: Callable[[], CommitRequest],
        refused: Callable[[LochanError], Committed],
    ) -> PendingWrite[Committed]:
        """Returns a write whose commit is planned only if no earlier try has made it.

        `operations` have the keys and the kinds of those of the commit, for the decisions on an
        earlier try.
        """
        name = self._resolver.name(branch)
        # In the lane, where the store may be read: a plain commit is prepared without it.
        target = WriteTarget(
            self._access,
            call,
            Action.COMMIT,
            name,
            operations,
            protected=self._protection.check_write,
        )

        def prepare(claim: ClaimKey) -> BranchWrite[Committed]:
            request = plan()
            proposal = self.propose(target, request)

            def answer(published: Published) -> Committed:
                return Committed(name, published.head.obj_id.hex(), proposal.added)

            count = len(request.operations)
            return BranchWrite(proposal, claim(), answer, refused, operations=count)

        return self._claims.write(target, prepare, partial(self.earlier, target))

    def earlier(self, target: WriteTarget, done: RequestOutcome) -> Committed:
        """Answers from an earlier try, with new contents in the order of this try's keys."""
        if not done.commits:
            raise nothing_staged(target.name)
        commit = done.commits[-1]
        ids = {added.key: added for added in self._added_by(commit)}
        added = tuple(ids[key] for key in dict.fromkeys(target.keys) if key in ids)
        return Committed(target.name, commit.obj_id.hex(), added)

    def propose(self, target: WriteTarget, request: CommitRequest) -> CatalogCommit:
        """Returns the proposal of the operations of a commit."""
        operations, expected = request.operations, request.expected
        if not 0 < len(operations) <= COMMIT_OPERATIONS_MAX:
            raise Invalid(f"a commit has 1 to {COMMIT_OPERATIONS_MAX} operations")
        target.check_early()
        self._resolver.prove_expected(target.call, target.name, expected)
        base = self._resolver.expected_id(target.name, expected)
        text = self.texts(target, request)
        return CatalogCommit(self._context, self._types, target, base, operations, text)

    def texts(self, target: WriteTarget, request: CommitRequest) -> CommitText:
        """Returns the message and the headers of a commit."""
        who = initiator_of(target.call)
        operation = self._context.random.random_bytes(16).hex()
        hidden = Provenance(who=who, operation=operation).headers()
        return CommitText(request.meta.message, headers_of(request.meta, who.name), hidden)

    def _added_by(self, commit: CommitView) -> tuple[AddedContent, ...]:
        """Returns what an earlier try has added: ids that none of its keys held before."""
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


def nothing_staged(branch: str) -> NothingToCommit:
    """Returns the refusal of a commit that would change nothing."""
    return NothingToCommit(f"nothing is staged on {branch!r} that its head does not have")
