"""Turns a reply with an error into the error that the embedded repository raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from lochan.base.errors import (
    AlreadyExists,
    Bug,
    Conflict,
    ContentNotFound,
    Denied,
    Exhausted,
    HeadConflict,
    Invalid,
    KeyReused,
    KeysConflict,
    LochanError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NewerFormat,
    NotFound,
    ReferenceNotFound,
    TooLarge,
    Unavailable,
    Unknown,
)
from lochan.client.messages import HttpReply, HttpRequest
from lochan.model.commits import ContentKey
from lochan.wire.conflicts import conflict_in
from lochan.wire.problems import ContentKeyDetails, ErrorJson, ReferenceConflicts

_UNEXPECTED_HASH: Final = "UNEXPECTED_HASH"
_SHOWN_BYTES: Final = 200

_BY_CODE: Final[dict[str, Callable[[str], LochanError]]] = {
    "REFERENCE_NOT_FOUND": ReferenceNotFound,
    "REFERENCE_ALREADY_EXISTS": AlreadyExists,
    "CONTENT_NOT_FOUND": ContentNotFound,
    "BAD_REQUEST": Invalid,
    "FORBIDDEN": Denied,
    "NAMESPACE_NOT_FOUND": NamespaceNotFound,
    "NAMESPACE_ALREADY_EXISTS": NamespaceExists,
    "NAMESPACE_NOT_EMPTY": NamespaceNotEmpty,
    "SERVICE_UNAVAILABLE": Unavailable,
    "RETRIES_EXHAUSTED": Exhausted,
    "OUTCOME_UNKNOWN": Unknown,
    "IDEMPOTENCY_KEY_REUSED": KeyReused,
    "NEWER_FORMAT": NewerFormat,
}

_WITH_KEY: Final[dict[str, Callable[[str, ContentKey], LochanError]]] = {
    "CONTENT_NOT_FOUND": ContentNotFound,
    "NAMESPACE_NOT_FOUND": NamespaceNotFound,
    "NAMESPACE_ALREADY_EXISTS": NamespaceExists,
    "NAMESPACE_NOT_EMPTY": NamespaceNotEmpty,
}

_BY_STATUS: Final[dict[int, Callable[[str], LochanError]]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: Exhausted,
    503: Unavailable,
    504: Unknown,
}


def error_of(request: HttpRequest, reply: HttpReply) -> LochanError:
    """Returns the error that a reply states."""
    try:
        error = msgspec.json.decode(reply.body, type=ErrorJson)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = reply.body[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
        return _by_status(request, reply.status, f"the server answered {reply.status}: {text}")
    details = error.error_details
    if isinstance(details, ReferenceConflicts):
        return _conflict(error.message, details)
    if isinstance(details, ContentKeyDetails) and error.error_code in _WITH_KEY:
        return _WITH_KEY[error.error_code](error.message, details.content_key.elements)
    build = _BY_CODE.get(error.error_code)
    if build is None:
        return _by_status(request, reply.status, error.message)
    return build(error.message)


def _conflict(message: str, details: ReferenceConflicts) -> LochanError:
    conflicts = tuple(conflict_in(each) for each in details.conflicts)
    if any(each.kind != _UNEXPECTED_HASH for each in conflicts):
        return KeysConflict(message, conflicts)
    return HeadConflict(message)


def _by_status(request: HttpRequest, status: int, message: str) -> LochanError:
    build = _BY_STATUS.get(status)
    if build is not None:
        return build(message)
    if status < 500:
        return Invalid(message)
    # A write may have taken effect before the server failed.
    return Bug(message) if request.key is None else Unknown(message)
