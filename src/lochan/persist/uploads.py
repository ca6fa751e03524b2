"""Uploads in parts: one row for each, from its beginning until it was completed or given up.

The key of a row is the branch, its `/` written as `%2F`, a `/`, the path, NUL, and the id of the
upload: so rows are in the order in which they are listed.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from lochan.base.ids import InstanceId
from lochan.codec.forms import RowForm
from lochan.kv.store import Kind, Store, Won, partition
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write, add_row

Metadata = tuple[tuple[str, str], ...]


class UploadRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One upload; `place` is its id at the place that has the parts.

    `operation` is that of the staged file, so that a repeated completion recognises it. `outcome`
    is the answer to the completion, empty before it.
    """

    format: Literal[1]
    branch: str
    incarnation: int
    path: str
    id: str
    place: str
    operation: bytes
    principal: str
    began_us: int
    content_type: str = ""
    metadata: Metadata = ()
    outcome: bytes = b""


UPLOAD_FORM: Final = RowForm(UploadRow, "upload")

_ADDED: Final = Doubt("the upload was begun", "begin another one")
_RECORDED: Final = Doubt("the upload was completed", "complete it again with the same parts")


def upload_key(branch: str, path: str, upload: str) -> bytes:
    """Returns the key of a row."""
    return f"{listed_name(branch, path)}\0{upload}".encode()


def listed_name(branch: str, path: str) -> str:
    """Returns the name by which uploads are ordered."""
    return f"{branch.replace('/', '%2F')}/{path}"


class UploadRows(RowTable[UploadRow]):
    """The uploads of one repository."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        place = partition(instance, Kind.UPLOADS)
        super().__init__(
            store, place, UPLOAD_FORM, lambda row: upload_key(row.branch, row.path, row.id)
        )

    def add(self, row: UploadRow, retry: Retry) -> None:
        """Adds a row with a new random id."""
        add_row(self, row, retry, _ADDED)

    def record(self, row: UploadRow, outcome: bytes, retry: Retry) -> None:
        """Adds the outcome of an upload; one that was removed meanwhile needs none."""

        def decide(found: Stamped[UploadRow] | None) -> Write[UploadRow, None] | Done[None]:
            if found is None or found.row.outcome:
                return Done(None)
            return Write(msgspec.structs.replace(found.row, outcome=outcome), None)

        self.swap(self.key_of(row), decide, retry, _RECORDED)

    def drop(self, found: Stamped[UploadRow]) -> bool:
        """Removes a row if it is as it was read."""
        return isinstance(self.remove(found), Won)
