"""What the answers of the gateway have in common: request ids, times, tags, errors as XML."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

import msgspec

from lochan.base.errors import LochanError, RangeNotSatisfiable
from lochan.transport.exchange import Request, Response, ResponseHeaders
from lochan.transport.problems import public_text
from lochan.wire.s3_problems import code_of
from lochan.wire.s3_xml import CONTENT_TYPE, Field, document, error_document

NO_CONTENT: Final = Response(204)

_RETRY_AFTER: Final = ((b"retry-after", b"1"),)


def answer(root: str, values: Iterable[Field], headers: ResponseHeaders = ()) -> Response:
    """Returns a document as the answer."""
    return Response(200, document(root, values), headers, CONTENT_TYPE)


def tagged(request: Request, response: Response) -> Response:
    """Returns an answer with the id of its request, as clients of S3 read it."""
    identity = request.id.encode("latin-1")
    headers = (*response.headers, (b"x-amz-request-id", identity), (b"x-amz-id-2", identity))
    return msgspec.structs.replace(response, headers=headers)


def problem(request: Request, error: LochanError) -> Response:
    """Returns the answer to an error."""
    status, code, message = code_of(error)
    if message == error.public_message:
        message = public_text(error, request.id)
    headers: ResponseHeaders = _RETRY_AFTER if status == 503 else ()
    more: tuple[Field, ...] = ()
    if isinstance(error, RangeNotSatisfiable):
        more = (("ActualObjectSize", error.size),)
        headers = ((b"content-range", b"bytes */%d" % error.size),)
    return refusal(request, status, code, message, headers, more)


def refusal(
    request: Request,
    status: int,
    code: str,
    message: str,
    headers: ResponseHeaders = (),
    more: tuple[Field, ...] = (),
) -> Response:
    """Returns a refusal as XML."""
    body = error_document(error_fields(request, code, message, more))
    return tagged(request, Response(status, body, headers, CONTENT_TYPE))


def error_fields(
    request: Request, code: str, message: str, more: tuple[Field, ...] = ()
) -> list[Field]:
    """Returns what the document of an error has."""
    return [
        ("Code", code),
        ("Message", message),
        *more,
        ("Resource", request.path.decode("latin-1")),
        ("RequestId", request.id),
        ("HostId", request.id),
    ]


def quoted(etag: str) -> str:
    """Returns an ETag as S3 shows it."""
    return f'"{etag}"'


def xml_time(time_us: int) -> str:
    """Returns a time as documents have it: with milliseconds, in UTC."""
    made = _moment(time_us)
    return f"{made:%Y-%m-%dT%H:%M:%S}.{made.microsecond // 1_000:03d}Z"


def http_time(time_us: int) -> str:
    """Returns a time as headers have it."""
    return format_datetime(_moment(time_us), usegmt=True)


def _moment(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(
        microsecond=time_us % 1_000_000
    )
