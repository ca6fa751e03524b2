"""Annotated tags as stored bytes; the id is the hash of the bytes, as of every plain object."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from lochan.base.errors import Corrupt, TooLarge
from lochan.base.ids import ID_BYTES, ObjId
from lochan.base.limits.storage import OBJECT_BYTES_MAX
from lochan.codec.commits import TYPE_TAG, TagObject
from lochan.codec.forms import is_of_type, unreadable_object

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(TagObject).decode


def encode_tag(tag: TagObject) -> tuple[ObjId, bytes]:
    """Returns id and canonical bytes."""
    raw = _encode(tag)
    if len(raw) > OBJECT_BYTES_MAX:
        raise TooLarge(f"a tag of {len(raw)} bytes is over the limit of {OBJECT_BYTES_MAX}")
    return ObjId(sha256(raw).digest()), raw


def decode_tag(raw: bytes) -> TagObject:
    """Reads a stored tag whose bytes were checked against its id."""
    try:
        tag = _decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise unreadable_object("tag", raw, TYPE_TAG, error) from None
    if len(tag.target) != ID_BYTES or _encode(tag) != raw:
        raise Corrupt("not a stored tag: its bytes are not canonical")
    return tag


def is_tag(raw: bytes) -> bool:
    """Returns whether a stored object is a tag of any version, by its first bytes."""
    return is_of_type(raw, TYPE_TAG)
