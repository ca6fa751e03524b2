"""Bytes of objects that come in and go out, as streams.

The body of a small object is no stream, as in `faces/files/uploads.py`.
"""

from __future__ import annotations

from email.utils import formatdate
from functools import partial
from typing import Final

from lochan.base.errors import Invalid
from lochan.faces.body_uploads import receive, write_whole
from lochan.faces.calls import read_call
from lochan.faces.file_answers import HARMLESS, WantedFile, send_file
from lochan.faces.files.params import upload_call
from lochan.faces.files.uploads import is_small, stated_size
from lochan.faces.lakefs.answers import answer
from lochan.faces.lakefs.form_data import FormField, boundary_of
from lochan.faces.lakefs.objects import check_staged, shown, wants_match, write_condition
from lochan.faces.lakefs.params import branch_of, flag_of, path_of, ref_of
from lochan.faces.lakefs.staged_branches import note_staged
from lochan.model.files import FileInfo, FileMetadata, FileProperties
from lochan.service.uploads import StagedUpload
from lochan.transport.exchange import Exchange, RequestHeaders, Response, ResponseHeaders
from lochan.wire.lakefs import BINARY

_METADATA: Final = ("x-lakefs-meta-", "x-amz-meta-")


async def get_object(exchange: Exchange) -> Response:
    """Returns the bytes of an object, or a range of them; a redirect if that is asked for."""
    if flag_of(exchange, "presign"):
        response: Response = await exchange.run(partial(_redirect, exchange))
        return response
    return await send_file(exchange, partial(_wanted, exchange))


def _redirect(exchange: Exchange) -> Response:
    files = exchange.repository.files
    url = files.presign(read_call(exchange), ref_of(exchange).spec, path_of(exchange))
    return Response(302, b"", ((b"location", url.encode("ascii")),))


def _wanted(exchange: Exchange) -> WantedFile:
    ref, path = ref_of(exchange), path_of(exchange)
    check_staged(exchange, ref, path)
    return WantedFile(ref.spec, path, _described)


def _described(info: FileInfo) -> ResponseHeaders:
    modified = formatdate(info.modified_us // 1_000_000, usegmt=True)
    return ((b"last-modified", modified.encode("ascii")), *HARMLESS)


def is_small_object(headers: RequestHeaders) -> bool:
    """Returns whether a body is an object, not a form, and is kept in the store."""
    return is_small(headers) and boundary_of(headers.get("content-type") or BINARY) is None


def upload_small_object(exchange: Exchange) -> Response:
    """Stages an object whose bytes are kept in the store."""
    refused = wants_match(exchange)
    if refused is not None:
        return refused
    headers = exchange.request.headers
    kind = headers.get("content-type") or BINARY
    begun = _begin(exchange, stated_size(headers), kind)
    return answer(shown(exchange, write_whole(begun, [exchange.request.body])), 201)


async def upload_object(exchange: Exchange) -> Response:
    """Stages an object: the body as it is, or the field `content` of a form."""
    refused = wants_match(exchange)
    if refused is not None:
        return refused
    headers, body = exchange.request.headers, exchange.request.stream
    size, kind = stated_size(headers), headers.get("content-type") or BINARY
    boundary = boundary_of(kind)
    if boundary is None:
        info = await receive(exchange, partial(_begin, exchange, size, kind), body, size)
    elif body is None:
        raise Invalid("the form has no field 'content'")
    else:
        field = FormField(body, boundary)
        await field.open()
        kind = field.content_type or BINARY
        info = await receive(exchange, partial(_begin, exchange, None, kind), field, None)
    return answer(shown(exchange, info), 201)


def _begin(exchange: Exchange, size: int | None, kind: str) -> StagedUpload:
    branch = branch_of(exchange)
    metadata = exchange.request.headers.derive(_metadata)
    note_staged(exchange, branch)
    return exchange.repository.uploads.begin(
        upload_call(exchange),
        branch,
        path_of(exchange),
        FileProperties(content_type=kind, metadata=metadata, size=size),
        write_condition(exchange),
    )


def _metadata(headers: RequestHeaders) -> FileMetadata:
    found: dict[str, str] = {}
    for name, value in headers.items():
        for prefix in _METADATA:
            if name.startswith(prefix) and len(name) > len(prefix):
                found[name.removeprefix(prefix)] = value
    return tuple(sorted(found.items()))
