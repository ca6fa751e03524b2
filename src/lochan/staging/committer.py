"""Committing what is staged on a branch, alone or together with operations on tables.

The steps, and what a crash after each leaves:

1. read the row. If the staging token has records, *seal* it (`tokens.py`): from then on writers put
   their records elsewhere. The sealed tokens of the row are those that this commit is about.
   (A crash leaves a sealed token; its files are shown as before, and the next commit takes them.)
   If they have few records, these are read now, and not again.
2. plan on a head: leave out the tokens that another commit has taken meanwhile (they are the oldest
   ones, because every commit takes all that it sees), read the records that are left, the newest of
   each key, and leave out those that are as the head has them. Few changes are operations of the
   plan. Many are not held in memory: building the commit reads the records once more and puts them
   into the tree on the way (`index/bulk.py`). All of this is done outside the lane
   (`kernel/preparation.py`), and again if a later head differs in a key that has a record. (A crash
   leaves nothing, or objects that nothing refers to.)
3. one compare-and-swap moves the head and takes the tokens out of the row. (After it, the commit
   stands; a sweep drops the records.) If it was lost, go to step 2.

Records of a sealed token may be read as often as needed: every write that was acknowledged had put
its record before the token was sealed.

If nothing is left to commit, the tokens leave the row all the same: their records are as the head
has them, and every sealed token makes reads slower. (They cannot become the staging token again:
writers have put records into the new one, which has to stay.) The answer depends on who took the
records: if a commit did that was published after this one began, this one becomes an empty commit
with its own message, as if it had come first; otherwise there was nothing to commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import LochanError, NothingToCommit, ReferenceNotFound
from lochan.base.ids import ObjId, StagingToken
from lochan.base.limits.commits import COMMIT_OWN_KEYS_MAX
from lochan.base.limits.staging import STAGED_RECORDS_READ
from lochan.base.names import RefName
from lochan.codec.commits import Headers
from lochan.codec.elements import FLAG_REMOVE, is_remove, same_file
from lochan.codec.rows import ReferenceRow
from lochan.index.bulk import ChangeBatch
from lochan.index.layers import find_many
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.plan import CommitPlan, Operation, OutdatedRow, Plan, TokenPlan
from lochan.kernel.publish import Proposal, Published, Publisher, Settled
from lochan.kv.store import Entry
from lochan.persist.staged import StagedRecords, is_cleared
from lochan.staging.branch_rows import BranchRows
from lochan.staging.folds import is_folded, left_of
from lochan.staging.layers import Layers, token_source
from lochan.staging.tokens import BranchTokens

TAKEN_HEADER: Final = "staged"
"""The hidden header of a commit that lists the tokens whose files it contains."""


class CommitTexts(msgspec.Struct, frozen=True):
    """The message and the headers of a commit of files."""

    message: str
    headers: Headers = ()
    hidden: Headers = ()


# Up to here a commit lists its own keys, so it has to know them. An operation for each of them is
# made in some milliseconds.
_OPERATIONS_MAX: Final = COMMIT_OWN_KEYS_MAX


class SealedRecords(msgspec.Struct, frozen=True):
    """The records of sealed tokens, the oldest token first; read from the store each time.

    `few` are those of tokens that were read before.
    """

    records: StagedRecords
    tokens: tuple[bytes, ...]
    few: Mapping[bytes, Sequence[Entry]] = msgspec.field(default_factory=dict)

    def batches(self) -> Iterator[ChangeBatch]:
        """Yields all records as changes, in the order of their keys."""
        for keys, records in self.pages():
            yield ChangeBatch(
                keys, [None if record[0] & FLAG_REMOVE else record for record in records]
            )

    def pages(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yields keys and records, in the order of the keys; of a key the newest record counts.

        A cleared record hides older ones, and is no change.
        """
        if self.few and all(token in self.few for token in self.tokens):
            newest = {one.key: one.value for token in self.tokens for one in self.few[token]}
            counting = [(key, newest[key]) for key in sorted(newest) if not is_cleared(newest[key])]
            if counting:
                yield [key for key, _ in counting], [record for _, record in counting]
            return
        if len(self.tokens) != 1:
            tokens = [StagingToken(token) for token in reversed(self.tokens)]
            layers = Layers([token_source(self.records, token, b"", None) for token in tokens])
            while items := layers.take(STAGED_RECORDS_READ):
                counting = [item for item in items if not is_cleared(item[1])]
                if counting:
                    yield [key for key, _ in counting], [record for _, record in counting]
            return
        further: bytes | None = b""
        while further is not None:
            page = self.records.scan(StagingToken(self.tokens[0]), further)
            entries = [one for one in page.entries if not is_cleared(one.value)]
            if entries:
                yield [one.key for one in entries], [one.value for one in entries]
            further = page.next_start

    def have_one_of(self, keys: Sequence[bytes]) -> bool:
        """Returns whether there is a record of one of these keys."""
        tokens = [StagingToken(token) for token in self.tokens]
        found = self.records.fetch(tokens, keys) if tokens else []
        return any(entry is not None for entries in found for entry in entries)


def read_few(
    records: StagedRecords, tokens: Sequence[bytes]
) -> Mapping[bytes, Sequence[Entry]] | None:
    """Returns the records of tokens if each of them may be an operation, else None."""
    few, left = {}, _OPERATIONS_MAX
    for token in tokens:
        page = records.scan(StagingToken(token), limit=left + 1)
        left -= len(page.entries)
        if left < 0 or page.next_start is not None:
            return None
        few[token] = page.entries
    return few


class FileCommit:
    """A proposal that commits the files of sealed tokens, and the operations of another proposal.

    It is published in the lane of its branch, like any other; `finish` then gives the answer.
    """

    def __init__(
        self,
        row: ReferenceRow,
        records: StagedRecords,
        texts: CommitTexts,
        generation: int,
        *,
        tables: Proposal | None,
        allow_empty: bool,
        staged_at: bytes = b"",
    ) -> None:
        self.incarnation: int | None = row.incarnation
        self._name = row.name
        self._version = row.version
        self._tokens = row.sealed_tokens
        self._records = records
        self._texts = texts
        self._generation = generation
        self._tables = tables
        self._allow_empty = allow_empty
        few = read_few(records, self._tokens)
        self._few = few or {}
        self.records = _OPERATIONS_MAX + 1 if few is None else sum(map(len, few.values()))
        """How many records it may have to compare; of many only that they are many."""
        self._staged_at = staged_at

    def plan(self, head: Head) -> Sequence[Plan]:
        """Step 2: plans one commit, or none if nothing is left to commit."""
        left = self._left(head.row)
        may_be_empty = self._may_be_empty(head)
        head.check_again(
            lambda later: (
                self._left(later.row) == left and self._may_be_empty(later) == may_be_empty
            )
        )
        tables = self._plan_tables(head)
        sealed = SealedRecords(self._records, left, self._few)
        head.look_up_again(sealed.have_one_of)
        current = _few_changes(head, sealed)
        is_empty = current == {} and tables is None and not may_be_empty
        if is_empty and not self._was_taken(head, left):
            return [TokenPlan(left)] if left else []
        plan = tables or CommitPlan(
            (), self._texts.message, self._texts.headers, self._texts.hidden, current={}
        )
        plan = _taking(plan, left)
        if current is None:
            return [msgspec.structs.replace(plan, bulk=sealed)]
        return [_with_files(plan, current)]

    def finish(self, settled: Settled) -> Published:
        """Returns what was published; raises what the commit was refused for."""
        if isinstance(settled, LochanError):
            raise settled
        if not settled.commits:
            raise NothingToCommit(
                f"nothing is staged on {self._name!r} that its head does not have"
            )
        return settled

    def _may_be_empty(self, head: Head) -> bool:
        """Returns whether a commit without changes is wanted, or what was staged was taken."""
        is_moved = bool(self._staged_at) and head.view.obj_id != self._staged_at
        return self._allow_empty or is_moved

    def _left(self, row: ReferenceRow) -> tuple[bytes, ...]:
        """Returns the tokens that no other commit has taken: the newest ones."""
        if row.version < self._version:
            # From before the seal: such a row does not have the tokens yet.
            raise OutdatedRow
        return left_of(self._tokens, row.sealed_tokens)

    def _plan_tables(self, head: Head) -> CommitPlan | None:
        if self._tables is None:
            return None
        plans = self._tables.plan(head)
        check(len(plans) <= 1, "the tables of a commit of files are one commit")
        for plan in plans:
            check(isinstance(plan, CommitPlan), "operations on tables take no tokens")
            if isinstance(plan, CommitPlan):
                return plan
        return None

    def _was_taken(self, head: Head, left: Sequence[bytes]) -> bool:
        """Returns whether a commit that was published after this one began has its records."""
        gone = {token.hex() for token in self._tokens if token not in left}
        for view in head.line() if gone else ():
            if view.body is None or view.generation <= self._generation:
                return False
            taken = dict(view.body.hidden).get(TAKEN_HEADER, ())
            if not gone.isdisjoint(taken) or any(is_folded(bytes.fromhex(one)) for one in taken):
                return True
        return False


class FileCommitter:
    """Commits staged files of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        rows: BranchRows,
        records: StagedRecords,
        tokens: BranchTokens,
    ) -> None:
        self._context = context
        self._rows = rows
        self._records = records
        self._tokens = tokens

    def prepare(
        self,
        branch: RefName,
        texts: CommitTexts,
        *,
        tables: Proposal | None = None,
        allow_empty: bool = False,
        staged_at: bytes = b"",
    ) -> FileCommit:
        """Step 1; the caller publishes the result in the lane of the branch.

        `tables` plans one commit at most; its operations are in the same commit as the files, and
        its message and headers are those of the commit.
        """
        began = self._rows.fetch(branch)
        row = began
        if row.staging_token and not self._records.is_empty(StagingToken(row.staging_token)):
            row = self._tokens.seal(row)
            self._rows.forget(branch)
        if row.incarnation != began.incarnation:
            raise ReferenceNotFound(f"the branch {branch!r} was deleted and created again")
        generation = self._context.views.load(ObjId(began.pointer)).generation
        return FileCommit(
            row,
            self._records,
            texts,
            generation,
            tables=tables,
            allow_empty=allow_empty,
            staged_at=staged_at,
        )

    def commit(
        self,
        publisher: Publisher,
        branch: RefName,
        texts: CommitTexts,
        *,
        tables: Proposal | None = None,
        allow_empty: bool = False,
    ) -> Published:
        """All steps, for a caller that publishes by itself."""
        commit = self.prepare(branch, texts, tables=tables, allow_empty=allow_empty)
        (settled,) = publisher.publish([commit])
        return commit.finish(settled)


def effective(
    records: Sequence[tuple[bytes, bytes]], current: Mapping[bytes, bytes | None]
) -> list[Operation]:
    """Returns what records change on a head: not what it has already, not what it never had."""
    operations = []
    for key, record in records:
        base = current[key]
        if is_cleared(record):
            continue
        if is_remove(record):
            if base is not None:
                operations.append(Operation(key, None))
        elif base is None or not same_file(record, base):
            operations.append(Operation(key, record))
    return operations


class _Replaced(msgspec.Struct, frozen=True, gc=False):
    """A change of a file, and what the head has of it."""

    operation: Operation
    before: bytes | None


def _few_changes(head: Head, sealed: SealedRecords) -> dict[bytes, _Replaced] | None:
    """Returns what records change on a head; None if that is more than a commit lists."""
    found: dict[bytes, _Replaced] = {}
    for keys, records in sealed.pages():
        before = dict(zip(keys, find_many(head.nodes, head.view.files, keys), strict=True))
        for one in effective(list(zip(keys, records, strict=True)), before):
            found[one.key] = _Replaced(one, before[one.key])
        if len(found) > _OPERATIONS_MAX:
            return None
    return found


def _with_files(plan: CommitPlan, changes: Mapping[bytes, _Replaced]) -> CommitPlan:
    """Adds changes of files to a plan."""
    before = {key: one.before for key, one in changes.items()}
    return msgspec.structs.replace(
        plan,
        operations=[*plan.operations, *(one.operation for one in changes.values())],
        current=None if plan.current is None else {**plan.current, **before},
    )


def _taking(plan: CommitPlan, taken: tuple[bytes, ...]) -> CommitPlan:
    """Adds the tokens to a plan whose files the commit contains."""
    if not taken:
        return plan
    listed = (TAKEN_HEADER, tuple([token.hex() for token in taken]))
    return msgspec.structs.replace(plan, hidden=tuple(sorted([*plan.hidden, listed])), taken=taken)
