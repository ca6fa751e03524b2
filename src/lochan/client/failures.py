"""From an error's body to the same error that the embedded repository raises."""

from __future__ import annotations

from collections.abc import Callable
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
from lochan.client.asking import Ask, Reply
from lochan.model.commits import ContentKey
from lochan.wire.conflicts import conflict_in
from lochan.wire.problems import ContentKeyDetails, ErrorJson, ReferenceConflicts

_UNEXPECTED_HASH: Final = "UNEXPECTED_HASH"
_TOLD_CHARACTERS: Final = 200

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


def error_of(ask: Ask, reply: Reply) -> LochanError:
    """Returns the error that a reply tells of."""
    try:
        told = msgspec.json.decode(reply.body, type=ErrorJson)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = reply.body[:_TOLD_CHARACTERS].decode("utf-8", "replace").strip()
        return _by_status(ask, reply.status, f"the server answered {reply.status}: {text}")
    details = told.error_details
    if isinstance(details, ReferenceConflicts):
        return _conflict(told.message, details)
    if isinstance(details, ContentKeyDetails) and told.error_code in _WITH_KEY:
        return _WITH_KEY[told.error_code](told.message, details.content_key.elements)
    make = _BY_CODE.get(told.error_code)
    return _by_status(ask, reply.status, told.message) if make is None else make(told.message)


def _conflict(message: str, details: ReferenceConflicts) -> LochanError:
    conflicts = tuple(conflict_in(each) for each in details.conflicts)
    if any(each.kind != _UNEXPECTED_HASH for each in conflicts):
        return KeysConflict(message, conflicts)
    return HeadConflict(message)


def _by_status(ask: Ask, status: int, message: str) -> LochanError:
    make = _BY_STATUS.get(status)
    if make is not None:
        return make(message)
    if status < 500:
        return Invalid(message)
    # Whether a write took effect before the server failed, nobody can tell.
    return Bug(message) if ask.key is None else Unknown(message)


def unreadable(what: str) -> LochanError:
    """Returns the error for an answer that is not what the API says."""
    return Corrupt(f"the server's answer cannot be read: {what}")
