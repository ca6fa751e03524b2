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

    Its identity is size, SHA-256, metadata and type: two entries that agree in them are the same
    file, whatever their address and time. An object that was linked or imported has no SHA-256
    (`sha256` is empty); its identity includes ETag and address, because an ETag may be an MD5, and
    two contents can be made that share one.

    `operation` names the write that staged the entry, so that its writer recognises it.
    """

    address: str
    size: int
    modified_us: int
    sha256: bytes = b""
    etag: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    operation: bytes = b""
