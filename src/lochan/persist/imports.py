"""Imports that run in the background: one row for each, until a day after its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from lochan.base.ids import InstanceId
from lochan.codec.forms import RowForm
from lochan.kv.store import Kind, Store, Won, partition
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write, add_row

ImportState = Literal["running", "committing", "completed", "failed", "canceled"]


class ImportRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One import; `hash` is its commit, `error` why there is none.

    While it is running or committing, its server changes `updated_us` every few seconds: a row that
    was not changed for longer belongs to a server that has ended.
    """

    format: Literal[1]
    id: str
    branch: str
    principal: str
    state: ImportState
    objects: int
    began_us: int
    updated_us: int
    hash: str = ""
    error: str = ""


IMPORT_FORM: Final = RowForm(ImportRow, "import")

IMPORTS_SUFFIX: Final = b"imports"
_ADDED: Final = Doubt("the import was begun", "begin it again")
_CHANGED: Final = Doubt("the state of the import was changed", "read it")

Change = Callable[[ImportRow], ImportRow | None]
"""Returns the row as it shall be, None if it stays as it is; may refuse by raising."""


class ImportRows(RowTable[ImportRow]):
    """The imports of one repository, by their random ids."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        place = partition(instance, Kind.UPLOADS, IMPORTS_SUFFIX)
        super().__init__(store, place, IMPORT_FORM, lambda row: row.id.encode())

    def add(self, row: ImportRow, retry: Retry) -> None:
        """Adds a row with a new random id."""
        add_row(self, row, retry, _ADDED)

    def change(self, key: str, change: Change, retry: Retry) -> ImportRow | None:
        """Changes a row and returns it as it is then; None if there is none."""

        def decide(
            found: Stamped[ImportRow] | None,
        ) -> Write[ImportRow, ImportRow | None] | Done[ImportRow | None]:
            if found is None:
                return Done(None)
            made = change(found.row)
            return Done(found.row) if made is None else Write(made, made)

        return self.swap(key, decide, retry, _CHANGED)

    def drop(self, found: Stamped[ImportRow]) -> bool:
        """Removes a row if it is as it was read."""
        return isinstance(self.remove(found), Won)
