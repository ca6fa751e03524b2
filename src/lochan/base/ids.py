"""Typed ids: a hash is never a bare string.

They are plain values at run time (`NewType`), so that they cost nothing in the hot paths; the type
checker keeps them apart.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NewType

from lochan.base.errors import Invalid

ObjId = NewType("ObjId", bytes)
"""SHA-256 of an object's canonical encoding, 32 bytes."""

ContentId = NewType("ContentId", str)
"""What stays the same when a table is renamed; a UUID in new repositories, any text in old ones."""

InstanceId = NewType("InstanceId", bytes)
"""16 random bytes that name one incarnation of a repository; a re-created one gets another."""

StagingToken = NewType("StagingToken", bytes)
"""16 random bytes that name one partition of staged records; never used again."""

ID_BYTES: Final = 32
STAGING_TOKEN_BYTES: Final = 16
INSTANCE_ID_BYTES: Final = 16

EMPTY_ID: Final = ObjId(sha256(b"empty").digest())
"""The head of a branch without commits; no object has this id."""

ROOT_INSTANCE: Final = InstanceId(bytes(INSTANCE_ID_BYTES))
"""The instance id of rows that belong to no repository: the format, the list of repositories."""


def obj_id_from_hex(text: str) -> ObjId:
    """Reads the text form, lower-case hex of exactly 64 digits."""
    if len(text) != 2 * ID_BYTES or not set(text) <= set("0123456789abcdef"):
        raise Invalid(f"not an object id: {text[:80]!r}; expected 64 lower-case hex digits")
    return ObjId(bytes.fromhex(text))


def find_uuid_bytes(content_id: ContentId) -> bytes | None:
    """Returns the 16 bytes of a content id that is a UUID in its usual text form, else None.

    Only the canonical lower-case form counts: the text must survive the round trip unchanged.
    """
    if len(content_id) != 36:
        return None
    try:
        raw = bytes.fromhex(content_id.replace("-", ""))
    except ValueError:
        return None
    return raw if len(raw) == 16 and content_id_from_uuid_bytes(raw) == content_id else None


def uuid_of(random: bytes) -> bytes:
    """Returns a UUID (version 4) made of 16 random bytes; 122 random bits make it unique."""
    raw = bytearray(random)
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def content_id_from_uuid_bytes(raw: bytes) -> ContentId:
    """The inverse of `find_uuid_bytes`."""
    digits = raw.hex()
    return ContentId(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")
