"""Answers with the bytes of a file, for faces that describe it by headers of their own.

`Range`, `If-Match`, `If-None-Match` and `If-Range` are decided on the file that is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from lochan.base.errors import ConditionFailed, RangeNotSatisfiable
from lochan.faces.calls import read_call
from lochan.faces.file_reads import FileToSend, UnsentFile, no_body, open_file, open_stored_file
from lochan.model.files import FileInfo
from lochan.model.specs import ReferenceSpec
from lochan.transport.body_streams import ResponseStream
from lochan.transport.conditions import ByteSelection, select
from lochan.transport.exchange import Exchange, Response, ResponseHeaders

_BINARY: Final = b"application/octet-stream"

# A file may be a page with a program. A browser that shows it must not let it act as one of ours.
HARMLESS: Final[ResponseHeaders] = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"private, no-cache"),
)
"""What every answer with the bytes of a file has."""


class WantedFile(msgspec.Struct, frozen=True):
    """A file to be sent, and the headers by which a face describes it."""

    spec: ReferenceSpec
    path: str
    describe: Callable[[FileInfo], ResponseHeaders]


FindFile = Callable[[], WantedFile]

_Answer = Response | tuple[WantedFile, FileToSend]
"""An answer without bytes, or a file that is open."""


async def send_file(exchange: Exchange, find: FindFile) -> Response:
    """Returns the bytes of the file that `find` names; of HEAD no bytes."""
    if exchange.request.method == "HEAD":
        response: Response = await exchange.run_brief(partial(_describe, exchange, find))
        return response
    answer: _Answer | None = await exchange.run_brief(partial(_open, exchange, find, brief=True))
    if answer is None:
        # Its bytes are at a place, which may take long to answer.
        answer = await exchange.run(partial(_open, exchange, find, brief=False))
    if isinstance(answer, Response):
        return answer
    wanted, opened = answer
    return _answer(wanted, opened.stream.info, opened.chosen, opened.body(exchange))


def _describe(exchange: Exchange, find: FindFile) -> Response:
    wanted = find()
    info = exchange.repository.files.stat(read_call(exchange), wanted.spec, wanted.path)
    chosen = _select(exchange, info)
    return _answer(wanted, info, chosen, no_body(chosen.length))


def _open(exchange: Exchange, find: FindFile, *, brief: bool) -> _Answer | None:
    """Opens a file; a brief call only one whose bytes are kept in the store, else None."""
    wanted = find()
    work = open_stored_file if brief else open_file
    opened = work(exchange, wanted.spec, wanted.path, partial(_select, exchange))
    if opened is None:
        return None
    if isinstance(opened, UnsentFile):
        return _answer(wanted, opened.info, opened.chosen, None)
    return wanted, opened


def _select(exchange: Exchange, info: FileInfo) -> ByteSelection:
    """Returns which bytes a request wants, or that it knows them; raises if it may not have any."""
    chosen = select(exchange.request, info.etag, info.size)
    if chosen.status == 412:
        raise ConditionFailed(f"{info.path!r} has the ETag {info.etag}, not the one in If-Match")
    if chosen.status == 416:
        raise RangeNotSatisfiable(f"{info.path!r} has {info.size} bytes", info.size)
    return chosen


def _answer(
    wanted: WantedFile, info: FileInfo, chosen: ByteSelection, parts: ResponseStream | None
) -> Response:
    """Returns an answer about a file; without bytes if the conditions ask for none."""
    headers: ResponseHeaders = (*chosen.headers, *wanted.describe(info))
    if chosen.status not in (200, 206):
        return Response(chosen.status, b"", headers, _BINARY)
    kind = info.content_type
    shown = kind.encode("ascii") if kind.isascii() and kind.isprintable() and kind else _BINARY
    return Response(chosen.status, b"", headers, shown, parts)
