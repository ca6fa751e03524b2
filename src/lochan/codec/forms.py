"""What every stored form begins with, the two errors for one that cannot be read, and rows.

A stored form is a MessagePack array. A plain object begins with its type and its version, a row
with its version. Both are read without the rest, so that a form of a version that this Lochan does
not know is reported as NewerFormat, while bytes that were changed are Corrupt. The order matters:
checksum or hash first, then the version, then the fields. Otherwise the operator would be asked to
upgrade because of a flipped bit in the version. A row ends with four bytes of checksum.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar
from zlib import crc32

import msgspec

from lochan.base.errors import Corrupt, LochanError, NewerFormat

CHECKSUM_BYTES: Final = 4
VERSION: Final = 1
"""The version of every form today; each has its own field, so each can grow by itself."""

DECODE_FAILURES: Final = (msgspec.DecodeError, UnicodeDecodeError)

Row = TypeVar("Row", bound=msgspec.Struct)

_encode: Final = msgspec.msgpack.Encoder().encode
_HEADER_BYTES: Final = {0xDC: 3, 0xDD: 5}
_NUMBER_BYTES: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}


def leading_numbers(raw: bytes | memoryview, count: int) -> tuple[int, ...] | None:
    """Returns the first numbers of a stored array, None if it does not begin so."""
    if not raw:
        return None
    at = 1 if raw[0] & 0xF0 == 0x90 else _HEADER_BYTES.get(raw[0], 0)
    if at == 0:
        return None
    numbers: list[int] = []
    for _ in range(count):
        if at >= len(raw):
            return None
        size = _NUMBER_BYTES.get(raw[at], 0)
        if size == 0 and raw[at] > 0x7F:
            return None
        end = at + 1 + size
        if end > len(raw):
            return None
        numbers.append(int.from_bytes(raw[at + 1 : end], "big") if size else raw[at])
        at = end
    return tuple(numbers)


def is_of_type(raw: bytes, type_number: int) -> bool:
    """Returns whether a stored object is of a type, in any version, by its first bytes."""
    found = leading_numbers(raw, 2)
    return found is not None and found[0] == type_number


def unreadable(
    what: str, raw: bytes | memoryview, reason: object, *before_version: int
) -> LochanError:
    """Returns the error for a form whose checksum or hash is right and that cannot be decoded.

    `before_version` is the type of an object; a row begins with its version.
    """
    found = leading_numbers(raw, len(before_version) + 1)
    if found is not None and found[:-1] == before_version and found[-1] > VERSION:
        return newer_format(what, found[-1])
    return Corrupt(f"not a stored {what}: {reason}")


def newer_format(what: str, version: int, known: int = VERSION) -> NewerFormat:
    """Returns the error for something that a newer Lochan wrote."""
    return NewerFormat(
        f"a stored {what} has format {version}, this Lochan knows {known}: newer format, "
        "upgrade Lochan"
    )


def add_checksum(body: bytes) -> bytes:
    """Returns the bytes of a row: what it holds, then four bytes of CRC-32."""
    return body + crc32(body).to_bytes(CHECKSUM_BYTES, "big")


def encode_row(row: msgspec.Struct) -> bytes:
    """Returns the bytes of a row of any kind."""
    return add_checksum(_encode(row))


class RowForm(Generic[Row]):
    """Decodes the rows of one struct; `noun` names it in error messages."""

    def __init__(self, row_type: type[Row], noun: str) -> None:
        self.noun = noun
        self._decode = msgspec.msgpack.Decoder(row_type).decode

    def decode(self, raw: bytes) -> Row:
        """Reads a row; Corrupt if its bytes were changed, NewerFormat if Lochan is too old."""
        body = raw[:-CHECKSUM_BYTES]
        if add_checksum(body) != raw:
            raise Corrupt("a row is not as it was written: its checksum differs")
        try:
            return self._decode(body)
        except DECODE_FAILURES as error:
            raise unreadable(self.noun, body, error) from None
