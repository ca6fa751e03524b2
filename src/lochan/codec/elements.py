"""Index elements: the value that a key has in a node.

The first byte is put or remove (and, for tables, where the content id is). Table elements have 50
bytes; file elements contain their entry and vary. Elements are parts of nodes and commits, whose
bytes were checked before: a flag that is not known was set by a newer Lochan.

    table   flags 1 · payload 1 · value id 32 · content id 16 (zeros if flagged)
    file    flags 1 · MessagePack array of the entry's fields
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.checks import check, check_stored
from lochan.base.errors import Corrupt, Invalid, NewerFormat, TooLarge
from lochan.base.ids import (
    ID_BYTES,
    ObjId,
    content_id_from_uuid_bytes,
)
from lochan.base.limits.contents import (
    FILE_ADDRESS_BYTES_MAX,
    FILE_CHECKSUM_BYTES_MAX,
    FILE_METADATA_BYTES_MAX,
    FILE_TYPE_BYTES_MAX,
    PAYLOAD_MAX,
)
from lochan.model.entries import FileEntry, TableEntry

FLAG_REMOVE: Final = 0x01
FLAG_CONTENT_ID_IN_VALUE: Final = 0x02

TABLE_WIDTH: Final = 2 + ID_BYTES + 16
TABLE_REMOVE: Final = bytes((FLAG_REMOVE,)) + bytes(TABLE_WIDTH - 1)
FILE_REMOVE: Final = bytes((FLAG_REMOVE,))

_FileTuple = tuple[str, str, int, int, tuple[tuple[str, str], ...], str]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_file: Final = msgspec.msgpack.Decoder(_FileTuple).decode


def pack_table(payload: int, value: ObjId, raw_content_id: bytes | None) -> bytes:
    """Encodes a put of a table; a content id that is no UUID is None here: the value holds it."""
    check(0 < payload <= PAYLOAD_MAX, "payloads are checked where they enter")
    if raw_content_id is None:
        element = bytes((FLAG_CONTENT_ID_IN_VALUE, payload)) + value + bytes(16)
    else:
        element = bytes((0, payload)) + value + raw_content_id
    check(len(element) == TABLE_WIDTH, "a value id has 32 bytes, a UUID 16")
    return element


def decode_table(element: bytes) -> TableEntry:
    """Decodes a put of a table."""
    check_stored(len(element) == TABLE_WIDTH, "a table element has 50 bytes")
    flags = element[0]
    check_flags(element, FLAG_CONTENT_ID_IN_VALUE)
    value = ObjId(element[2 : 2 + ID_BYTES])
    if flags:
        return TableEntry(element[1], value, None)
    return TableEntry(element[1], value, content_id_from_uuid_bytes(element[2 + ID_BYTES :]))


def encode_file(entry: FileEntry) -> bytes:
    """Encodes a put of a file after checking its fields."""
    for what, text, bytes_max in (
        ("address", entry.address, FILE_ADDRESS_BYTES_MAX),
        ("checksum", entry.checksum, FILE_CHECKSUM_BYTES_MAX),
        ("content type", entry.content_type, FILE_TYPE_BYTES_MAX),
    ):
        if len(encode_text(text)) > bytes_max:
            raise TooLarge(f"a file's {what} has at most {bytes_max} bytes")
    if type(entry.size) is not int or type(entry.modified_us) is not int:
        raise Invalid("a file's size and time are whole numbers")
    if not 0 <= entry.size < 2**63 or not -(2**63) <= entry.modified_us < 2**63:
        raise Invalid("a file's size and time are 64-bit numbers, the size not negative")
    names = [name for name, _ in entry.metadata]
    if names != sorted(set(names)):
        raise Invalid("a file's metadata is sorted by name, each name once")
    metadata_bytes = sum(len(encode_text(n)) + len(encode_text(v)) for n, v in entry.metadata)
    if metadata_bytes > FILE_METADATA_BYTES_MAX:
        raise TooLarge(f"a file's metadata has at most {FILE_METADATA_BYTES_MAX} bytes")
    fields = (
        entry.address,
        entry.checksum,
        entry.size,
        entry.modified_us,
        entry.metadata,
        entry.content_type,
    )
    return b"\0" + _encode(fields)


def decode_file(element: bytes) -> FileEntry:
    """Decodes a put of a file."""
    check_flags(element, 0)
    try:
        return FileEntry(*_decode_file(memoryview(element)[1:]))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"not a stored file entry: {error}") from None


def is_remove(element: bytes) -> bool:
    """Returns whether an element is a remove, in both universes."""
    return bool(element[0] & FLAG_REMOVE)


def check_flags(element: bytes, known: int) -> None:
    """Raises unless the element is a put whose flags are all known."""
    check_stored(bool(element) and not is_remove(element), "an element that is a put")
    if element[0] & ~(known | FLAG_REMOVE):
        raise NewerFormat(
            f"a stored element has the flags 0x{element[0]:02x}, which this Lochan does not know: "
            "newer format, upgrade Lochan"
        )


def encode_text(text: str) -> bytes:
    """Returns a text of a user as UTF-8; Invalid if it is half of a surrogate pair."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Invalid(f"not valid Unicode text at character {error.start}") from None
