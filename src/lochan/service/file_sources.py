"""Pages of files by key: of a commit, and of what is staged."""

from __future__ import annotations

from typing import Final

from lochan.codec.rows import ReferenceRow
from lochan.index.layers import read_page
from lochan.kernel.context import RepositoryContext
from lochan.kernel.views import CommitView
from lochan.persist.staged import tokens_of
from lochan.staging.committer import effective
from lochan.staging.layers import Layers, token_source
from lochan.staging.reader import BranchReader

Sides = tuple[bytes | None, bytes | None]
"""The elements of a file on two sides."""

# Staged records that one page compares with the head.
_COMPARED_MAX: Final = 1_000


class FileSources:
    """Reads pages of the files of one repository; each may be short, or empty, before the end."""

    def __init__(self, context: RepositoryContext, reader: BranchReader) -> None:
        self._context = context
        self._records = context.staged
        self._reader = reader

    def of_commit(
        self, view: CommitView, start: bytes, end: bytes | None, limit: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Returns files of a commit."""
        found = read_page(self._context.nodes, view.files, start, end, limit)
        return found, found[-1][0] + b"\0" if len(found) == limit else None

    def staged(
        self, row: ReferenceRow, start: bytes, end: bytes | None, limit: int
    ) -> tuple[list[tuple[bytes, Sides]], bytes | None]:
        """Returns what is staged and differs from the head, before and after."""
        layers = Layers([token_source(self._records, one, start, end) for one in tokens_of(row)])
        records: list[tuple[bytes, bytes]] = []
        while len(records) < min(limit, _COMPARED_MAX):
            item = layers.next()
            if item is None:
                break
            records.append(item)
        current = self._reader.committed(self._reader.head(row), [key for key, _ in records])
        found = [(one.key, (current[one.key], one.element)) for one in effective(records, current)]
        is_end = len(records) < min(limit, _COMPARED_MAX)
        return found, None if is_end else records[-1][0] + b"\0"
