"""Bytes of files that come in: written in pieces, staged after the last byte, or not at all.

The body of a file which is kept in the store is no stream, if its length is stated: the upload is a
request like any other brief one.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.files import FILE_IN_STORE_BYTES_MAX
from lochan.faces.answers import answer
from lochan.faces.body_uploads import receive, write_whole
from lochan.faces.files.params import SIZE, branch_of, condition_of, path_of, upload_call
from lochan.model.files import FileProperties
from lochan.service.uploads import StagedUpload
from lochan.transport.exchange import Exchange, RequestHeaders, Response
from lochan.wire.file_headers import read_properties
from lochan.wire.files import file_out

_DIGITS_MAX: Final = 15


def is_small(headers: RequestHeaders) -> bool:
    """Returns whether a request has a body of a stated length that is kept in the store."""
    length = headers.get("content-length") or ""
    if headers.get("content-encoding") is not None or not length.isdecimal():
        return False
    return len(length) <= _DIGITS_MAX and int(length) <= FILE_IN_STORE_BYTES_MAX


def put_small_file(exchange: Exchange) -> Response:
    """Stages a file whose bytes are kept in the store."""
    stated = exchange.request.headers.derive(_read_stated)
    info = write_whole(_begin(exchange, stated), [exchange.request.body])
    return answer(file_out(info))


async def put_file(exchange: Exchange) -> Response:
    """Stages a file on a branch."""
    stated = exchange.request.headers.derive(_read_stated)
    begin = partial(_begin, exchange, stated)
    info = await receive(exchange, begin, exchange.request.stream, stated.size)
    return answer(file_out(info))


def _begin(exchange: Exchange, stated: FileProperties) -> StagedUpload:
    return exchange.repository.uploads.begin(
        upload_call(exchange),
        branch_of(exchange),
        path_of(exchange),
        stated,
        condition_of(exchange),
    )


def _read_stated(headers: RequestHeaders) -> FileProperties:
    return read_properties(headers.all, stated_size(headers))


def stated_size(headers: RequestHeaders) -> int | None:
    """Returns the size of the body, if its sender has stated it; a packed body is refused."""
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        raise Invalid("a file is stored as it is sent: send it without Content-Encoding")
    sizes = {
        _number(name, value) for name in ("content-length", SIZE) for value in headers.all(name)
    }
    if len(sizes) > 1:
        raise Invalid("Content-Length and Lochan-Size state two different sizes")
    return sizes.pop() if sizes else None


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise Invalid(f"the header {name} is a number of bytes: {text[:40]!r}")
    return int(text)
