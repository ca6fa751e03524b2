"""Entries: what a key of either universe leads to."""

from __future__ import annotations

import msgspec

from lochan.base.ids import ContentId, ObjId


class TableEntry(msgspec.Struct, frozen=True, gc=False):
    """A table, view or namespace: its type, where its value is, and which content it is.

    `content_id` is None when the id is not a UUID and therefore only the value object contains it.
    """

    payload: int
    value: ObjId
    content_id: ContentId | None


class FileEntry(msgspec.Struct, frozen=True):
    """A file: where its bytes are and what they are, inline.

    Two entries are the same file state when size, checksum, metadata and type agree; address and
    time may differ.
    """

    address: str
    checksum: str
    size: int
    modified_us: int
    metadata: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
