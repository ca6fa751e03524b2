"""Objects in bulk without JSON: for each its id (32 bytes), its length (4 bytes, big-endian) and
its stored form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from lochan.base.errors import Invalid

RAW_OBJECTS: Final = "application/vnd.lochan.objects"

_HEAD: Final = struct.Struct(">32sI")


def write_raw(objects: Iterable[tuple[str, bytes]]) -> bytes:
    """Writes objects one after the other."""
    parts: list[bytes] = []
    for object_id, data in objects:
        parts.append(_HEAD.pack(bytes.fromhex(object_id), len(data)))
        parts.append(data)
    return b"".join(parts)


def read_raw(body: bytes) -> list[tuple[str, bytes]]:
    """Reads objects that were written one after the other; Invalid if the last is cut off."""
    objects: list[tuple[str, bytes]] = []
    at = 0
    while at < len(body):
        if at + _HEAD.size > len(body):
            raise Invalid(f"the object at byte {at} is cut off")
        object_id, length = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if at + length > len(body):
            raise Invalid(f"the object {object_id.hex()} is cut off")
        objects.append((object_id.hex(), body[at : at + length]))
        at += length
    return objects
