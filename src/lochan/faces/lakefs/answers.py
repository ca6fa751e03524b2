"""Answers in lakeFS's form: values, pages, and errors as `{"message": …}` by one total table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lochan.base.errors import (
    AlreadyExists,
    Bug,
    ConditionFailed,
    Conflict,
    Corrupt,
    Denied,
    Exhausted,
    Invalid,
    KeyReused,
    LochanError,
    NewerFormat,
    NotFound,
    NothingToCommit,
    RangeNotSatisfiable,
    StagedWork,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.transport.exchange import Response, ResponseHeaders
from lochan.wire.codec import encode
from lochan.wire.lakefs import MessageJson

NO_CONTENT: Final = Response(204)

DIRTY: Final = "uncommitted changes (dirty branch)"
NO_CHANGES: Final = "commit: no changes"

# No cache, neither of a proxy nor of a browser, may keep an answer with a secret.
_NOT_KEPT: Final = ((b"cache-control", b"no-store"),)
_RETRY_AFTER: Final = ((b"retry-after", b"1"),)

_STATUSES: Final[Mapping[type[LochanError], int]] = {
    NotFound: 404,
    AlreadyExists: 409,
    Conflict: 409,
    ConditionFailed: 412,
    StagedWork: 400,
    Invalid: 400,
    KeyReused: 422,
    NothingToCommit: 400,
    RangeNotSatisfiable: 416,
    TooLarge: 413,
    Denied: 403,
    Unauthenticated: 401,
    Exhausted: 503,
    TooManyRequests: 429,
    Unavailable: 503,
    Unknown: 504,
    Corrupt: 500,
    NewerFormat: 501,
    Bug: 500,
    LochanError: 500,
}
"""The status of each kind of error; a kind that is not here has that of its parent."""

_WORDS: Final[Mapping[type[LochanError], str]] = {NothingToCommit: NO_CHANGES, StagedWork: DIRTY}
"""Messages that clients of lakeFS look for."""


def answer(value: Any, status: int = 200, headers: ResponseHeaders = ()) -> Response:
    """Returns a value as the answer."""
    return Response(status, encode(value), headers)


def secret_answer(value: Any, status: int = 200) -> Response:
    """Returns an answer that contains a secret."""
    return answer(value, status, _NOT_KEPT)


def refusal(status: int, message: str, headers: ResponseHeaders = ()) -> Response:
    """Returns an error."""
    if status == 503:
        headers = (*headers, *_RETRY_AFTER)
    return answer(MessageJson(message), status, headers)


def status_of(error: LochanError) -> int:
    """Returns the status of an error: that of the nearest class in the table."""
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def words_of(error: LochanError) -> str | None:
    """Returns lakeFS's message for an error, None if it has no own one."""
    return next((text for kind, text in _WORDS.items() if isinstance(error, kind)), None)
