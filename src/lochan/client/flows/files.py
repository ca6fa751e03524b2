"""The flows of files: bytes up and down, listings, differences, and what is staged.

The path of a file is one query parameter: libraries change dots and slashes in the path of a URL,
and every text may be the path of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from lochan.base.errors import Corrupt, Invalid
from lochan.client.failures import error_of, exchange, exchange_undecoded
from lochan.client.file_streams import OpenedFile
from lochan.client.messages import (
    Flow,
    HttpReply,
    HttpRequest,
    Query,
    new_idempotency_key,
    page_query,
    query_of,
)
from lochan.client.specs import commit_text
from lochan.client.upload_sources import source_of
from lochan.model import file_requests as requests
from lochan.model.commits import LogEntry
from lochan.model.files import (
    AddressReservation,
    ByteRange,
    FileDifference,
    FileInfo,
    FileItem,
    FileMetadata,
    FileStream,
    Imported,
    WriteCondition,
)
from lochan.model.references import Reference
from lochan.model.requests import RepositoryRequest
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.wire.codec import encode
from lochan.wire.commits import LogV2, log_entry_in
from lochan.wire.file_headers import condition_headers, property_headers, read_file
from lochan.wire.files import (
    ConditionIn,
    CopyIn,
    DeletedJson,
    FileChangesJson,
    FileJson,
    FilesJson,
    HardResetIn,
    ImportedJson,
    ImportIn,
    ImportSourceIn,
    LinkIn,
    PathsIn,
    PresignedJson,
    ReservationJson,
    ReserveIn,
    ResetIn,
    UpdateFileIn,
    change_in,
    file_in,
    imported_in,
    item_in,
    reservation_in,
)
from lochan.wire.metas import meta_to_send
from lochan.wire.operations_files import FILES_PREFIX
from lochan.wire.references import ReferenceV2, SingleReference, reference_in

_Shape = TypeVar("_Shape")


def files_path(spec: ReferenceSpec, word: str) -> str:
    """Returns the path of a URL for files at a spec, encoded."""
    return f"{FILES_PREFIX}/refs/{_segment(spec)}/{word}"


def _segment(spec: ReferenceSpec) -> str:
    return quote(spec.text() or "@", safe="")


def stat(request: requests.StatFileRequest) -> Flow[FileInfo]:
    """Fetches what a file is."""
    return file_in((yield from _get(request.spec, "stat", FileJson, _path(request.path))))


def read(request: requests.ReadFileRequest) -> Flow[bytes]:
    """Fetches the bytes of a file into memory."""
    http = HttpRequest(
        "GET",
        files_path(request.spec, "file"),
        _path(request.path),
        headers=(("accept-encoding", "identity"), *_range(request.range)),
    )
    reply = yield from exchange_undecoded(http)
    start, end = _extent(reply, read_file(reply.headers.get("lochan-file")))
    if len(reply.body) != end - start:
        raise Corrupt(f"the server sent {len(reply.body)} bytes of {end - start}")
    return reply.body


def open_file(request: requests.OpenFileRequest) -> Flow[FileStream]:
    """Begins to fetch the bytes of a file; those of the result are read by the client."""
    return (yield from _open(request.spec, request.path, request.range))


def rest_of(request: requests.OpenFileRequest, tag: str, start: int, end: int) -> Flow[OpenedFile]:
    """Begins to fetch a part of a file, on condition that it still has its ETag."""
    return (yield from _open(request.spec, request.path, ByteRange(start=start, end=end), tag))


def _open(spec: ReferenceSpec, path: str, chosen: ByteRange, tag: str = "") -> Flow[OpenedFile]:
    headers = _range(chosen)
    if tag:
        headers += condition_headers(WriteCondition(if_match=tag))
    http = HttpRequest("GET", files_path(spec, "file"), _path(path), headers=headers, streams=True)
    reply = yield http
    if reply.stream is None:
        raise error_of(http, reply)
    info = read_file(reply.headers.get("lochan-file"))
    return OpenedFile(info, *_extent(reply, info), reply.stream)


def presign(request: requests.PresignFileRequest) -> Flow[str]:
    """Fetches a URL for the bytes of a file."""
    return (yield from _get(request.spec, "presigned", PresignedJson, _path(request.path))).url


def put(request: requests.PutFileRequest) -> Flow[FileInfo]:
    """Sends the bytes of a file; sends them again only if they can be read again."""
    source = source_of(request.body)
    properties = request.properties
    if properties.size is not None and source.size not in (None, properties.size):
        raise Invalid(f"the file has {source.size} bytes, not {properties.size}")
    http = HttpRequest(
        "PUT",
        _branch_path(request.branch, "file"),
        _path(request.path),
        key=new_idempotency_key(),
        upload=source,
        headers=(
            *property_headers(properties),
            *condition_headers(request.condition),
            *(() if properties.size is None else (("lochan-size", str(properties.size)),)),
        ),
    )
    return file_in((yield from exchange(http, FileJson)))


def copy(request: requests.CopyFileRequest) -> Flow[FileInfo]:
    """Makes a file of a commit a file of a branch."""
    body = CopyIn(
        path=request.path,
        source_ref=request.source.text(),
        source_path=request.source_path,
        metadata=_metadata(request.metadata),
        content_type=request.content_type,
        condition=_condition(request.condition),
    )
    return file_in((yield from _post(request.branch, "copy", body, FileJson)))


def update(request: requests.UpdateFileRequest) -> Flow[FileInfo]:
    """Replaces the metadata or the type of a file."""
    body = UpdateFileIn(
        path=request.path,
        metadata=_metadata(request.metadata),
        content_type=request.content_type,
        condition=_condition(request.condition),
    )
    return file_in((yield from _post(request.branch, "update", body, FileJson)))


def delete(request: requests.DeleteFileRequest) -> Flow[bool]:
    """Removes a file."""
    http = HttpRequest(
        "DELETE",
        _branch_path(request.branch, "file"),
        _path(request.path),
        key=new_idempotency_key(),
        headers=condition_headers(request.condition),
    )
    return (yield from exchange(http, DeletedJson)).deleted


def delete_many(request: requests.DeleteFilesRequest) -> Flow[None]:
    """Removes files; removing one twice has the same effect."""
    yield from _post(request.branch, "delete", PathsIn(paths=request.paths), None)


def list_page(request: requests.ListFilesRequest) -> Flow[Page[FileItem]]:
    """Fetches a page of files."""
    query = page_query(request) + query_of(
        prefix=request.prefix, delimiter=request.delimiter, after=request.after
    )
    reply = yield from _get(request.spec, "files", FilesJson, query)
    reference = _reference(reply.effective_reference)
    return Page(tuple(item_in(each) for each in reply.files), reply.token, reference)


def uncommitted(request: requests.UncommittedFilesRequest) -> Flow[Page[FileDifference]]:
    """Fetches a page of what is staged."""
    query = page_query(request) + query_of(prefix=request.prefix, delimiter=request.delimiter)
    path = _branch_path(request.branch, "uncommitted")
    reply = yield from exchange(HttpRequest("GET", path, query), FileChangesJson)
    return _changes(reply)


def diff(request: requests.DiffFilesRequest) -> Flow[Page[FileDifference]]:
    """Fetches a page of the files that differ."""
    query = page_query(request) + query_of(
        prefix=request.prefix,
        delimiter=request.delimiter,
        since_base="true" if request.since_base else None,
    )
    word = f"diff/{_segment(request.right)}"
    return _changes((yield from _get(request.left, word, FileChangesJson, query)))


def log(request: requests.FileLogRequest) -> Flow[Page[LogEntry]]:
    """Fetches a page of the commits that changed files."""
    query = page_query(request)
    query += tuple(("path", each) for each in request.paths)
    query += tuple(("prefix", each) for each in request.prefixes)
    if request.limit_hash is not None:
        query += query_of(limit_hash=request.limit_hash.on_reference)
    reply = yield from _get(request.spec, "log", LogV2, query)
    return Page(tuple(log_entry_in(each) for each in reply.log_entries), reply.token)


def reset(request: requests.ResetFilesRequest) -> Flow[None]:
    """Drops staged changes."""
    body = ResetIn(path=request.path, prefix=request.prefix)
    yield from _post(request.branch, "reset", body, None)


def hard_reset(request: requests.HardResetRequest) -> Flow[Reference]:
    """Moves a branch to a commit."""
    body = HardResetIn(
        target=request.target.text(),
        expected=None if request.expected is None else commit_text(request.expected),
        discard_staged=request.discard_staged,
    )
    reply = yield from _post(request.branch, "hard-reset", body, SingleReference)
    return reference_in(reply.reference)


def reserve(request: requests.ReserveAddressRequest) -> Flow[AddressReservation]:
    """Reserves a place for the bytes of a file; one that is never used expires."""
    body = ReserveIn(path=request.path)
    reply = yield from _post(request.branch, "reserve", body, ReservationJson, keyed=False)
    return reservation_in(reply)


def link(request: requests.LinkAddressRequest) -> Flow[FileInfo]:
    """Makes what was written to a reserved place a file."""
    properties = request.properties
    body = LinkIn(
        path=request.path,
        token=request.token,
        content_type=properties.content_type,
        metadata=dict(properties.metadata),
        size=properties.size,
        sha256=properties.sha256,
        md5=properties.md5,
        condition=_condition(request.condition),
    )
    return file_in((yield from _post(request.branch, "link", body, FileJson)))


def import_files(request: requests.ImportFilesRequest) -> Flow[Imported]:
    """Commits the objects of an object store as files; the server reports no progress meanwhile."""
    sources = tuple(ImportSourceIn(url=each.url, prefix=each.prefix) for each in request.sources)
    body = ImportIn(sources=sources, commit_meta=meta_to_send(request.meta))
    return imported_in((yield from _post(request.branch, "import", body, ImportedJson)))


def _get(spec: ReferenceSpec, word: str, shape: type[_Shape], query: Query) -> Flow[_Shape]:
    return (yield from exchange(HttpRequest("GET", files_path(spec, word), query), shape))


def _post(
    branch: str, word: str, body: Any, shape: type[_Shape] | None, *, keyed: bool = True
) -> Flow[_Shape]:
    """Sends a write; without a shape the reply has no body, and the result is None."""
    key = new_idempotency_key() if keyed else None
    http = HttpRequest("POST", _branch_path(branch, word), (), encode(body), key, writes=True)
    if shape is None:
        yield from exchange_undecoded(http)
        return None  # type: ignore[return-value]
    return (yield from exchange(http, shape))


def _branch_path(branch: str, word: str) -> str:
    return files_path(ReferenceSpec(branch), word)


def _path(path: str) -> Query:
    return (("path", path),)


def _range(chosen: ByteRange) -> tuple[tuple[str, str], ...]:
    """Returns the header that requests a range, none for the whole file."""
    if chosen.last is not None:
        return (("range", f"bytes=-{chosen.last}"),)
    if chosen.end is not None:
        return (("range", f"bytes={chosen.start}-{chosen.end - 1}"),)
    return (("range", f"bytes={chosen.start}-"),) if chosen.start else ()


def _extent(reply: HttpReply, info: FileInfo) -> tuple[int, int]:
    """Returns where the bytes of a reply begin and end in their file."""
    text = reply.headers.get("content-range")
    if reply.status != 206 or text is None:
        return 0, info.size
    first, _, last = text.removeprefix("bytes ").partition("/")[0].partition("-")
    if not (first.isdigit() and last.isdigit()):
        raise Corrupt(f"the server's answer cannot be read: {text[:80]}")
    return int(first), int(last) + 1


def _changes(reply: FileChangesJson) -> Page[FileDifference]:
    return Page(
        tuple(change_in(each) for each in reply.changes),
        reply.token,
        _reference(reply.effective_from_reference),
        _reference(reply.effective_to_reference),
    )


def _reference(reference: ReferenceV2 | None) -> Reference | None:
    return None if reference is None else reference_in(reference)


def _metadata(metadata: FileMetadata | None) -> dict[str, str] | None:
    return None if metadata is None else dict(metadata)


def _condition(condition: WriteCondition) -> ConditionIn:
    return ConditionIn(
        if_absent=condition.if_absent,
        if_match=condition.if_match,
        if_sha256=condition.if_sha256,
    )


FLOWS: Final[Mapping[type[RepositoryRequest[Any]], Callable[[Any], Flow[Any]]]] = {
    requests.StatFileRequest: stat,
    requests.ReadFileRequest: read,
    requests.OpenFileRequest: open_file,
    requests.PresignFileRequest: presign,
    requests.PutFileRequest: put,
    requests.CopyFileRequest: copy,
    requests.UpdateFileRequest: update,
    requests.DeleteFileRequest: delete,
    requests.DeleteFilesRequest: delete_many,
    requests.ListFilesRequest: list_page,
    requests.UncommittedFilesRequest: uncommitted,
    requests.DiffFilesRequest: diff,
    requests.FileLogRequest: log,
    requests.ResetFilesRequest: reset,
    requests.HardResetRequest: hard_reset,
    requests.ReserveAddressRequest: reserve,
    requests.LinkAddressRequest: link,
    requests.ImportFilesRequest: import_files,
}
"""Which flow carries which request about files."""
