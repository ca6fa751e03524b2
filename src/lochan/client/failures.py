"""Turns a reply with an error into the error that the embedded repository raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from lochan.base.errors import (
    Bug,
    Conflict,
    ContentNotFound,
    Corrupt,
    Denied,
    HeadConflict,
    Invalid,
    KeysConflict,
    LochanError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NotFound,
    RangeNotSatisfiable,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.client.messages import Flow, HttpReply, HttpRequest
from lochan.model.commits import ContentKey
from lochan.wire.problems import (
    ERROR_CODES,
    FILE_ERROR_CODES,
    ContentKeyDetails,
    ErrorJson,
    ReferenceConflicts,
    conflict_in,
)

_UNEXPECTED_HASH: Final = "UNEXPECTED_HASH"
_SHOWN_BYTES: Final = 200

# Codes that name one kind of error; other replies become the error of their status.
_BY_CODE: Final = {
    code: kind
    for codes in (ERROR_CODES, FILE_ERROR_CODES)
    for kind, (_, code) in codes.items()
    if code != "UNKNOWN"
}

_WITH_KEY: Final[dict[type[LochanError], Callable[[str, ContentKey], LochanError]]] = {
    ContentNotFound: ContentNotFound,
    NamespaceNotFound: NamespaceNotFound,
    NamespaceExists: NamespaceExists,
    NamespaceNotEmpty: NamespaceNotEmpty,
}

_BY_STATUS: Final[dict[int, Callable[[str], LochanError]]] = {
    401: Unauthenticated,
    403: Denied,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: TooManyRequests,
    503: Unavailable,
    504: Unknown,
}


def error_of(request: HttpRequest, reply: HttpReply) -> LochanError:
    """Returns the error that a reply states."""
    if 300 <= reply.status < 400:
        return Invalid(
            f"the server answered {reply.status}, a redirect, which is not followed: use the "
            "address that the server itself has"
        )
    try:
        error = msgspec.json.decode(reply.body, type=ErrorJson)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = reply.body[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
        return _by_status(request, reply.status, f"the server answered {reply.status}: {text}")
    details = error.error_details
    if isinstance(details, ReferenceConflicts):
        return _conflict(error.message, details)
    kind = _BY_CODE.get(error.error_code)
    if kind is None:
        return _by_status(request, reply.status, error.message)
    if isinstance(details, ContentKeyDetails) and kind in _WITH_KEY:
        return _WITH_KEY[kind](error.message, details.content_key.elements)
    if kind is RangeNotSatisfiable:
        size = reply.headers.get("content-range", "").rpartition("/")[2]
        return RangeNotSatisfiable(error.message, int(size) if size.isdigit() else 0)
    return kind(error.message)


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
    return Unknown(message) if request.is_write else Bug(message)


_Shape = TypeVar("_Shape")


def exchange(request: HttpRequest, shape: type[_Shape]) -> Flow[_Shape]:
    """Returns the decoded body of the reply; raises the error that the server replied with."""
    reply = yield from exchange_undecoded(request)
    try:
        return msgspec.json.decode(reply.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(f"the server's answer cannot be read: {error}") from None


def exchange_undecoded(request: HttpRequest) -> Flow[HttpReply]:
    """Returns a reply whose body does not matter; raises the error that the server replied with."""
    reply = yield request
    if not 200 <= reply.status < 300:
        raise error_of(request, reply)
    return reply
