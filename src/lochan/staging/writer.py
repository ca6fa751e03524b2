"""Staging files: puts and deletions that the next commit of the branch takes.

The steps of a write, and what a crash after each leaves:

1. take the staging token from the row of the branch, from memory if it is there; a branch without a
   token gets its first one (`tokens.py`);
2. put the records. (A crash leaves records that were not acknowledged: they may be seen, committed,
   or dropped with a dead token.)
3. read the row again, always from the store. If incarnation and staging token are the same, no
   commit has begun to read the token before the records were in it: acknowledge.
   Otherwise the records may have come too late for the commit that sealed the token: go to step 2
   with the row that was just read. The file that an earlier round has put is the same file, so that
   writing it again is no further change.

Every record is put on condition that the one before is as it was seen. So a copy of a put whose
reply was lost cannot replace, when it takes effect late, what another writer has put since.

The first put may take effect whatever happens later. So an error that states "no effect" may leave
this module before it only; afterwards a write that gives up is Unknown.

A *conditional* write evaluates its condition on what the branch shows, then puts its record on
condition that the record of the staging token is still the one that was evaluated. If the token was
sealed meanwhile, the next round may find the record of the first: it is recognised by its operation
id, in a token or in the commit that took it, and is no reason to refuse. If another writer's record
is there, this write may be in a commit below it, or not: the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final

import msgspec

from lochan.base.errors import (
    ConditionFailed,
    Exhausted,
    NotABranch,
    NotFound,
    ReferenceNotFound,
    Unavailable,
    Unknown,
)
from lochan.base.ids import StagingToken
from lochan.base.keys import Key, file_path
from lochan.base.names import RefName
from lochan.codec.elements import encode_file, is_remove
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kv.store import ABSENT, Adds, Entry, Expected, Won
from lochan.model.entries import FileEntry
from lochan.persist.retry import Retry
from lochan.persist.staged import (
    NO_OBJECTS,
    RecordWrite,
    StagedRecords,
    is_cleared,
    operation_of,
    tokens_of,
    tombstone,
)
from lochan.staging.branch_rows import BranchRows, SeenRow
from lochan.staging.conditions import ALWAYS, Condition
from lochan.staging.reader import BranchReader, is_true
from lochan.staging.tokens import BranchTokens

_OPERATION_BYTES: Final = 16

# After so many rounds there is more to wait for than one commit of files.
_AT_ONCE_MAX: Final = 3

Records = Sequence[tuple[bytes, bytes]]
"""Keys and records to be put under them."""


class StagedWriter:
    """Stages files on the branches of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        rows: BranchRows,
        records: StagedRecords,
        tokens: BranchTokens,
        reader: BranchReader,
    ) -> None:
        self._context = context
        self._rows = rows
        self._records = records
        self._tokens = tokens
        self._reader = reader

    def put(
        self,
        branch: RefName,
        key: Key,
        entry: FileEntry,
        condition: Condition = ALWAYS,
        *,
        objects: Adds = NO_OBJECTS,
        incarnation: int | None = None,
    ) -> FileEntry:
        """Stages a file; returns its entry as stored.

        ConditionFailed if the file that is there is not as the condition demands. `objects` are
        stored by the same write as the record that names them. With an `incarnation`, another one
        of the branch is as good as none.
        """
        entry = self._named(entry)
        write = RecordWrite(key, encode_file(entry), objects=objects)
        if condition is ALWAYS:
            self._write(branch, [write], incarnation)
        else:
            self._write_if(branch, write, entry.operation, condition, incarnation)
        return entry

    def put_many(self, branch: RefName, items: Sequence[tuple[Key, FileEntry]]) -> None:
        """Stages files; of two with one key the last counts."""
        entries = {key: encode_file(self._named(entry)) for key, entry in items}
        self.put_records(branch, list(entries.items()))

    def delete(
        self, branch: RefName, key: Key, condition: Condition = ALWAYS, operation: bytes = b""
    ) -> bool:
        """Stages the deletion of a file; returns False if there was none."""
        operation = operation or self._context.random.random_bytes(_OPERATION_BYTES)
        if condition is not ALWAYS:
            write = RecordWrite(key, tombstone(operation))
            self._write_if(branch, write, operation, condition)
            return True
        if self._reader.find(branch, key) is None:
            return False
        self.put_records(branch, [(key, tombstone(operation))])
        return True

    def delete_many(self, branch: RefName, keys: Sequence[Key]) -> None:
        """Stages the deletion of files; one that does not exist is left aside."""
        wanted = list(dict.fromkeys(keys))
        found = self._reader.find_many(branch, wanted)
        record = tombstone(self._context.random.random_bytes(_OPERATION_BYTES))
        there = [key for key, entry in zip(wanted, found, strict=True) if entry is not None]
        self.put_records(branch, [(key, record) for key in there])

    def put_records(self, branch: RefName, records: Records) -> None:
        """Stages records as they are."""
        self._write(branch, [RecordWrite(key, value) for key, value in records])

    def _named(self, entry: FileEntry) -> FileEntry:
        if entry.operation:
            return entry
        operation = self._context.random.random_bytes(_OPERATION_BYTES)
        return msgspec.structs.replace(entry, operation=operation)

    def _write(
        self, branch: RefName, writes: Sequence[RecordWrite], incarnation: int | None = None
    ) -> None:
        """All steps of an unconditional write."""
        if not writes:
            return
        row = self._rows.load(branch).row
        attempt = _Attempt(self._context.retry())
        with attempt:
            while True:
                row = self._with_token(row)
                _check_incarnation(row, incarnation)
                token = StagingToken(row.staging_token)
                self._put_all(token, writes, attempt)
                again = self._rows.fetch(branch)
                if _is_staging(again, row, token):
                    return
                row = again
                attempt.again()

    def _with_token(self, row: ReferenceRow) -> ReferenceRow:
        """Step 1: the row with a token; sets the first one of the branch."""
        if not row.staging_token:
            row = self._tokens.ensure(row)
            self._rows.forget(RefName(row.name))
            if not row.staging_token:
                # Another incarnation without a token.
                row = self._tokens.ensure(row)
        return row

    def _put_all(
        self, token: StagingToken, writes: Sequence[RecordWrite], attempt: _Attempt
    ) -> None:
        """Step 2: puts all records over whatever is there."""
        step = self._batch_max(writes)
        for start in range(0, len(writes), step):
            batch = list(writes[start : start + step])
            while batch:
                batch = self._put_batch(token, batch, attempt)

    def _put_batch(
        self, token: StagingToken, writes: Sequence[RecordWrite], attempt: _Attempt
    ) -> list[RecordWrite]:
        """Puts a batch once; returns what has to be put again, on the records that are there."""
        try:
            outcomes = self._records.put_each(token, writes)
        except Unknown:
            # The same conditional writes again: of two copies of one at most one takes effect.
            attempt.has_put = True
            attempt.again(at_once=False)
            return list(writes)
        attempt.has_put = True
        left: list[RecordWrite] = []
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Won):
                continue
            current = outcome.current
            if current is None:
                current = self._records.fetch([token], [write.key])[0][0] or ABSENT
            if not isinstance(current, Entry):
                left.append(msgspec.structs.replace(write, expected=ABSENT))
            elif current.value != write.value:
                left.append(msgspec.structs.replace(write, expected=current.stamp))
        return left

    def _batch_max(self, writes: Sequence[RecordWrite]) -> int:
        if len(writes) == 1:
            return 1
        capabilities = self._context.store.capabilities
        largest = max(len(write.value) for write in writes)
        return max(1, min(capabilities.batch_items_max, capabilities.batch_bytes_max // largest))

    def _write_if(
        self,
        branch: RefName,
        write: RecordWrite,
        operation: bytes,
        condition: Condition,
        incarnation: int | None = None,
    ) -> None:
        """All steps of a conditional write."""
        key = write.key
        row = self._rows.fetch(branch)
        attempt = _Attempt(self._context.retry())
        with attempt:
            while True:
                row = self._with_token(row)
                _check_incarnation(row, incarnation)
                shown = self._look(row, key, operation)
                if not shown.is_own and not condition.holds(shown.element):
                    again = self._rows.fetch(branch)
                    if is_true(SeenRow(row, True), again) and (
                        not shown.shows_head or self._reader.has_same_files(row, again, [key])
                    ):
                        raise _refusal(branch, key, condition)
                    row = again
                elif self._put_over(row, write, shown.expected, attempt):
                    again = self._rows.fetch(branch)
                    if _is_staging(again, row, row.staging_token):
                        self._check_below(again, shown, key, operation, condition)
                        return
                    row = again
                else:
                    row = self._rows.fetch(branch)
                attempt.again()

    def _look(self, row: ReferenceRow, key: bytes, operation: bytes) -> _Shown:
        """Returns what the branch shows at a key, and the record of the staging token there."""
        (top,), *lower = self._records.fetch(tokens_of(row), [key])
        was_reset = top is not None and is_cleared(top.value)
        below = next((layer[0].value for layer in lower if layer[0] is not None), None)
        shows_head = was_reset or (top is None and below is not None and is_cleared(below))
        if was_reset or below is None or is_cleared(below):
            below = self._committed(row, key)
        record = below if top is None or was_reset else top.value
        return _Shown(
            None if record is None or is_remove(record) else record,
            record is not None and operation_of(record) == operation,
            ABSENT if top is None else top.stamp,
            top is not None and not was_reset,
            was_reset,
            shows_head,
            below,
        )

    def _committed(self, row: ReferenceRow, key: bytes) -> bytes | None:
        return self._reader.committed(self._reader.head(row), [key])[key]

    def _put_over(
        self, row: ReferenceRow, write: RecordWrite, expected: Expected, attempt: _Attempt
    ) -> bool:
        """Puts a record on condition that the present one is as it was seen; False if it is not."""
        token = StagingToken(row.staging_token)
        write = msgspec.structs.replace(write, expected=expected)
        while True:
            try:
                (outcome,) = self._records.put_each(token, [write])
            except Unknown:
                attempt.has_put = True
                attempt.again(at_once=False)
                continue
            if isinstance(outcome, Won):
                attempt.has_put = True
                return True
            # A copy of this write whose reply was lost may be what it has lost to.
            found = self._records.fetch([token], [write.key])[0][0]
            return found is not None and found.value == write.value

    def _check_below(
        self,
        row: ReferenceRow,
        shown: _Shown,
        key: bytes,
        operation: bytes,
        condition: Condition,
    ) -> None:
        """Raises Unknown if a head that came meanwhile has another file at the key.

        A merge that was published while the record was put may have brought one; it was not
        evaluated, and the record hides it.
        """
        if shown.is_staged or shown.is_own:
            return
        # The record of the reset is replaced now; it hid what older tokens have.
        below = (
            self._committed(row, key) if shown.was_reset else self._look(row, key, operation).below
        )
        if below == shown.below or (below is not None and operation_of(below) == operation):
            return
        if not condition.holds(None if below is None or is_remove(below) else below):
            raise Unknown(
                "the head got another file while this one was staged",
                public="it is unknown whether the file was written as demanded; read it",
            )


class _Shown(msgspec.Struct, frozen=True, gc=False):
    """What a branch shows at a key: the element, whether it is that of the caller's own write.

    `expected` is the record of the staging token, for the write that replaces it; `is_staged`
    states that it decides what is shown, `was_reset` that it is a cleared one, `shows_head` that a
    cleared record lets the head be shown. `below` is what is under it: the record of a sealed
    token, or the element of the head.
    """

    element: bytes | None
    is_own: bool
    expected: Expected
    is_staged: bool
    was_reset: bool
    shows_head: bool
    below: bytes | None


class _Attempt:
    """The rounds of one write; once it may have put something, no error states "no effect"."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.has_put = False

    def again(self, *, at_once: bool = True) -> None:
        """Returns when the next round may start; Exhausted when there is none."""
        self._retry.again(at_once=at_once and self._retry.attempts <= _AT_ONCE_MAX)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.has_put and isinstance(error, NO_EFFECT):
            raise Unknown(
                f"a staged write was put and not finished ({error.message})",
                public="it is unknown whether the file was written; read it, or write it again",
            ) from error


NO_EFFECT: Final = (ConditionFailed, Exhausted, NotABranch, NotFound, Unavailable)
"""Errors that state that nothing was changed."""


def _check_incarnation(row: ReferenceRow, incarnation: int | None) -> None:
    """Raises ReferenceNotFound for another incarnation than the one that is meant."""
    if incarnation not in (None, row.incarnation):
        raise ReferenceNotFound(f"the branch {row.name!r} was deleted and created again")


def _is_staging(row: ReferenceRow, before: ReferenceRow, token: bytes) -> bool:
    """Step 3: whether records that were put into a token are where the next commit finds them."""
    return row.incarnation == before.incarnation and row.staging_token == token


def _refusal(branch: RefName, key: bytes, condition: Condition) -> ConditionFailed:
    path = file_path(Key(key))
    return ConditionFailed(
        f"{path!r} on {branch!r} is not as demanded: {condition.text}; nothing was written"
    )
