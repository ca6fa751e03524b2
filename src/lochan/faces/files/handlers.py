"""The handlers of single files and of listings: a request is read, one use case is called."""

from __future__ import annotations

from typing import Any, Final

from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.limits.server import BRIEF_OPERATIONS_MAX
from lochan.faces.answers import NO_CONTENT, answer
from lochan.faces.calls import flag_of, read_call, write_call
from lochan.faces.files.params import (
    branch_of,
    condition_in,
    condition_of,
    metadata_in,
    path_of,
    spec_of,
    text_of,
    upload_call,
)
from lochan.faces.params import Handlers, limit_of, token_of
from lochan.model.files import FileProperties
from lochan.model.references import Reference
from lochan.model.results import Page
from lochan.model.specs import parse_on_reference, parse_path
from lochan.transport.exchange import Exchange, Response
from lochan.wire.commits import LogV2, log_entry_v2
from lochan.wire.files import (
    CopyIn,
    DeletedJson,
    FileChangesJson,
    FilesJson,
    LinkIn,
    PathsIn,
    PresignedJson,
    ReserveIn,
    UpdateFileIn,
    change_out,
    file_out,
    item_out,
    reservation_out,
)
from lochan.wire.references import ReferenceV2, reference_v2
from lochan.wire.strict import StrictReader

_read_copy: Final = StrictReader(CopyIn)
_read_update: Final = StrictReader(UpdateFileIn)
_read_paths: Final = StrictReader(PathsIn)
_read_reserve: Final = StrictReader(ReserveIn)
_read_link: Final = StrictReader(LinkIn)

# A path in a body of this length names about as many files as a brief request may.
_BRIEF_PATHS_BYTES_MAX: Final = 4 * 1_024


def stat(exchange: Exchange) -> Response:
    """Returns what a file is."""
    files = exchange.repository.files
    info = files.stat(read_call(exchange), spec_of(exchange), path_of(exchange))
    return answer(file_out(info))


def presign(exchange: Exchange) -> Response:
    """Returns a URL for the bytes of a file."""
    files = exchange.repository.files
    url = files.presign(read_call(exchange), spec_of(exchange), path_of(exchange))
    return answer(PresignedJson(url))


def delete(exchange: Exchange) -> Response:
    """Removes a file."""
    deleted = exchange.repository.files.delete(
        upload_call(exchange), branch_of(exchange), path_of(exchange), condition_of(exchange)
    )
    return answer(DeletedJson(deleted))


def delete_many(exchange: Exchange) -> Response:
    """Removes files."""
    body: PathsIn = _read_paths(exchange.request.body)
    files = exchange.repository.files
    files.delete_many(write_call(exchange), branch_of(exchange), body.paths)
    return NO_CONTENT


def copy(exchange: Exchange) -> Response:
    """Makes a file of a commit a file of a branch."""
    body: CopyIn = _read_copy(exchange.request.body)
    info = exchange.repository.files.copy(
        write_call(exchange),
        branch_of(exchange),
        body.path,
        parse_path(body.source_ref),
        body.source_path,
        metadata_in(body.metadata),
        body.content_type,
        condition_in(body.condition),
    )
    return answer(file_out(info))


def update(exchange: Exchange) -> Response:
    """Replaces the metadata of a file, or its type."""
    body: UpdateFileIn = _read_update(exchange.request.body)
    info = exchange.repository.files.update(
        write_call(exchange),
        branch_of(exchange),
        body.path,
        metadata_in(body.metadata),
        body.content_type,
        condition_in(body.condition),
    )
    return answer(file_out(info))


def reserve(exchange: Exchange) -> Response:
    """Reserves a place for the bytes of a file."""
    body: ReserveIn = _read_reserve(exchange.request.body)
    addresses = exchange.repository.addresses
    found = addresses.reserve(write_call(exchange), branch_of(exchange), body.path)
    return answer(reservation_out(found))


def link(exchange: Exchange) -> Response:
    """Makes what was sent to a reserved place a file."""
    body: LinkIn = _read_link(exchange.request.body)
    properties = FileProperties(
        content_type=body.content_type,
        metadata=metadata_in(body.metadata) or (),
        size=body.size,
        sha256=body.sha256,
        md5=body.md5,
    )
    info = exchange.repository.addresses.link(
        write_call(exchange),
        branch_of(exchange),
        body.path,
        body.token,
        properties,
        condition_in(body.condition),
    )
    return answer(file_out(info))


def list_files(exchange: Exchange) -> Response:
    """Lists files."""
    page = exchange.repository.file_listings.list(
        read_call(exchange),
        spec_of(exchange),
        prefix=text_of(exchange, "prefix"),
        delimiter=text_of(exchange, "delimiter"),
        after=text_of(exchange, "after"),
        limit=limit_of(exchange),
        token=token_of(exchange),
    )
    files = [item_out(each) for each in page.items]
    return answer(FilesJson(page.token is not None, page.token, files, _shown(page.reference)))


def list_uncommitted(exchange: Exchange) -> Response:
    """Lists what is staged."""
    page = exchange.repository.file_listings.uncommitted(
        read_call(exchange),
        branch_of(exchange),
        prefix=text_of(exchange, "prefix"),
        delimiter=text_of(exchange, "delimiter"),
        limit=limit_of(exchange),
        token=token_of(exchange),
    )
    return _changes(page)


def diff(exchange: Exchange) -> Response:
    """Lists the files that differ."""
    page = exchange.repository.file_history.diff(
        read_call(exchange),
        spec_of(exchange),
        spec_of(exchange, "to-ref"),
        prefix=text_of(exchange, "prefix"),
        delimiter=text_of(exchange, "delimiter"),
        since_base=flag_of(exchange, "since-base"),
        limit=limit_of(exchange),
        token=token_of(exchange),
    )
    return _changes(page)


def log(exchange: Exchange) -> Response:
    """Lists the commits that changed files."""
    query = exchange.request.query
    last = query.get("limit-hash")
    page = exchange.repository.file_history.log(
        read_call(exchange),
        spec_of(exchange),
        paths=tuple(query.all("path")),
        prefixes=tuple(query.all("prefix")),
        limit_hash=parse_on_reference(None, last) if last else None,
        limit=limit_of(exchange),
        token=token_of(exchange),
    )
    entries = [log_entry_v2(each) for each in page.items]
    return answer(LogV2(page.token is not None, page.token, entries))


def names_few_paths(exchange: Exchange) -> bool:
    """Returns whether a body names so few files that it is brief to remove them."""
    body = exchange.request.body
    return len(body) <= _BRIEF_PATHS_BYTES_MAX or body.count(b'","') < BRIEF_OPERATIONS_MAX


def passes_few_files(exchange: Exchange) -> bool:
    """Returns whether a listing passes few deleted files, as far as the server knows."""
    return exchange.repository.lists_briefly(exchange.params["ref"])


def is_short_page(exchange: Exchange) -> bool:
    """Returns whether a listing has a bounded page."""
    limit = limit_of(exchange)
    return limit is not None and limit <= PAGE_ENTRIES_MAX


def _changes(page: Page[Any]) -> Response:
    changes = [change_out(each) for each in page.items]
    return answer(
        FileChangesJson(
            page.token is not None, page.token, changes, _shown(page.reference), _shown(page.other)
        )
    )


def _shown(reference: Reference | None) -> ReferenceV2 | None:
    return None if reference is None else reference_v2(reference)


HANDLERS: Final[Handlers] = {
    "statFile": (stat, True),
    "presignFile": (presign, True),
    "deleteFile": (delete, True),
    "deleteFiles": (delete_many, names_few_paths),
    "copyFile": (copy, True),
    "updateFile": (update, True),
    "reserveAddress": (reserve, False),
    "linkAddress": (link, False),
    "listFiles": (list_files, passes_few_files),
    "listUncommittedFiles": (list_uncommitted, True),
    "diffFiles": (diff, is_short_page),
    "getFileLog": (log, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
