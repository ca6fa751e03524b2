"""Errors on the wire."""

from __future__ import annotations

import msgspec

from lochan.wire.conflicts import ConflictJson
from lochan.wire.keys import KeyJson


class ReferenceConflicts(msgspec.Struct, frozen=True, tag="REFERENCE_CONFLICTS", tag_field="type"):
    """All conflicts of a write."""

    conflicts: list[ConflictJson]


class ContentKeyDetails(
    msgspec.Struct, frozen=True, tag="CONTENT_KEY", tag_field="type", rename="camel"
):
    """The key that an error is about."""

    content_key: KeyJson


class ErrorJson(msgspec.Struct, frozen=True, rename="camel"):
    """What went wrong; details only for clients of API spec 2 and later."""

    status: int
    reason: str
    message: str
    error_code: str
    server_stack_trace: str | None = None
    error_details: ReferenceConflicts | ContentKeyDetails | msgspec.UnsetType = msgspec.UNSET
