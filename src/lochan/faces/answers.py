"""What the JSON faces answer alike: values, and errors by one total table.

503 means that nothing happened, 504 that the outcome is unknown; only 503 has a Retry-After. An
answer contains the public message of an error, never its internal details.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from lochan.base.errors import HeadConflict, KeysConflict, LochanError
from lochan.model.results import ContentConflict
from lochan.transport.exchange import Request, Response
from lochan.transport.problems import public_text, reason_of
from lochan.wire.codec import encode
from lochan.wire.keys import KeyJson
from lochan.wire.problems import (
    ERROR_CODES,
    ConflictJson,
    ContentKeyDetails,
    ErrorCodes,
    ErrorJson,
    ReferenceConflicts,
    conflict_out,
)

SUCCESS_TYPE: Final = b"application/json;charset=UTF-8"

NO_CONTENT: Final = Response(204)

_RETRY_AFTER: Final = ((b"retry-after", b"1"),)

Details = ReferenceConflicts | ContentKeyDetails | msgspec.UnsetType


def etag(digits: str) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the header that carries a hash, so that `If-Match` may bring it back."""
    return ((b"etag", b'"%b"' % digits.encode("ascii")),)


def answer(value: Any, digits: str | None = None) -> Response:
    """Returns a value as the answer, tagged with the hash that it shows."""
    headers = () if digits is None else etag(digits)
    return Response(200, encode(value), headers, SUCCESS_TYPE)


def code_of(error: LochanError, codes: ErrorCodes = ERROR_CODES) -> tuple[int, str]:
    """Returns status and code of an error: those of the nearest class in the table."""
    return next(codes[kind] for kind in type(error).__mro__ if kind in codes)


def problem_of(
    request: Request,
    error: LochanError,
    show: Callable[[ContentConflict], ConflictJson] = conflict_out,
    codes: ErrorCodes = ERROR_CODES,
) -> Response:
    """Returns the answer to an error; `show` writes its conflicts."""
    status, code = code_of(error, codes)
    details: Details = msgspec.UNSET
    if wants_details(request):
        details = _details(error, show, with_paths=takes_additions(request))
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


def takes_additions(request: Request) -> bool:
    """Returns whether a client takes fields that Nessie does not have: its own clients fail there.

    Clients of Nessie send which API they know. Ours sends that, too, and that it is ours.
    """
    headers = request.headers
    return not headers.get("nessie-client-spec") or bool(headers.get("lochan-client"))


def _details(
    error: LochanError, show: Callable[[ContentConflict], ConflictJson], *, with_paths: bool
) -> Details:
    if isinstance(error, KeysConflict):
        shown = [show(each) for each in error.details if isinstance(each, ContentConflict)]
        if not with_paths:
            shown = [msgspec.structs.replace(each, path=msgspec.UNSET) for each in shown]
        return ReferenceConflicts(shown)
    if isinstance(error, HeadConflict):
        return ReferenceConflicts([ConflictJson("UNEXPECTED_HASH", None, error.public_message)])
    key: tuple[str, ...] | None = getattr(error, "key", None)
    if key:
        return ContentKeyDetails(KeyJson(key))
    return msgspec.UNSET
