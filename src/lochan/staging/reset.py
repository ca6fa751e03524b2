"""Giving up what is staged: of a whole branch, below a prefix, of one file; and the hard reset.

*Branch*: one swap of the row takes all tokens out of it; a sweep drops their records. A write that
is under way notices that its token has left the row and writes again: it comes after the reset.

*Prefix and file*: cleared records (`persist/staged.py`) are put over the staged ones. They hide
what older tokens have, and the head shows through them, also one that a merge brings later; a
commit leaves them out. Records are never removed one by one: a copy of a put whose reply was lost
could take effect after the removal, where nothing would be there to make it lose. For the same
reason a reset of one file puts its record even if nothing is staged; a reset of a prefix cannot, so
a write below it whose outcome is unknown may still take effect afterwards. A commit that
began before the reset has ended may still publish what it has sealed; the branch shows that then.

*Hard reset*: a move of the branch to another commit.

1. seal the staging token if it has records. (A crash leaves a sealed token, as that of a commit.)
2. one swap moves the head and takes the sealed tokens out of the row, also those without changes:
   on another head their records would be changes. It is refused if a sealed token has changes,
   unless the caller discards them. What was written after step 1 stays staged: it is newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.base.errors import ReferenceNotFound, StagedWork
from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Key
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.moves import Once
from lochan.kernel.provenance import Initiator
from lochan.kernel.references import Destination, ReferenceIndex
from lochan.persist.staged import StagedRecords, cleared, is_cleared, tokens_of
from lochan.staging.branch_rows import BranchRows
from lochan.staging.layers import Layers, token_source
from lochan.staging.listing import ListingRange
from lochan.staging.reader import BranchReader
from lochan.staging.tokens import BranchTokens
from lochan.staging.uncommitted import Uncommitted
from lochan.staging.writer import StagedWriter

_OPERATION_BYTES: Final = 16


class Resets:
    """Gives up staged files of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        names: ReferenceIndex,
        rows: BranchRows,
        records: StagedRecords,
        tokens: BranchTokens,
        reader: BranchReader,
        writer: StagedWriter,
        uncommitted: Uncommitted,
    ) -> None:
        self._context = context
        self._names = names
        self._rows = rows
        self._records = records
        self._tokens = tokens
        self._reader = reader
        self._writer = writer
        self._uncommitted = uncommitted

    def reset_branch(self, branch: RefName) -> None:
        """Gives up everything that is staged on a branch."""
        row = self._rows.fetch(branch)
        if tokens_of(row):
            self._tokens.discard(row)
            self._rows.forget(branch)

    def reset_prefix(self, branch: RefName, prefix: str) -> int:
        """Gives up what is staged below a prefix; returns the number of records given up."""
        start, end = ListingRange(prefix).keys()
        return self._clear(branch, start, end)

    def reset_key(self, branch: RefName, key: Key) -> bool:
        """Gives up what is staged for one file; returns False if that was nothing.

        The cleared record is put in any case: a write whose outcome is unknown may be under way,
        and loses to it.
        """
        staged = self._reader.read(branch, lambda row: self._staged(row, key, key + b"\0"))
        if staged or self._rows.fetch(branch).staging_token:
            self._put_cleared(branch, [key])
        return bool(staged)

    def hard_reset(
        self,
        branch: RefName,
        target: ObjId,
        who: Initiator,
        *,
        discard_staged: bool = False,
        once: Once | None = None,
    ) -> ReferenceRow:
        """Moves a branch to a commit; StagedWork if that would lose staged changes.

        With `once` the move is made once, however often it is tried.
        """
        row = self._rows.fetch(branch)
        if row.staging_token and not self._records.is_empty(StagingToken(row.staging_token)):
            row = self._tokens.seal(row)
        incarnation = row.incarnation

        def decide(found: ReferenceRow) -> Destination:
            if found.incarnation != incarnation:
                raise ReferenceNotFound(f"the branch {branch!r} was deleted and created again")
            sealed = msgspec.structs.replace(found, staging_token=b"")
            if not discard_staged and not self._uncommitted.is_clean_row(sealed):
                raise StagedWork(
                    f"{branch!r} has staged changes; commit or reset them, or discard them"
                )
            return Destination(target, "reset", target.hex(), drops_sealed=True)

        moved = self._names.move(branch, decide, who, once=once).row
        self._rows.forget(branch)
        return moved

    def _clear(self, branch: RefName, start: bytes, end: bytes | None) -> int:
        """Puts cleared records over the staged records of a range; returns their number."""
        staged = self._reader.read(branch, lambda row: self._staged(row, start, end))
        self._put_cleared(branch, staged)
        return len(staged)

    def _put_cleared(self, branch: RefName, keys: Sequence[bytes]) -> None:
        record = cleared(self._context.random.random_bytes(_OPERATION_BYTES))
        self._writer.put_records(branch, [(key, record) for key in keys])

    def _staged(self, row: ReferenceRow, start: bytes, end: bytes | None) -> list[bytes]:
        """Returns the keys of a range under which something is staged."""
        layers = Layers([token_source(self._records, one, start, end) for one in tokens_of(row)])
        staged: list[bytes] = []
        while (found := layers.next()) is not None:
            if not is_cleared(found[1]):
                staged.append(found[0])
        return staged
