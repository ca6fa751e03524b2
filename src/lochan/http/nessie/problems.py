"""Errors as answers of the Nessie API: one total table, and the body.

503 means that nothing happened, 504 that the outcome is unknown; only 503 has a Retry-After. An
answer contains the public message of an error, never its internal details.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from lochan.base.errors import HeadConflict, KeysConflict, LochanError
from lochan.http.exchange import Request, Response
from lochan.http.problems import public_text, reason_of
from lochan.model.results import ContentConflict
from lochan.wire.codec import encode
from lochan.wire.keys import KeyJson
from lochan.wire.problems import (
    ERROR_CODES,
    ConflictJson,
    ContentKeyDetails,
    ErrorJson,
    ReferenceConflicts,
    conflict_out,
)

Details = ReferenceConflicts | ContentKeyDetails | msgspec.UnsetType

_RETRY_AFTER: Final = ((b"retry-after", b"1"),)


def code_of(error: LochanError) -> tuple[int, str]:
    """Returns status and code of an error: those of the nearest class in the table."""
    return next(ERROR_CODES[kind] for kind in type(error).__mro__ if kind in ERROR_CODES)


def problem_of(
    request: Request,
    error: LochanError,
    show: Callable[[ContentConflict], ConflictJson] = conflict_out,
) -> Response:
    """Returns the answer to an error; `show` writes its conflicts."""
    status, code = code_of(error)
    details = _details(error, show) if wants_details(request) else msgspec.UNSET
    return problem(status, code, public_text(error, request.id), details)


def problem(status: int, code: str, message: str, details: Details = msgspec.UNSET) -> Response:
    """Returns the answer for an error."""
    body = ErrorJson(status, reason_of(status), message, code, None, details)
    return Response(status, encode(body), _RETRY_AFTER if status == 503 else ())


def wants_details(request: Request) -> bool:
    """Returns whether the client reads details: it sends API spec 2 or later."""
    text = request.headers.get("nessie-client-spec")
    if not text:
        return False
    major = text.strip().partition(".")[0]
    return major.isascii() and major.isdigit() and int(major[:9]) >= 2


def _details(error: LochanError, show: Callable[[ContentConflict], ConflictJson]) -> Details:
    if isinstance(error, KeysConflict):
        return ReferenceConflicts(
            [show(each) for each in error.details if isinstance(each, ContentConflict)]
        )
    if isinstance(error, HeadConflict):
        return ReferenceConflicts([ConflictJson("UNEXPECTED_HASH", None, error.public_message)])
    key: tuple[str, ...] | None = getattr(error, "key", None)
    if key:
        return ContentKeyDetails(KeyJson(key))
    return msgspec.UNSET
