"""The handlers of objects: read, written, copied and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import (
    ConditionFailed,
    Denied,
    Invalid,
    LochanError,
    NotFound,
    ReferenceNotFound,
    Refusal,
    Unauthenticated,
)
from lochan.base.limits.files import FILES_DELETED_MAX
from lochan.faces.body_uploads import receive
from lochan.faces.calls import read_call
from lochan.faces.file_reads import (
    FileToSend,
    StreamReader,
    UnsentFile,
    no_body,
    open_file,
    read_parts,
)
from lochan.faces.s3.answers import NO_CONTENT, answer, quoted, xml_time
from lochan.faces.s3.conditions import check_copy, choose
from lochan.faces.s3.object_headers import (
    check_demands,
    checksum_headers,
    condition_of,
    content_type_of,
    etag_header,
    metadata_of,
    object_headers,
)
from lochan.faces.s3.payloads import CheckedUpload, Payload, check_body
from lochan.faces.s3.targets import (
    parse_target,
    parse_write_target,
    read_target,
    root_of,
    write_target,
)
from lochan.model.files import FileInfo, FileProperties, FileStream, WriteCondition
from lochan.model.specs import ReferenceSpec
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.service.uploads import StagedUpload
from lochan.transport.body_streams import ResponseStream
from lochan.transport.conditions import ByteSelection
from lochan.transport.exchange import Exchange, RequestHeaders, Response, decode_percent
from lochan.wire.s3_problems import code_of, not_implemented
from lochan.wire.s3_xml import Field, malformed, nested, read_document

_COPY_SOURCE: Final = "x-amz-copy-source"
_EMPTY_MD5: Final = "d41d8cd98f00b204e9800998ecf8427e"


async def get_object(exchange: Exchange) -> Response:
    """Returns the bytes of an object, or a range of them."""
    spec, path = read_target(exchange)
    opened: FileToSend | UnsentFile = await exchange.run(
        lambda: open_file(exchange, spec, path, partial(choose, exchange.request))
    )
    if isinstance(opened, UnsentFile):
        return _shown(exchange, opened.info, opened.chosen, None)
    try:
        return _shown(exchange, opened.stream.info, opened.chosen, opened.body(exchange))
    except LochanError:
        opened.stream.close()
        raise


def head_object(exchange: Exchange) -> Response:
    """Returns what an object is."""
    spec, path = read_target(exchange)
    info = exchange.repository.files.stat(read_call(exchange), spec, path)
    chosen = choose(exchange.request, info)
    return _shown(exchange, info, chosen, no_body(chosen.length))


def get_tagging(exchange: Exchange) -> Response:
    """Returns that an object has no tags: none can be stored, and tools that copy objects ask."""
    spec, path = read_target(exchange)
    exchange.repository.files.stat(read_call(exchange), spec, path)
    return answer("Tagging", [("TagSet", "")])


def _shown(
    exchange: Exchange, info: FileInfo, chosen: ByteSelection, body: ResponseStream | None
) -> Response:
    headers, kind = object_headers(info, exchange.request)
    headers = (*chosen.headers, *headers)
    if chosen.status == 200:
        headers = (*headers, *checksum_headers(info, exchange.request))
    if chosen.status == 304:
        return Response(304, b"", headers)
    return Response(chosen.status, b"", headers, kind, body)


async def put_object(exchange: Exchange) -> Response:
    """Stages an object on a branch."""
    request = exchange.request
    check_demands(request.headers)
    payload = Payload(request)
    if payload.size == 0 and exchange.params["key"].endswith("/"):
        root = root_of(exchange.params["key"])
        if root:
            return await _put_root(exchange, root)
    branch, path = write_target(exchange)
    condition = condition_of(request.headers)

    def begin() -> CheckedUpload[FileInfo]:
        properties = FileProperties(
            content_type=content_type_of(request.headers),
            metadata=metadata_of(request.headers),
            size=payload.size,
            sha256=payload.sha256,
            md5=payload.md5,
        )
        return CheckedUpload(payload, _begin(exchange, branch, path, properties, condition))

    try:
        info = await receive(exchange, begin, request.stream, payload.size)
    except ConditionFailed:
        await exchange.run(partial(_check_present, exchange, branch, path, condition))
        raise
    return Response(200, b"", (*etag_header(info.etag), *payload.headers()))


async def _put_root(exchange: Exchange, branch: str) -> Response:
    """Answers a client that makes the directory of a branch: it is there, and nothing is stored."""
    call = read_call(exchange)
    try:
        await exchange.run(lambda: exchange.repository.references.get(call, branch))
    except ReferenceNotFound as error:
        raise no_branch(error) from None
    return Response(200, b"", etag_header(_EMPTY_MD5))


def _begin(
    exchange: Exchange,
    branch: str,
    path: str,
    properties: FileProperties,
    condition: WriteCondition,
) -> StagedUpload:
    with_branch = exchange.repository.uploads.begin
    try:
        return with_branch(read_call(exchange), branch, path, properties, condition)
    except ReferenceNotFound as error:
        raise no_branch(error) from None


def no_branch(error: ReferenceNotFound) -> Refusal:
    """Returns the refusal of a write to a branch that does not exist."""
    return Refusal(error.public_message, 404, "NoSuchBucket")


def _check_present(exchange: Exchange, branch: str, path: str, condition: WriteCondition) -> None:
    """Raises PathNotFound if a write demanded an ETag and there is no file at all."""
    if condition.if_match:
        exchange.repository.files.stat(read_call(exchange), ReferenceSpec(branch), path)


def delete_object(exchange: Exchange) -> Response:
    """Stages the deletion of an object; that it does not exist is no error."""
    branch, path = write_target(exchange)
    condition = condition_of(exchange.request.headers)
    try:
        exchange.repository.files.delete(read_call(exchange), branch, path, condition)
    except ConditionFailed:
        _check_present(exchange, branch, path, condition)
        raise
    except ReferenceNotFound as error:
        raise no_branch(error) from None
    return NO_CONTENT


def delete_objects(exchange: Exchange) -> Response:
    """Stages the deletion of up to 1,000 objects; each has an outcome of its own."""
    body = check_body(exchange.request)
    read = read_document(body, "Delete", "Object", FILES_DELETED_MAX)
    if not read.rows or any("Key" not in row for row in read.rows):
        raise malformed("it names no object, or an object without a key")
    quiet = read.fields.get("Quiet", "false").strip().lower() == "true"
    failures = _delete_all(exchange, read.rows)
    shown: list[Field] = []
    for row in read.rows:
        key = row["Key"]
        failure = failures.get(key)
        if failure is None:
            if not quiet:
                shown.append(("Deleted", nested([("Key", key)])))
            continue
        _, code, message = code_of(failure)
        fields: list[Field] = [("Key", key), ("Code", code), ("Message", message)]
        shown.append(("Error", nested(fields)))
    return answer("DeleteResult", shown)


def _delete_all(exchange: Exchange, rows: list[dict[str, str]]) -> dict[str, LochanError]:
    """Deletes objects, those of one branch at once; returns the failures by their keys."""
    failures: dict[str, LochanError] = {}
    # Two keys may be of one file: a slash in the name of a branch has two spellings.
    branches: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        key = row["Key"]
        if row.get("VersionId", "null") not in ("null", ""):
            failures[key] = not_implemented("A version of an object")
        elif "ETag" in row or "LastModifiedTime" in row or "Size" in row:
            failures[key] = not_implemented("A condition of a deletion")
        else:
            try:
                branch, path = parse_write_target(key)
            except LochanError as error:
                failures[key] = error
            else:
                branches.setdefault(branch, {}).setdefault(path, []).append(key)
    files, call = exchange.repository.files, read_call(exchange)
    for branch, paths in branches.items():
        try:
            files.delete_many(call, branch, list(paths))
        except Unauthenticated:
            raise
        except (Denied, NotFound, Invalid):
            # One of them may not be deleted: each gets its own answer.
            for path, keys in paths.items():
                failure = _attempt(partial(files.delete, call, branch, path))
                if failure is not None:
                    failures |= dict.fromkeys(keys, failure)
    return failures


def _attempt(delete: Callable[[], object]) -> LochanError | None:
    try:
        delete()
    except ReferenceNotFound as error:
        return no_branch(error)
    except (Denied, NotFound, Invalid) as error:
        return error
    return None


class CopySource(msgspec.Struct, frozen=True):
    """What is copied: a repository, a reference and a path."""

    bucket: str
    spec: ReferenceSpec
    path: str


def read_copy_source(headers: RequestHeaders) -> CopySource:
    """Returns what the header of a copy names."""
    raw, _, version = (headers.get(_COPY_SOURCE) or "").partition("?versionId=")
    if version not in ("", "null"):
        raise not_implemented("The version of an object")
    try:
        text = decode_percent(raw.encode("latin-1")).removeprefix("/")
    except Invalid as error:
        raise Refusal(f"{_COPY_SOURCE}: {error.message}", 400, "InvalidArgument") from None
    bucket, slash, key = text.partition("/")
    if not bucket or not slash or not key:
        raise Refusal("Copy Source must mention the source bucket and key", 400, "InvalidArgument")
    return CopySource(bucket, *parse_target(key))


class Copies:
    """Copies objects within a repository without their bytes, and between repositories."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    async def copy_object(self, exchange: Exchange) -> Response:
        """Stages an object that has the bytes of another one."""
        headers = exchange.request.headers
        check_demands(headers)
        source = read_copy_source(headers)
        await exchange.run(partial(self._check, exchange, source))
        if source.bucket == exchange.repository.name:
            copied: FileInfo = await exchange.run(partial(self._copy_here, exchange, source))
        else:
            copied = await self._copy_bytes(exchange, source)
        fields = [("LastModified", xml_time(copied.modified_us)), ("ETag", quoted(copied.etag))]
        return answer("CopyObjectResult", fields)

    def open(self, exchange: Exchange, source: CopySource) -> tuple[Repository, Call]:
        """Returns the repository of a source as the caller sees it; it may look absent."""
        call = read_call(exchange)
        if source.bucket == exchange.repository.name:
            return exchange.repository, call
        call = msgspec.structs.replace(call, repository=source.bucket)
        repository = self._repositories.open(source.bucket)
        repository.describe(call)
        return repository, call

    def _check(self, exchange: Exchange, source: CopySource) -> None:
        """Refuses a source before anything is written; it is checked again as it is copied."""
        repository, call = self.open(exchange, source)
        info = repository.files.stat(call, source.spec, source.path)
        check_copy(exchange.request.headers, info)

    def _copy_here(self, exchange: Exchange, source: CopySource) -> FileInfo:
        headers = exchange.request.headers
        branch, path = write_target(exchange)
        replaces = _replaces(headers)
        if not replaces and (source.spec, source.path) == (ReferenceSpec(branch), path):
            raise Refusal(
                "This copy request is illegal because it is trying to copy an object to itself "
                "without changing the object's metadata, storage class, website redirect location "
                "or encryption attributes.",
                400,
                "InvalidRequest",
            )
        try:
            return exchange.repository.files.copy(
                read_call(exchange),
                branch,
                path,
                source.spec,
                source.path,
                metadata_of(headers) if replaces else None,
                content_type_of(headers) if replaces else None,
                condition_of(headers),
                partial(check_copy, headers),
            )
        except ReferenceNotFound as error:
            raise no_branch(error) from None

    async def _copy_bytes(self, exchange: Exchange, source: CopySource) -> FileInfo:
        headers = exchange.request.headers
        branch, path = write_target(exchange)
        replaces = _replaces(headers)

        def start() -> FileStream:
            repository, call = self.open(exchange, source)
            stream = repository.files.open(call, source.spec, source.path)
            try:
                check_copy(headers, stream.info)
            except LochanError:
                stream.close()
                raise
            return stream

        stream: FileStream = await exchange.run(start)
        info = stream.info
        properties = FileProperties(
            content_type=content_type_of(headers) if replaces else info.content_type,
            metadata=metadata_of(headers) if replaces else info.metadata,
            size=info.size,
            sha256=info.sha256,
        )
        begin = partial(_begin, exchange, branch, path, properties, condition_of(headers))
        return await receive(exchange, begin, copied_bytes(exchange, stream), stream.end)


async def copied_bytes(exchange: Exchange, stream: FileStream) -> AsyncIterator[bytes]:
    """Yields the bytes of a file that is open, and closes it."""
    reader = StreamReader(stream)
    try:
        async for piece in read_parts(exchange, reader):
            yield piece
    finally:
        reader.close()


def _replaces(headers: RequestHeaders) -> bool:
    """Returns whether a copy has the metadata of the request, not that of its source."""
    directive = headers.get("x-amz-metadata-directive") or "COPY"
    if directive not in ("COPY", "REPLACE"):
        raise Refusal("Unknown metadata directive.", 400, "InvalidArgument")
    if (headers.get("x-amz-tagging-directive") or "COPY") != "COPY":
        raise not_implemented("The header x-amz-tagging-directive")
    return directive == "REPLACE"
