"""Stored objects: canonical, versioned, type first; the id is the hash of the bytes.

An object is one MessagePack array: type number, version, then its fields in order. MessagePack in
shortest form, with no maps, has one encoding per value; golden bytes in the tests pin it.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final, Literal, TypeVar

import msgspec

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt, Invalid, TooLarge
from lochan.base.ids import ContentId, ObjId
from lochan.base.limits.contents import CONTENT_ID_BYTES_MAX, PAYLOAD_MAX
from lochan.base.limits.storage import OBJECT_BYTES_MAX
from lochan.codec.elements import encode_text
from lochan.codec.forms import DECODE_FAILURES, unreadable

TYPE_VALUE: Final = 3
TYPE_NODE: Final = 4
TYPE_FILE: Final = 7
# 5 and 6 were the numbers of two types that no Lochan ever wrote; a new type gets a higher one.

_encode: Final = msgspec.msgpack.Encoder().encode

# Addresses of blocks have a slash, URLs a colon.
_OBJECT_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")


class ValueObject(
    msgspec.Struct,
    frozen=True,
    gc=False,
    array_like=True,
    tag=TYPE_VALUE,
    forbid_unknown_fields=True,
):
    """A content as its catalog encoded it, with the full content id."""

    version: Literal[1]
    content_id: str
    payload: int
    data: bytes


class NodeObject(
    msgspec.Struct,
    frozen=True,
    gc=False,
    array_like=True,
    tag=TYPE_NODE,
    forbid_unknown_fields=True,
):
    """A node of an index tree, or an index embedded in a commit.

    Keys are `prefix + suffix`, strictly ascending; the prefix is as long as possible. `widths` is
    one number when all values are equally long, else their lengths. `total` counts the elements
    below (in a leaf: its own), `raw` is the sum of the lengths of keys and values.
    """

    version: Literal[1]
    level: int
    total: int
    raw: int
    prefix: bytes
    suffixes: tuple[bytes, ...]
    widths: int | tuple[int, ...]
    values: bytes


class FileObject(
    msgspec.Struct,
    frozen=True,
    gc=False,
    array_like=True,
    tag=TYPE_FILE,
    forbid_unknown_fields=True,
):
    """The bytes of a small file."""

    version: Literal[1]
    data: bytes


Object = ValueObject | NodeObject | FileObject
_Object = TypeVar("_Object", ValueObject, NodeObject, FileObject)

_TYPE_NUMBERS: Final[dict[type[Any], int]] = {
    ValueObject: TYPE_VALUE,
    NodeObject: TYPE_NODE,
    FileObject: TYPE_FILE,
}
_decoders: Final[dict[type[Any], Any]] = {
    kind: msgspec.msgpack.Decoder(kind).decode for kind in _TYPE_NUMBERS
}


def encode_object(value: Object) -> bytes:
    """Returns the canonical bytes of an object."""
    raw = _encode(value)
    if len(raw) > OBJECT_BYTES_MAX:
        raise TooLarge(f"an object of {len(raw)} bytes is over the limit of {OBJECT_BYTES_MAX}")
    return raw


def encode_inner(value: Object) -> bytes:
    """Returns the canonical bytes of a part of another object, whose own size is checked."""
    return _encode(value)


def object_id(raw: bytes) -> ObjId:
    """Returns the id of an object's canonical bytes."""
    return ObjId(sha256(raw).digest())


def check_object_id(expected: ObjId, raw: bytes) -> None:
    """Raises Corrupt unless the bytes are the ones the id was made from."""
    if sha256(raw).digest() != expected:
        raise Corrupt(
            f"object {expected.hex()} does not hash to its id; its bytes were changed", expected
        )


def decode_object(kind: type[_Object], raw: bytes) -> _Object:
    """Reads bytes of one type; anything else is Corrupt, a later version of it NewerFormat.

    That they are the canonical ones is checked by their hash, or by `check_canonical`.
    """
    try:
        value: _Object = _decoders[kind](raw)
    except DECODE_FAILURES as error:
        raise unreadable(kind.__name__, raw, error, _TYPE_NUMBERS[kind]) from None
    return value


def check_canonical(value: Object, raw: bytes) -> None:
    """Raises Corrupt unless the bytes are the one encoding of the value; for bytes from outside."""
    check_stored(_encode(value) == raw, "an object is stored in its canonical encoding")


def build_value(content_id: ContentId, payload: int, data: bytes) -> ValueObject:
    """Makes a value object after checking what a user may choose."""
    if not 0 < len(encode_text(content_id)) <= CONTENT_ID_BYTES_MAX:
        raise Invalid(f"a content id has 1 to {CONTENT_ID_BYTES_MAX} bytes")
    if not 0 < payload <= PAYLOAD_MAX:
        raise Invalid(f"a payload is a number from 1 to {PAYLOAD_MAX}")
    return ValueObject(1, content_id, payload, data)


def address_of(obj_id: ObjId) -> str:
    """Returns the address of a file whose bytes are an object: the id in hex, nothing else."""
    return obj_id.hex()


def find_object_id(address: str) -> ObjId | None:
    """Returns the object in which the bytes of a file are; None if they are somewhere else."""
    if _OBJECT_ADDRESS.fullmatch(address) is None:
        return None
    return ObjId(bytes.fromhex(address))
