"""Bytes of files that go out, described by the headers of our own clients."""

from __future__ import annotations

from lochan.faces.file_answers import HARMLESS, WantedFile, send_file
from lochan.faces.files.params import path_of, spec_of
from lochan.model.files import FileInfo
from lochan.transport.exchange import Exchange, Response, ResponseHeaders
from lochan.wire.file_headers import FILE, digest_text, file_text


async def get_file(exchange: Exchange) -> Response:
    """Returns the bytes of a file, or of HEAD what they would be."""
    return await send_file(
        exchange, lambda: WantedFile(spec_of(exchange), path_of(exchange), _described)
    )


def _described(info: FileInfo) -> ResponseHeaders:
    headers: ResponseHeaders = ((FILE.encode("ascii"), file_text(info).encode("ascii")), *HARMLESS)
    if info.sha256:
        headers += ((b"repr-digest", digest_text(info.sha256).encode("ascii")),)
    return headers
