"""The use case of committing what is staged, alone or together with operations on tables.

The order is that of every write (`service/claims.py`). The staged records are sealed and read
outside the lane, after the decisions on the branch and after the claim (`staging/committer.py`);
the commit is planned on each head that it meets, after a decision on that head. The caller needs
the right to commit; each staged file was decided on when it was staged.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import LochanError
from lochan.base.ids import ObjId
from lochan.catalog.commit import check_stands_on
from lochan.catalog.meta import meta_of
from lochan.kernel.build import Head
from lochan.kernel.claims import RequestOutcome
from lochan.kernel.plan import Plan
from lochan.kernel.publish import Proposal, Published
from lochan.kernel.views import CommitView
from lochan.model.commits import Committed
from lochan.model.requests import CommitRequest
from lochan.service.claims import BranchWrite, ClaimKey, raise_refusal
from lochan.service.commits import CommitWrites
from lochan.service.file_base import FileContext, FileUseCases
from lochan.service.pending_writes import PendingWrite
from lochan.service.policy import WriteTarget
from lochan.staging.committer import CommitTexts


class StagedCommits(FileUseCases):
    """Builds the writes that commit staged files."""

    def __init__(self, files: FileContext, tables: CommitWrites) -> None:
        super().__init__(files)
        self._tables = tables

    def build(self, call: Call, request: CommitRequest) -> PendingWrite[Committed]:
        """Returns the write of a request: one commit with staged files and its operations."""
        name = self._resolver.name(request.branch)
        operations = request.operations
        protected = self._protection.check_write
        target = WriteTarget(
            self._access, call, Action.COMMIT, name, operations, protected=protected
        )

        def prepare(claim: ClaimKey) -> BranchWrite[Committed]:
            tables = self._tables.propose(target, request) if operations else None
            self._resolver.prove_expected(call, name, request.expected)
            expected = self._resolver.expected(name, request.expected)
            self._check_row(target)
            self._protection.check_write(call, name)
            claimed = claim()
            texts = self._tables.texts(target, request)
            commit = self._staging.committer.prepare(
                name,
                CommitTexts(texts.message, texts.headers, texts.hidden),
                tables=tables,
                allow_empty=request.allow_empty,
                staged_at=ObjId(bytes.fromhex(request.staged_at)),
            )
            proposal: Proposal = commit
            if tables is None:
                proposal = DecidedProposal(target, commit, expected)

            def answer(published: Published) -> Committed:
                head = commit.finish(published).head
                added = () if tables is None else tables.added
                return Committed(name, head.obj_id.hex(), added, meta_of(head))

            count = commit.records + len(operations)
            return BranchWrite(proposal, claimed, answer, raise_refusal, operations=count)

        def earlier(done: RequestOutcome) -> Committed:
            found = self._tables.earlier(target, done)
            return msgspec.structs.replace(found, meta=meta_of(done.commits[-1]))

        return self._claims.write(target, prepare, earlier)

    def _check_row(self, target: WriteTarget) -> None:
        """Decides on the row of the branch, before anything of it is sealed."""
        try:
            row = self._staging.rows.load(target.name).row
        except LochanError:
            target.check()
            raise
        target.check_row(row)


class DecidedProposal:
    """A proposal that is decided on for each head, and that may expect a commit in its line."""

    def __init__(
        self, target: WriteTarget, proposal: Proposal, expected: CommitView | None = None
    ) -> None:
        self._target = target
        self._proposal = proposal
        self._expected = expected
        self.incarnation = proposal.incarnation

    def plan(self, head: Head) -> Sequence[Plan]:
        """Decides, then plans."""
        self._decide(head)
        head.check_again(self._decide)
        return self._proposal.plan(head)

    def _decide(self, head: Head) -> bool:
        self._target.check_head(head)
        if self._expected is not None:
            check_stands_on(head, self._expected)
        return True
