"""Committing what is staged on a branch, alone or together with operations on tables.

The steps, and what a crash after each leaves:

1. read the row. If the staging token has records, *seal* it (`tokens.py`): from then on writers put
   their records elsewhere. The sealed tokens of the row are those that this commit is about.
   (A crash leaves a sealed token; its files are shown as before, and the next commit takes them.)
2. read the records of the sealed tokens, outside the lane. (Nothing.)
3. in the lane, for each head that the commit meets: leave out the tokens that another commit has
   taken meanwhile (they are the oldest ones, because every commit takes all that it sees), apply
   the records that are left, the newest of each key, and leave out those that are as the head has
   them.
4. one compare-and-swap moves the head and takes the tokens out of the row. (After it, the commit
   stands; a sweep drops the records.) If it was lost, go to step 3.

If nothing is left to commit, the tokens leave the row all the same: their records are as the head
has them, and every sealed token makes reads slower. (They cannot become the staging token again:
writers have put records into the new one, which has to stay.) The answer depends on who took the
records: if a commit did that was published after this one began, this one becomes an empty commit
with its own message, as if it had come first; otherwise there was nothing to commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import LochanError, NothingToCommit, ReferenceNotFound
from lochan.base.ids import ObjId, StagingToken
from lochan.base.names import RefName
from lochan.codec.commits import Headers
from lochan.codec.elements import is_remove, same_file
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.plan import CommitPlan, Operation, OutdatedRow, Plan, TokenPlan
from lochan.kernel.publish import Proposal, Published, Publisher, Settled
from lochan.persist.staged import StagedRecords
from lochan.staging.branch_rows import BranchRows
from lochan.staging.tokens import BranchTokens

TAKEN_HEADER: Final = "staged"
"""The hidden header of a commit that lists the tokens whose files it contains."""


class CommitTexts(msgspec.Struct, frozen=True):
    """The message and the headers of a commit of files."""

    message: str
    headers: Headers = ()
    hidden: Headers = ()


class StagedChanges:
    """The records of sealed tokens, in memory; of several records of a key the newest counts."""

    def __init__(self, records: StagedRecords, tokens: Sequence[bytes]) -> None:
        self._by_token = {token: list(records.iterate(StagingToken(token))) for token in tokens}
        self._tokens: tuple[bytes, ...] = ()
        self._combined: list[tuple[bytes, bytes]] = []

    def of(self, tokens: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Returns the records of some of the tokens, in the order of their keys."""
        if tuple(tokens) != self._tokens:
            self._tokens = tuple(tokens)
            if len(tokens) == 1:
                self._combined = self._by_token[tokens[0]]
            else:
                newest: dict[bytes, bytes] = {}
                for token in tokens:
                    newest.update(self._by_token[token])
                self._combined = sorted(newest.items())
        return self._combined


class FileCommit:
    """A proposal that commits the files of sealed tokens, and the operations of another proposal.

    It is published in the lane of its branch, like any other; `finish` then gives the answer.
    """

    def __init__(
        self,
        row: ReferenceRow,
        changes: StagedChanges,
        texts: CommitTexts,
        generation: int,
        *,
        tables: Proposal | None,
        allow_empty: bool,
    ) -> None:
        self.incarnation: int | None = row.incarnation
        self._name = row.name
        self._version = row.version
        self._tokens = row.sealed_tokens
        self._changes = changes
        self._texts = texts
        self._generation = generation
        self._tables = tables
        self._allow_empty = allow_empty

    def plan(self, head: Head) -> Sequence[Plan]:
        """Step 3: plans one commit, or none if nothing is left to commit."""
        left = self._left(head.row)
        head.check_again(lambda later: self._left(later.row) == left)
        tables = self._plan_tables(head)
        records = self._changes.of(left)
        current = head.find([key for key, _ in records]) if records else {}
        operations = effective(records, current)
        is_empty = not operations and tables is None and not self._allow_empty
        if is_empty and not self._was_taken(head, left):
            return [TokenPlan(left)] if left else []
        plan = tables or CommitPlan(
            (), self._texts.message, self._texts.headers, self._texts.hidden, current={}
        )
        return [_with_files(plan, operations, current, left)]

    def finish(self, settled: Settled) -> Published:
        """Returns what was published; raises what the commit was refused for."""
        if isinstance(settled, LochanError):
            raise settled
        if not settled.commits:
            raise NothingToCommit(
                f"nothing is staged on {self._name!r} that its head does not have"
            )
        return settled

    def _left(self, row: ReferenceRow) -> tuple[bytes, ...]:
        """Returns the tokens that no other commit has taken: the newest ones."""
        if row.version < self._version:
            # From before the seal: such a row does not have the tokens yet.
            raise OutdatedRow
        present = set(row.sealed_tokens)
        left = tuple([token for token in self._tokens if token in present])
        check(left == self._tokens[len(self._tokens) - len(left) :], "the oldest are taken first")
        check(left == row.sealed_tokens[: len(left)], "tokens are sealed after these")
        return left

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
            if not gone.isdisjoint(dict(view.body.hidden).get(TAKEN_HEADER, ())):
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
    ) -> FileCommit:
        """Steps 1 and 2; the caller publishes the result in the lane of the branch.

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
        changes = StagedChanges(self._records, row.sealed_tokens)
        return FileCommit(row, changes, texts, generation, tables=tables, allow_empty=allow_empty)

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
        if is_remove(record):
            if base is not None:
                operations.append(Operation(key, None))
        elif base is None or not same_file(record, base):
            operations.append(Operation(key, record))
    return operations


def _with_files(
    plan: CommitPlan,
    operations: Sequence[Operation],
    current: Mapping[bytes, bytes | None],
    taken: tuple[bytes, ...],
) -> CommitPlan:
    """Adds files to a plan, and the tokens that they come from."""
    known = None if plan.current is None else {**plan.current, **current}
    hidden = plan.hidden
    if taken:
        listed = (TAKEN_HEADER, tuple([token.hex() for token in taken]))
        hidden = tuple(sorted([*hidden, listed]))
    return msgspec.structs.replace(
        plan,
        operations=[*plan.operations, *operations],
        hidden=hidden,
        current=known,
        taken=taken,
    )
