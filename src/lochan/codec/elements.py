"""Index elements: the value that a key has in a node.

The first byte is put or remove (and, for tables, where the content id is). Table elements have 50
bytes; file elements contain their entry and vary. Elements are parts of nodes and commits, whose
bytes were checked before: a flag that is not known was set by a newer Lochan.

    table   flags 1 · payload 1 · value id 32 · content id 16 (zeros if flagged)
    file    flags 1 · length of the identity 2 · identity · details

    identity    MessagePack array: size, SHA-256, metadata, type
                (without SHA-256, which is empty then: and ETag, address)
    details     MessagePack array: time, operation, ETag, address (the last two unless above)

So two files are the same if the beginnings of their elements are equal.
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
from lochan.base.keys import Universe
from lochan.base.limits.contents import (
    FILE_ADDRESS_BYTES_MAX,
    FILE_ETAG_BYTES_MAX,
    FILE_METADATA_BYTES_MAX,
    FILE_TYPE_BYTES_MAX,
    PAYLOAD_MAX,
)
from lochan.model.entries import FileEntry, TableEntry

FLAG_REMOVE: Final = 0x01
FLAG_CONTENT_ID_IN_VALUE: Final = 0x02

UUID_BYTES: Final = 16
TABLE_WIDTH: Final = 2 + ID_BYTES + UUID_BYTES
TABLE_REMOVE: Final = bytes((FLAG_REMOVE,)) + bytes(TABLE_WIDTH - 1)
FILE_REMOVE: Final = bytes((FLAG_REMOVE,))

_Metadata = tuple[tuple[str, str], ...]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_hashed: Final = msgspec.msgpack.Decoder(tuple[int, bytes, _Metadata, str]).decode
_decode_placed: Final = msgspec.msgpack.Decoder(tuple[int, bytes, str, str]).decode
_decode_linked: Final = msgspec.msgpack.Decoder(tuple[int, bytes, _Metadata, str, str, str]).decode
_decode_times: Final = msgspec.msgpack.Decoder(tuple[int, bytes]).decode

# The first byte of an array of four: the identity of a file whose SHA-256 is known.
_HASHED_MARK: Final = b"\x94"

_SHA256_BYTES: Final = 32
_OPERATION_BYTES: Final = 16

# Flags and the length of the identity.
_PREFIX_BYTES: Final = 3


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
    _check_file(entry)
    identity: tuple[object, ...] = (
        entry.size,
        entry.sha256,
        entry.metadata,
        entry.content_type,
    )
    details: tuple[object, ...] = (entry.modified_us, entry.operation)
    place = (entry.etag, entry.address)
    if entry.sha256:
        details += place
    else:
        identity += place
    raw = _encode(identity)
    return b"\0" + len(raw).to_bytes(2, "big") + raw + _encode(details)


def decode_file(element: bytes) -> FileEntry:
    """Decodes a put of a file."""
    check_flags(element, 0)
    split = _PREFIX_BYTES + int.from_bytes(element[1:_PREFIX_BYTES], "big")
    try:
        if len(element) < split:
            raise msgspec.DecodeError("it is too short")
        identity, details = element[_PREFIX_BYTES:split], element[split:]
        if identity[:1] == _HASHED_MARK:
            size, sha256, metadata, content_type = _decode_hashed(identity)
            modified_us, operation, etag, address = _decode_placed(details)
            well_formed = len(sha256) == _SHA256_BYTES
        else:
            size, sha256, metadata, content_type, etag, address = _decode_linked(identity)
            modified_us, operation = _decode_times(details)
            well_formed = not sha256
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"not a stored file entry: {error}") from None
    if not well_formed or len(operation) not in (0, _OPERATION_BYTES):
        raise Corrupt("not a stored file entry: an id of another length")
    return FileEntry(address, size, modified_us, sha256, etag, metadata, content_type, operation)


def same_file(one: bytes, other: bytes) -> bool:
    """Returns whether two puts are of the same file: size, SHA-256, metadata and type agree."""
    end = _PREFIX_BYTES + int.from_bytes(one[1:_PREFIX_BYTES], "big")
    return one[:end] == other[:end]


def same_state(key: bytes, one: bytes | None, other: bytes | None) -> bool:
    """Returns whether two elements of a key, or their absence, are the same state of it."""
    if one is None or other is None or key[0] != Universe.FILES:
        return one == other
    return same_file(one, other)


def _check_file(entry: FileEntry) -> None:
    for what, text, bytes_max in (
        ("address", entry.address, FILE_ADDRESS_BYTES_MAX),
        ("ETag", entry.etag, FILE_ETAG_BYTES_MAX),
        ("content type", entry.content_type, FILE_TYPE_BYTES_MAX),
    ):
        if len(encode_text(text)) > bytes_max:
            raise TooLarge(f"a file's {what} has at most {bytes_max} bytes")
    if len(entry.sha256) not in (0, _SHA256_BYTES):
        raise Invalid("a file's SHA-256 has 32 bytes, or none if it is not known")
    if len(entry.operation) not in (0, _OPERATION_BYTES):
        raise Invalid("the operation of a file has 16 bytes, or none")
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
