"""Errors on the wire: the status and the code of each kind, and the body of a response."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import (
    AlreadyExists,
    Bug,
    Conflict,
    ContentNotFound,
    Corrupt,
    Denied,
    Exhausted,
    Invalid,
    KeyReused,
    LochanError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NewerFormat,
    NotFound,
    ReferenceNotFound,
    Unavailable,
    Unknown,
)
from lochan.wire.conflicts import ConflictJson
from lochan.wire.keys import KeyJson

ERROR_CODES: Final[dict[type[LochanError], tuple[int, str]]] = {
    NotFound: (404, "NOT_FOUND"),
    ReferenceNotFound: (404, "REFERENCE_NOT_FOUND"),
    ContentNotFound: (404, "CONTENT_NOT_FOUND"),
    NamespaceNotFound: (404, "NAMESPACE_NOT_FOUND"),
    AlreadyExists: (409, "REFERENCE_ALREADY_EXISTS"),
    NamespaceExists: (409, "NAMESPACE_ALREADY_EXISTS"),
    Conflict: (409, "REFERENCE_CONFLICT"),
    NamespaceNotEmpty: (409, "NAMESPACE_NOT_EMPTY"),
    Invalid: (400, "BAD_REQUEST"),
    KeyReused: (422, "IDEMPOTENCY_KEY_REUSED"),
    Denied: (403, "FORBIDDEN"),
    Exhausted: (503, "RETRIES_EXHAUSTED"),
    Unavailable: (503, "SERVICE_UNAVAILABLE"),
    Unknown: (504, "OUTCOME_UNKNOWN"),
    Corrupt: (500, "UNKNOWN"),
    NewerFormat: (501, "NEWER_FORMAT"),
    Bug: (500, "UNKNOWN"),
    LochanError: (500, "UNKNOWN"),
}
"""Status and code of each kind of error; a kind that is not here has those of its parent."""


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
