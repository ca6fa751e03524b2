"""Checking staged files: that tokens are registered, and that their records can be read.

A token that no branch has is dead: its records are dropped by a sweep, and are not judged.
"""

from __future__ import annotations

from lochan.base.ids import StagingToken
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.codec.rows import TOKEN_FORM, ReferenceRow
from lochan.kernel.check_findings import Findings, Problem, RowKind
from lochan.kernel.check_trees import FILES, TreeCheck
from lochan.kernel.context import RepositoryContext
from lochan.kv.store import Kind, partition
from lochan.persist.rows import RowTable
from lochan.persist.staged import is_cleared, tokens_of


class StagedCheck:
    """Checks the staged files of one repository."""

    def __init__(self, context: RepositoryContext, findings: Findings, trees: TreeCheck) -> None:
        self._context = context
        self._findings = findings
        self._trees = trees

    def check_branch(self, row: ReferenceRow) -> None:
        """Checks the records of all tokens of a branch, and the bytes of their small files."""
        for token in () if row.deleted else tokens_of(row):
            where = f"staged on {row.name!r}"
            if self._has_left(row, token):
                continue
            place = partition(self._context.instance, Kind.STAGING)
            if self._context.store.get(place, token) is None and not self._has_left(row, token):
                what = "the staging token is not registered, so that no sweep finds its records"
                self._findings.add(RowKind.TOKEN, token.hex(), Problem.MISSING, what, where)
            records = self._context.staged.iterate(token)
            staged = ((key, record) for key, record in records if not is_cleared(record))
            self._trees.check_elements(staged, FILES, where)

    def check_tokens(self) -> None:
        """Checks every registered token by itself."""
        rows = RowTable(
            self._context.store,
            partition(self._context.instance, Kind.STAGING),
            TOKEN_FORM,
            lambda row: row.token,
        )
        start: bytes | None = b""
        while start is not None:
            page = rows.scan(start, PAGE_ENTRIES_MAX)
            for bad in page.unreadable:
                self._findings.add_error(RowKind.TOKEN, bad.key.hex(), bad.error)
            start = page.next_start

    def _has_left(self, row: ReferenceRow, token: StagingToken) -> bool:
        """Returns whether a commit has taken a token since its row was read."""
        found = self._context.references.fetch(RefName(row.name))
        return found is None or token not in tokens_of(found.row)
