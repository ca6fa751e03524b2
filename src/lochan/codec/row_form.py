"""How one kind of row is written as bytes: encoding, checksum, format number.

A row is one MessagePack array that begins with its format number, followed by four bytes of
checksum. The checksum is tested first, then the format number, then the fields: a changed bit is
reported as damage, never as a newer format.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from lochan.codec.forms import add_checksum, unreadable_row, without_checksum

Row = TypeVar("Row", bound=msgspec.Struct)

_FAILURES: Final = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError)
_encode: Final = msgspec.msgpack.Encoder().encode


class RowForm(Generic[Row]):
    """Encodes and decodes the rows of one struct; `noun` names it in error messages."""

    def __init__(self, row_type: type[Row], noun: str) -> None:
        self.noun = noun
        self._decode = msgspec.msgpack.Decoder(row_type).decode

    def encode(self, row: Row) -> bytes:
        """Returns the bytes of a row."""
        return add_checksum(_encode(row))

    def decode(self, raw: bytes) -> Row:
        """Reads a row; Corrupt if its bytes were changed, NewerFormat if Lochan is too old."""
        body = without_checksum(raw)
        try:
            return self._decode(body)
        except _FAILURES as error:
            raise unreadable_row(self.noun, body, error) from None
