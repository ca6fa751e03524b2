"""Ids of events: UUIDs of version 5, made of what happened.

The same change has the same ids wherever and whenever its events are made: in the process that made
it, or later from history. So a subscriber recognises an event that comes twice.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from lochan.base.ids import content_id_from_uuid_bytes

_NAMESPACE: Final = bytes.fromhex("6c0c4a9be1f85e2f9f0b4f6a1d2c3b47")


def joined(*facts: bytes) -> bytes:
    """Returns facts one behind the other, each with its length."""
    return b"".join([len(fact).to_bytes(4, "big") + fact for fact in facts])


def event_id(facts: bytes) -> str:
    """Returns the id of the event of these joined facts."""
    # The version 5 of RFC 9562 is defined by SHA-1; nothing is kept secret or proven by it.
    raw = bytearray(sha1(_NAMESPACE + facts, usedforsecurity=False).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x50
    raw[8] = raw[8] & 0x3F | 0x80
    return str(content_id_from_uuid_bytes(bytes(raw)))
