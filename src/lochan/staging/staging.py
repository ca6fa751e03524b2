"""Staging of one repository: its parts, put together."""

from __future__ import annotations

from lochan.base.limits.staging import SEALED_FOLD_MIN
from lochan.base.names import RefName
from lochan.base.ports import NewLock
from lochan.kernel.context import RepositoryContext
from lochan.kernel.references import ReferenceIndex
from lochan.staging.branch_rows import BranchRows
from lochan.staging.committer import FileCommitter
from lochan.staging.listing import BranchListings
from lochan.staging.move_guard import MoveGuard
from lochan.staging.reader import BranchReader
from lochan.staging.reset import Resets
from lochan.staging.tokens import BranchTokens
from lochan.staging.uncommitted import Uncommitted
from lochan.staging.writer import StagedWriter


class Staging:
    """Everything about staged files of one repository on one server; for any number of threads."""

    def __init__(
        self,
        context: RepositoryContext,
        names: ReferenceIndex,
        new_lock: NewLock,
        fold_min: int = SEALED_FOLD_MIN,
    ) -> None:
        records = context.staged
        tokens = BranchTokens(context, names.find, fold_min)
        self.rows = BranchRows(names.find, context.clock, new_lock)
        self.reader = BranchReader(context, self.rows, records)
        self.writer = StagedWriter(context, self.rows, records, tokens, self.reader)
        self.committer = FileCommitter(context, self.rows, records, tokens)
        self.listings = BranchListings(context, self.rows, tokens, self.reader, new_lock)
        self.uncommitted = Uncommitted(records, self.reader)
        self.guard = MoveGuard(records, tokens, self.uncommitted)
        self.resets = Resets(
            context,
            names,
            self.rows,
            records,
            tokens,
            self.reader,
            self.writer,
            self.uncommitted,
        )

    def read_head(self, branch: str) -> str:
        """Returns the hash of a branch as it is now."""
        return self.rows.fetch(RefName(branch)).pointer.hex()
