"""What is staged on a branch and differs from its head."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.keys import Key, file_path
from lochan.base.limits.staging import STAGED_RECORDS_READ
from lochan.base.names import RefName
from lochan.codec.elements import decode_file
from lochan.codec.rows import ReferenceRow
from lochan.model.entries import FileEntry
from lochan.persist.staged import StagedRecords, tokens_of
from lochan.staging.committer import effective
from lochan.staging.layers import Layers, token_source
from lochan.staging.listing import ListingRange
from lochan.staging.reader import BranchReader

# Records that one page looks at: more are needed only where most are as the head has them.
_LOOKED_AT_MAX: Final = 10 * STAGED_RECORDS_READ


class StagedChange(msgspec.Struct, frozen=True, gc=False):
    """A path whose staged file differs from that of the head; None where there is none."""

    path: str
    before: FileEntry | None
    after: FileEntry | None

    @property
    def kind(self) -> str:
        """Whether it is `added`, `changed` or `removed`."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


class ChangesPage(msgspec.Struct, frozen=True):
    """One page; `next_after` is the position after which the next one begins, None at the end."""

    changes: tuple[StagedChange, ...]
    next_after: str | None


class Uncommitted:
    """Compares what is staged with the heads of branches."""

    def __init__(self, records: StagedRecords, reader: BranchReader) -> None:
        self._records = records
        self._reader = reader

    def page(
        self, branch: RefName, prefix: str = "", after: str = "", limit: int = 1_000
    ) -> ChangesPage:
        """Returns staged changes after a path, in order."""
        if limit < 1:
            raise Invalid("a page of changes has at least one")
        wanted = ListingRange(prefix, after, limit)
        return self._reader.read(branch, lambda row: self.page_of(row, wanted))

    def is_clean(self, branch: RefName) -> bool:
        """Returns whether nothing is staged that differs from the head."""
        return self._reader.read(branch, self.is_clean_row)

    def is_clean_row(self, row: ReferenceRow) -> bool:
        """Returns the same for one row of a branch, which the caller swaps or reads again."""
        after: str | None = ""
        while after is not None:
            page = self.page_of(row, ListingRange(after=after, limit=1))
            if page.changes:
                return False
            after = page.next_after
        return True

    def page_of(self, row: ReferenceRow, wanted: ListingRange) -> ChangesPage:
        """Returns one page for one row of a branch."""
        start, end = wanted.keys()
        tokens = tokens_of(row)
        layers = Layers([token_source(self._records, one, start, end) for one in tokens])
        head = self._reader.head(row)
        changes: list[StagedChange] = []
        path, looked_at, size = "", 0, wanted.limit + 1
        while looked_at < _LOOKED_AT_MAX:
            records = layers.take(min(size, STAGED_RECORDS_READ))
            looked_at, size = looked_at + len(records), 4 * size
            if not records:
                return ChangesPage(tuple(changes), None)
            current = self._reader.committed(head, [key for key, _ in records])
            for operation in effective(records, current):
                changes.append(_change(operation.key, current[operation.key], operation.element))
                if len(changes) == wanted.limit:
                    return ChangesPage(tuple(changes), changes[-1].path)
            path = file_path(Key(records[-1][0]))
        return ChangesPage(tuple(changes), path)


def _change(key: bytes, before: bytes | None, after: bytes | None) -> StagedChange:
    return StagedChange(
        file_path(Key(key)),
        None if before is None else decode_file(before),
        None if after is None else decode_file(after),
    )
