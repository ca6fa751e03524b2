"""Reading files of a branch through its staged records.

1. take the row of the branch, from memory if it is there;
2. look the keys up: in the staging token, in the sealed tokens, the newest first, then in the head;
3. read the row again, always from the store. If the row of step 1 was read after the call began,
   the answer counts unless a token that was used has left the row: its records may have been
   dropped meanwhile. If it came from memory, the answer counts if tokens and head are the same.
   Otherwise start over with the row that was just read.

A cleared record shows the head below it: that of its reset or a later one. The row of step 1 may be
older. So where one is met, the row is read once more before the head is looked up, and the reading
starts over with that row if the files under cleared records are other ones in its head.

So a table commit beside a read never makes it start over twice, and a commit of files does so once
or twice. A reader changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lochan.base.errors import PathNotFound
from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, file_path, ordered
from lochan.base.names import RefName
from lochan.codec.elements import decode_file, is_remove
from lochan.codec.rows import ReferenceRow
from lochan.index.layers import find_many
from lochan.kernel.context import RepositoryContext
from lochan.kernel.views import CommitView
from lochan.kv.store import Entry
from lochan.model.entries import FileEntry
from lochan.persist.staged import StagedRecords, is_cleared, tokens_of
from lochan.staging.branch_rows import BranchRows, SeenRow

_Answer = TypeVar("_Answer")


class BranchReader:
    """Reads files of the branches of one repository."""

    def __init__(
        self, context: RepositoryContext, rows: BranchRows, records: StagedRecords
    ) -> None:
        self._context = context
        self._rows = rows
        self._records = records

    def get(self, branch: RefName, key: Key) -> FileEntry:
        """Returns a file; PathNotFound if there is none."""
        entry = self.find(branch, key)
        if entry is None:
            raise PathNotFound(f"there is no file {file_path(key)!r} on {branch!r}")
        return entry

    def find(self, branch: RefName, key: Key) -> FileEntry | None:
        """Returns a file, None if there is none."""
        return self.find_many(branch, [key])[0]

    def find_many(self, branch: RefName, keys: Sequence[Key]) -> list[FileEntry | None]:
        """Returns files in the order of their keys, None where there is none."""
        elements = self.read(branch, lambda row: self.elements(row, keys))
        return [None if element is None else decode_file(element) for element in elements]

    def find_at(self, view: CommitView, keys: Sequence[Key]) -> list[FileEntry | None]:
        """Returns files of a commit in the order of their keys, None where there is none."""
        found = self.committed(view, keys)
        return [
            None if element is None else decode_file(element)
            for element in (found[key] for key in keys)
        ]

    def read(self, branch: RefName, look: Callable[[ReferenceRow], _Answer]) -> _Answer:
        """Returns what `look` finds with a row that is still true afterwards."""
        seen = self._rows.load(branch)
        retry = self._context.retry()
        while True:
            try:
                answer = look(seen.row)
                again = self._rows.fetch(branch)
                if is_true(seen, again):
                    return answer
            except HeadIsOlder as moved:
                again = moved.row
            seen = SeenRow(again, True)
            retry.again(at_once=retry.attempts <= _AT_ONCE_MAX)

    def elements(self, row: ReferenceRow, keys: Sequence[bytes]) -> list[bytes | None]:
        """Step 2: the elements that keys have under this row, None where there is no file."""
        layers = self._records.fetch(tokens_of(row), keys)
        found: list[bytes | None] = []
        were_reset: list[bytes] = []
        for at, key in enumerate(keys):
            record = _newest(layers, at)
            if record is not None and is_cleared(record):
                were_reset.append(key)
                record = None
            found.append(record)
        self.check_head(row, were_reset)
        missing = [key for key, record in zip(keys, found, strict=True) if record is None]
        below = self.committed(self.head(row), missing) if missing else {}
        return [
            below[key] if record is None else (None if is_remove(record) else record)
            for key, record in zip(keys, found, strict=True)
        ]

    def check_head(self, row: ReferenceRow, keys: Sequence[bytes]) -> None:
        """Raises HeadIsOlder if keys with cleared records have other files in a newer head."""
        if not keys:
            return
        again = self._rows.fetch(RefName(row.name))
        if not self.has_same_files(row, again, keys):
            raise HeadIsOlder(again)

    def has_same_files(self, row: ReferenceRow, other: ReferenceRow, keys: Sequence[bytes]) -> bool:
        """Returns whether keys have the same files in the heads of two rows of a branch."""
        if row.pointer == other.pointer:
            return True
        return self.committed(self.head(row), keys) == self.committed(self.head(other), keys)

    def head(self, row: ReferenceRow) -> CommitView:
        """Returns the head of a branch."""
        return self._context.views.load(ObjId(row.pointer))

    def committed(self, view: CommitView, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Returns the elements that keys have in a commit."""
        wanted = ordered(keys)
        found = find_many(self._context.nodes, view.index(Universe.FILES), wanted)
        return dict(zip(wanted, found, strict=True))


class HeadIsOlder(Exception):
    """What is read under a row shows too old a head; it is read again under this row."""

    def __init__(self, row: ReferenceRow) -> None:
        super().__init__("the head has moved")
        self.row = row


# After so many rounds there is more to wait for than one commit of files.
_AT_ONCE_MAX = 3


def is_true(seen: SeenRow, again: ReferenceRow) -> bool:
    """Step 3: whether what was read under a row counts, now that the row is another one."""
    row = seen.row
    if row.incarnation != again.incarnation:
        return False
    used = tokens_of(row)
    if not seen.fresh:
        return row.pointer == again.pointer and used == tokens_of(again)
    return set(used).issubset(tokens_of(again))


def _newest(layers: Sequence[Sequence[Entry | None]], at: int) -> bytes | None:
    """Returns the record that counts, None if there is none."""
    for layer in layers:
        entry = layer[at]
        if entry is not None:
            return entry.value
    return None
