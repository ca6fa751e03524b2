"""Giving up what is staged: of a whole branch, below a prefix, of one file; and the hard reset.

*Branch*: one swap of the row takes all tokens out of it; a sweep drops their records. A write that
is under way notices that its token has left the row and writes again: it comes after the reset.

*Prefix and file*: records that restore what the head has are put over the staged ones: the head's
element where there is one, a deletion where there is none. They are no changes, so a commit leaves
them out. Records are never removed one by one: a copy of a put whose reply was lost could take
effect after the removal, where nothing would be there to make it lose.

*Hard reset*: a move of the branch to another commit.

1. seal the staging token if it has records. (A crash leaves a sealed token, as that of a commit.)
2. one swap moves the head and takes the sealed tokens out of the row, also those without changes:
   on another head their records would be changes. It is refused if a sealed token has changes,
   unless the caller discards them. What was written after step 1 stays staged: it is newer.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import ReferenceNotFound, StagedWork
from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Key
from lochan.base.names import RefName
from lochan.codec.elements import is_remove, same_file
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.provenance import Initiator
from lochan.kernel.references import Destination, ReferenceIndex
from lochan.persist.staged import StagedRecords, tokens_of, tombstone
from lochan.staging.branch_rows import BranchRows
from lochan.staging.layers import Layers, token_source
from lochan.staging.listing import ListingRange
from lochan.staging.reader import BranchReader
from lochan.staging.tokens import BranchTokens
from lochan.staging.uncommitted import Uncommitted
from lochan.staging.writer import StagedWriter

_OPERATION_BYTES: Final = 16

_Records = list[tuple[bytes, bytes]]


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
        """Gives up what is staged below a prefix; returns the number of changes given up."""
        start, end = ListingRange(prefix).keys()
        return self._restore(branch, start, end)

    def reset_key(self, branch: RefName, key: Key) -> bool:
        """Gives up what is staged for one file; returns False if that was nothing."""
        return self._restore(branch, key, key + b"\0") > 0

    def hard_reset(
        self,
        branch: RefName,
        target: ObjId,
        who: Initiator,
        *,
        discard_staged: bool = False,
    ) -> ReferenceRow:
        """Moves a branch to a commit; StagedWork if that would lose staged changes."""
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

        moved = self._names.move(branch, decide, who).row
        self._rows.forget(branch)
        return moved

    def _restore(self, branch: RefName, start: bytes, end: bytes | None) -> int:
        """Puts what the head has over the staged records of a range, until nothing differs."""
        given_up = 0
        retry = self._context.retry()
        while True:
            restored = self._reader.read(branch, lambda row: self._restoring(row, start, end))
            if not restored:
                return given_up
            self._writer.put_records(branch, restored)
            given_up = max(given_up, len(restored))
            # Once more: the head may have changed before the records were put.
            retry.again(at_once=True)

    def _restoring(self, row: ReferenceRow, start: bytes, end: bytes | None) -> _Records:
        """Returns the records that make a range of the branch equal to its head."""
        layers = Layers([token_source(self._records, one, start, end) for one in tokens_of(row)])
        staged: _Records = []
        while (found := layers.next()) is not None:
            staged.append(found)
        current = self._reader.committed(self._reader.head(row), [key for key, _ in staged])
        gone = tombstone(self._context.random.random_bytes(_OPERATION_BYTES))
        restored: _Records = []
        for key, record in staged:
            base = current[key]
            if base is None:
                if not is_remove(record):
                    restored.append((key, gone))
            elif is_remove(record) or not same_file(record, base):
                restored.append((key, base))
        return restored
