"""Rows that change: references, and the description of a repository.

A row is one MessagePack array, then four bytes of checksum: nothing else says what it should hold.
"""

from __future__ import annotations

from typing import Final, Literal
from zlib import crc32

import msgspec

from lochan.base.errors import Corrupt

_CHECKSUM_BYTES: Final = 4
_encode: Final = msgspec.msgpack.Encoder().encode


class Move(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A change of a reference that is no commit; kept until it is copied to the log."""

    version: int
    old: bytes
    new: bytes
    kind: str
    who: str
    when_us: int
    operation: bytes
    source: str = ""
    base: bytes = b""


class ReferenceRow(msgspec.Struct, frozen=True, array_like=True):
    """A branch, a tag or an internal reference as its row says.

    `incarnation` is the sequence of the `int/refs` commit that added the name: what was deleted and
    created again is another reference. `operation` names the compare-and-swap that wrote the row.
    """

    format: Literal[1]
    name: str
    kind: str
    pointer: bytes
    version: int
    incarnation: int
    operation: bytes
    created_us: int
    deleted: bool = False
    expires_us: int | None = None
    previous: tuple[tuple[bytes, int], ...] = ()
    moves: tuple[Move, ...] = ()
    staging_token: bytes = b""
    sealed_tokens: tuple[bytes, ...] = ()


class ReferenceElement(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A name in the index of `int/refs`: enough to make its row, whoever comes next."""

    kind: str
    pointer: bytes
    incarnation: int
    created_us: int
    operation: bytes
    who: str
    expires_us: int | None = None


class Description(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a repository is: written once, when it is created."""

    format: Literal[1]
    name: str
    default_branch: str
    created_us: int
    boundary_seed: bytes
    token_key: bytes


_decode_row: Final = msgspec.msgpack.Decoder(ReferenceRow).decode
_decode_element: Final = msgspec.msgpack.Decoder(ReferenceElement).decode
_decode_description: Final = msgspec.msgpack.Decoder(Description).decode
_FAILURES: Final = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError)


def encode_row(row: ReferenceRow | Description) -> bytes:
    """Returns the bytes of a row."""
    raw = _encode(row)
    return raw + crc32(raw).to_bytes(_CHECKSUM_BYTES, "big")


def decode_row(raw: bytes) -> ReferenceRow:
    """Reads a reference row."""
    try:
        return _decode_row(_checked(raw))
    except _FAILURES as error:
        raise Corrupt(f"not a stored reference: {error}") from None


def decode_description(raw: bytes) -> Description:
    """Reads a repository's description."""
    try:
        return _decode_description(_checked(raw))
    except _FAILURES as error:
        raise Corrupt(f"not a stored description: {error}") from None


def encode_reference_element(element: ReferenceElement) -> bytes:
    """Returns an element of the index of names; the first byte says put, as in every index."""
    return b"\0" + _encode(element)


def decode_reference_element(element: bytes) -> ReferenceElement:
    """Reads an element of the index of names."""
    try:
        return _decode_element(memoryview(element)[1:])
    except _FAILURES as error:
        raise Corrupt(f"not a stored reference name: {error}") from None


def _checked(raw: bytes) -> bytes:
    body, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if crc32(body).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise Corrupt("a row is not as it was written: its checksum differs")
    return body
