"""The handlers of uploads in parts.

Joining the parts of a large upload takes longer than clients wait for an answer. So an answer to
that begins after some seconds, with white space, and ends with the document: of the object, or of
an error, as S3 does it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Final

from lochan.base.errors import BytesDiffer, Invalid, LochanError, ReferenceNotFound, Refusal
from lochan.base.limits.blocks import PART_BYTES_MAX, PART_NUMBER_MAX
from lochan.base.limits.s3 import COMPLETE_SILENCE_S, COMPLETE_XML_BYTES_MAX
from lochan.faces.body_uploads import receive
from lochan.faces.calls import read_call
from lochan.faces.s3.answers import NO_CONTENT, answer, error_fields, quoted, xml_time
from lochan.faces.s3.conditions import check_copy
from lochan.faces.s3.listings import read_limit
from lochan.faces.s3.object_handlers import Copies, copied_bytes, no_branch, read_copy_source
from lochan.faces.s3.object_headers import (
    check_demands,
    condition_of,
    content_type_of,
    etag_header,
    metadata_of,
)
from lochan.faces.s3.payloads import CheckedUpload, Payload, check_body
from lochan.faces.s3.targets import encode_ref, write_target
from lochan.model.files import (
    WHOLE_FILE,
    ByteRange,
    FileInfo,
    FileProperties,
    FileStream,
    UploadedPart,
)
from lochan.service.multiparts import StagedPart
from lochan.transport.body_streams import ResponseStream
from lochan.transport.exchange import Exchange, Request, Response
from lochan.wire.s3_problems import code_of
from lochan.wire.s3_xml import (
    CONTENT_TYPE,
    Field,
    document,
    error_document,
    malformed,
    nested,
    read_document,
)

_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})\Z")
_OWNER: Final[list[Field]] = [("ID", "lochan"), ("DisplayName", "lochan")]

# After every id: they are digits in hex.
_AFTER_IDS: Final = "g"


def create_upload(exchange: Exchange) -> Response:
    """Begins an upload."""
    headers = exchange.request.headers
    check_demands(headers)
    branch, path = write_target(exchange)
    properties = FileProperties(
        content_type=content_type_of(headers), metadata=metadata_of(headers)
    )
    try:
        upload = exchange.repository.multiparts.create(
            read_call(exchange), branch, path, properties
        )
    except ReferenceNotFound as error:
        raise no_branch(error) from None
    algorithm = headers.get("x-amz-checksum-algorithm")
    shown = ((b"x-amz-checksum-algorithm", algorithm.encode("latin-1")),) if algorithm else ()
    fields: list[Field] = [
        ("Bucket", exchange.repository.name),
        ("Key", exchange.params["key"]),
        ("UploadId", upload),
    ]
    return answer("InitiateMultipartUploadResult", fields, shown)


class _Part:
    """A part with the checksums that its sender states."""

    def __init__(self, part: StagedPart, payload: Payload | None = None) -> None:
        self._part = part
        self._payload = payload
        self.write = part.write
        self.abort = part.abort

    def finish(self) -> UploadedPart:
        if self._payload is None:
            return self._part.finish()
        return self._part.finish(sha256=self._payload.sha256, md5=self._payload.md5)


async def upload_part(exchange: Exchange) -> Response:
    """Takes the bytes of one part."""
    request = exchange.request
    check_demands(request.headers)
    payload = Payload(request)

    def begin() -> CheckedUpload[UploadedPart]:
        return CheckedUpload(payload, _Part(_begin_part(exchange, payload.size), payload))

    part = await receive(exchange, begin, request.stream, payload.size)
    return Response(200, b"", (*etag_header(part.etag), *payload.headers()))


def _begin_part(exchange: Exchange, size: int | None) -> StagedPart:
    branch, path = write_target(exchange)
    query = exchange.request.query
    number = _number(query.get("partNumber") or "")
    upload = query.get("uploadId") or ""
    multiparts = exchange.repository.multiparts
    return multiparts.begin_part(read_call(exchange), branch, path, upload, number, size)


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= PART_NUMBER_MAX:
        return int(text)
    raise Refusal(
        f"Part number must be an integer between 1 and {PART_NUMBER_MAX}, inclusive",
        400,
        "InvalidArgument",
    )


class PartCopies:
    """Takes the bytes of parts from objects."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    async def upload_part_copy(self, exchange: Exchange) -> Response:
        """Takes the bytes of one part from an object, or from a range of it."""
        request = exchange.request
        check_demands(request.headers)
        stream: FileStream = await exchange.run(partial(self._open, exchange))
        size = stream.end - stream.start
        body = copied_bytes(exchange, stream)
        try:
            part = await receive(exchange, lambda: _Part(_begin_part(exchange, size)), body, size)
        finally:
            stream.close()
        fields: list[Field] = [
            ("LastModified", xml_time(part.modified_us)),
            ("ETag", quoted(part.etag)),
        ]
        return answer("CopyPartResult", fields)

    def _open(self, exchange: Exchange) -> FileStream:
        headers = exchange.request.headers
        source = read_copy_source(headers)
        repository, call = self._copies.open(exchange, source)
        info = repository.files.stat(call, source.spec, source.path)
        check_copy(headers, info)
        text = headers.get("x-amz-copy-source-range")
        stream = repository.files.open(call, source.spec, source.path, _copied_range(text, info))
        try:
            # Once more as it was opened: the object may have been replaced since.
            check_copy(headers, stream.info)
            _copied_range(text, stream.info)
        except LochanError:
            stream.close()
            raise
        if stream.end - stream.start > PART_BYTES_MAX:
            stream.close()
            raise Refusal("A part has at most 5 GiB; copy a range.", 400, "EntityTooLarge")
        return stream


def _copied_range(text: str | None, info: FileInfo) -> ByteRange:
    if text is None:
        return WHOLE_FILE
    match = _RANGE.match(text)
    if match is None or int(match[1]) > int(match[2]):
        raise Refusal(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first "
            "and last are the zero-based offsets of the first and last bytes to copy",
            400,
            "InvalidArgument",
        )
    if int(match[2]) >= info.size:
        raise Refusal(
            f"Range specified is not valid for source object of size: {info.size}",
            400,
            "InvalidArgument",
        )
    return ByteRange(start=int(match[1]), end=int(match[2]) + 1)


def list_parts(exchange: Exchange) -> Response:
    """Lists the parts of an upload."""
    branch, path = write_target(exchange)
    query = exchange.request.query
    upload = query.get("uploadId") or ""
    limit = read_limit(exchange.request, "max-parts")
    marker = query.get("part-number-marker") or "0"
    if not (marker.isascii() and marker.isdigit()) or len(marker) > 9:
        raise Refusal("Argument part-number-marker must be an integer", 400, "InvalidArgument")
    multiparts = exchange.repository.multiparts
    parts = multiparts.list_parts(read_call(exchange), branch, path, upload, int(marker))
    shown = parts[:limit]
    # A full page of the place may have more after it; an empty last page does no harm.
    more = len(parts) > len(shown) or len(parts) == 1_000
    fields: list[Field] = [
        ("Bucket", exchange.repository.name),
        ("Key", exchange.params["key"]),
        ("UploadId", upload),
        ("Initiator", nested(_OWNER)),
        ("Owner", nested(_OWNER)),
        ("StorageClass", "STANDARD"),
        ("PartNumberMarker", int(marker)),
        ("NextPartNumberMarker", shown[-1].number if shown else None),
        ("MaxParts", limit),
        ("IsTruncated", more and bool(shown)),
    ]
    for part in shown:
        values: list[Field] = [
            ("PartNumber", part.number),
            ("LastModified", xml_time(part.modified_us)),
            ("ETag", quoted(part.etag)),
            ("Size", part.size),
        ]
        fields.append(("Part", nested(values)))
    return answer("ListPartsResult", fields)


def list_uploads(exchange: Exchange) -> Response:
    """Lists the uploads that are under way."""
    request = exchange.request
    query = request.query
    if query.get("delimiter"):
        raise Refusal("a delimiter in a listing of uploads", 501, "NotImplemented")
    limit = read_limit(request, "max-uploads")
    key, upload = query.get("key-marker") or "", query.get("upload-id-marker") or ""
    prefix = query.get("prefix") or ""
    after = f"{key}\0{upload or _AFTER_IDS}" if key else ""
    multiparts = exchange.repository.multiparts
    page = multiparts.list_uploads(read_call(exchange), prefix, after, max(limit, 1))
    shown = page.uploads[:limit]
    last = shown[-1] if shown else None
    fields: list[Field] = [
        ("Bucket", exchange.repository.name),
        ("KeyMarker", key),
        ("UploadIdMarker", upload),
        ("NextKeyMarker", None if last is None else f"{encode_ref(last.branch)}/{last.path}"),
        ("NextUploadIdMarker", None if last is None else last.id),
        ("Prefix", prefix),
        ("MaxUploads", limit),
        ("IsTruncated", page.is_truncated and bool(shown)),
    ]
    for each in shown:
        values: list[Field] = [
            ("Key", f"{encode_ref(each.branch)}/{each.path}"),
            ("UploadId", each.id),
            ("Initiator", nested(_OWNER)),
            ("Owner", nested(_OWNER)),
            ("StorageClass", "STANDARD"),
            ("Initiated", xml_time(each.began_us)),
        ]
        fields.append(("Upload", nested(values)))
    return answer("ListMultipartUploadsResult", fields)


def abort_upload(exchange: Exchange) -> Response:
    """Ends an upload without an object."""
    branch, path = write_target(exchange)
    upload = exchange.request.query.get("uploadId") or ""
    exchange.repository.multiparts.abort(read_call(exchange), branch, path, upload)
    return NO_CONTENT


async def complete_upload(exchange: Exchange) -> Response:
    """Joins parts to an object."""
    request = exchange.request
    request.body = await _read_body(request)
    parts = _read_parts(check_body(request))
    work = asyncio.ensure_future(exchange.run(partial(_complete, exchange, parts)))
    work.add_done_callback(_look_at)
    done, _ = await asyncio.wait([work], timeout=COMPLETE_SILENCE_S)
    if done:
        return Response(200, _completed(exchange, work.result()), (), CONTENT_TYPE)
    return Response(200, b"", (), CONTENT_TYPE, ResponseStream(_slow_answer(exchange, work)))


def _look_at(work: asyncio.Future[FileInfo]) -> None:
    """Looks at the outcome, because a client that has left does not."""
    if not work.cancelled():
        work.exception()


async def _read_body(request: Request) -> bytes:
    body = b""
    async for piece in _pieces(request):
        body += piece
        if len(body) > COMPLETE_XML_BYTES_MAX:
            raise malformed(f"it is longer than {COMPLETE_XML_BYTES_MAX} bytes")
    return body


def _pieces(request: Request) -> AsyncIterator[bytes]:
    if request.stream is None:
        raise malformed("it is empty")
    return request.stream.__aiter__()


def _read_parts(body: bytes) -> list[UploadedPart]:
    read = read_document(body, "CompleteMultipartUpload", "Part", PART_NUMBER_MAX)
    parts: list[UploadedPart] = []
    for row in read.rows:
        if "PartNumber" not in row or "ETag" not in row:
            raise malformed("a part has no number or no ETag")
        number = _number(row["PartNumber"].strip())
        if parts and number <= parts[-1].number:
            raise Refusal(
                "The list of parts was not in ascending order. Parts must be ordered by part "
                "number.",
                400,
                "InvalidPartOrder",
            )
        parts.append(UploadedPart(number, row["ETag"].strip().strip('"')))
    if not parts:
        raise malformed("it names no part")
    return parts


def _complete(exchange: Exchange, parts: list[UploadedPart]) -> FileInfo:
    branch, path = write_target(exchange)
    request = exchange.request
    upload = request.query.get("uploadId") or ""
    condition = condition_of(request.headers)
    multiparts, call = exchange.repository.multiparts, read_call(exchange)
    try:
        return multiparts.complete(call, branch, path, upload, parts, condition)
    except BytesDiffer:
        raise
    except Invalid as error:
        if type(error) is Invalid:
            raise _refused_part(error) from None
        raise


def _refused_part(error: Invalid) -> Refusal:
    """Returns why parts cannot be joined, in the words of S3."""
    small = "all but the last" in error.message
    code = "EntityTooSmall" if small else "InvalidPart"
    return Refusal(error.message, 400, code)


def _completed(exchange: Exchange, info: FileInfo) -> bytes:
    host = exchange.request.headers.get("host") or ""
    fields: list[Field] = [
        ("Location", f"http://{host}{exchange.request.path.decode('latin-1')}"),
        ("Bucket", exchange.repository.name),
        ("Key", exchange.params["key"]),
        ("ETag", quoted(info.etag)),
    ]
    return document("CompleteMultipartUploadResult", fields)


async def _slow_answer(
    exchange: Exchange, work: asyncio.Future[FileInfo]
) -> AsyncGenerator[bytes, None]:
    """Yields white space until the parts are joined, then the document without its first line."""
    yield b'<?xml version="1.0" encoding="UTF-8"?>\n'
    while not work.done():
        await asyncio.wait([work], timeout=COMPLETE_SILENCE_S)
        yield b" "
    try:
        body = _completed(exchange, work.result())
    except LochanError as error:
        _, code, message = code_of(error)
        body = error_document(error_fields(exchange.request, code, message))
    yield body.partition(b"\n")[2]
