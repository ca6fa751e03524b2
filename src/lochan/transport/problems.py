"""The server's own answers to errors, where no face is responsible."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Exhausted,
    Invalid,
    LochanError,
    NewerFormat,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.base.masks import mask_text
from lochan.transport.exchange import Response

RETRY_AFTER: Final = ((b"retry-after", b"1"),)

# The first that fits counts; all other errors are 500.
_STATUSES: Final[tuple[tuple[type[LochanError], int], ...]] = (
    (NotFound, 404),
    (AlreadyExists, 409),
    (Conflict, 409),
    (TooLarge, 413),
    (Invalid, 400),
    (Unauthenticated, 401),
    (Denied, 403),
    (TooManyRequests, 429),
    (Exhausted, 503),
    (Unknown, 504),
    (Unavailable, 503),
    (NewerFormat, 501),
)


def reason_of(status: int) -> str:
    """Returns the reason phrase of a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def status_of(error: LochanError) -> int:
    """Returns the status for an error: 503 means no effect, 504 means unknown."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return 500


def build_problem(
    status: int, message: str, code: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Response:
    """Builds an answer in the form that clients of every face can at least show to people."""
    body = {"status": status, "reason": reason_of(status), "message": message, "errorCode": code}
    return Response(status, msgspec.json.encode(body), headers)


def plain_problem(error: LochanError, request_id: str = "") -> Response:
    """Builds the answer to an error where no face is responsible."""
    status = status_of(error)
    retry = RETRY_AFTER if status == 503 else ()
    return build_problem(status, public_text(error, request_id), error.kind.upper(), retry)


def public_text(error: LochanError, request_id: str) -> str:
    """Returns the message for a client, with the id under which the log has the details.

    What it names was sent by the client, and may be a secret in the wrong place.
    """
    text = mask_text(error.public_message)
    return f"{text} (request {request_id})" if request_id and is_concealed(error) else text


def is_concealed(error: LochanError) -> bool:
    """Returns whether an error has details for the operator that a client must not see."""
    return error.public_message != error.message
