"""Staged files of a branch whose head is set elsewhere: by `force`, by an assignment.

Such a move leaves nothing of the old head, so what is staged on top of it would stand on contents
that its writer never saw: it is refused while there are staged changes. Records that agree with the
old head are no changes, but would be some on the new one; they leave the row with the move. Since
writers put records without changing the row, the staging token has to be sealed before. The steps,
all decided on one row:

1. refuse if a staged file differs from the head;
2. if the staging token has records, seal it. That changes the row, so the swap of the move is lost
   and everything starts over. (A crash leaves a sealed token, as that of a commit.)
3. one swap moves the head and takes the sealed tokens out of the row. A file that is staged after
   step 2 is newer than the move and stays staged.
"""

from __future__ import annotations

from lochan.base.errors import StagedWork
from lochan.base.ids import StagingToken
from lochan.codec.rows import ReferenceRow
from lochan.persist.staged import StagedRecords, tokens_of
from lochan.staging.tokens import BranchTokens
from lochan.staging.uncommitted import Uncommitted


class MoveGuard:
    """Keeps moves from losing or hiding staged files of one repository."""

    def __init__(
        self, records: StagedRecords, tokens: BranchTokens, uncommitted: Uncommitted
    ) -> None:
        self._records = records
        self._tokens = tokens
        self._uncommitted = uncommitted

    def prepare(self, row: ReferenceRow, *, dry_run: bool) -> None:
        """Steps 1 and 2; raises StagedWork. A dry run seals nothing."""
        if not tokens_of(row):
            return
        if not self._uncommitted.is_clean_row(row):
            text = f"{row.name!r} has staged changes; commit or reset them before it is moved"
            raise StagedWork(text)
        token = row.staging_token
        if token and not dry_run and not self._records.is_empty(StagingToken(token)):
            self._tokens.seal(row)
