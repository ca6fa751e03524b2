"""Files on the wire: what they are, listings, differences, and the bodies of requests.

The bytes of a file travel as the body of a request or of an answer; what is stated about them
travels in headers (`wire/file_headers.py`).
"""

from __future__ import annotations

import msgspec

from lochan.model.files import (
    AddressReservation,
    FileChange,
    FileDifference,
    FileInfo,
    FileItem,
    FilePrefix,
    Imported,
)
from lochan.wire.codec import Instant, PageJson, instant, micros
from lochan.wire.metas import CommitMetaIn
from lochan.wire.references import ReferenceV2


class FileJson(msgspec.Struct, frozen=True, rename="camel", tag="FILE", tag_field="type"):
    """A file without its bytes; `sha256` is in hex, empty for linked and imported objects."""

    path: str
    size: int
    etag: str
    modified: Instant
    sha256: str
    content_type: str
    metadata: dict[str, str]
    address: str


class FilePrefixJson(msgspec.Struct, frozen=True, tag="PREFIX", tag_field="type"):
    """All paths that share the text up to a delimiter, which it includes."""

    path: str


class FileChangeJson(msgspec.Struct, frozen=True, tag="CHANGE", tag_field="type"):
    """A path whose file differs; null on the side that does not have it."""

    path: str
    before: FileJson | None
    after: FileJson | None


class FilesJson(PageJson, frozen=True, rename="camel"):
    """A page of files and prefixes in the order of their paths, and where they were read."""

    files: list[FileJson | FilePrefixJson]
    effective_reference: ReferenceV2 | None = None


class FileChangesJson(PageJson, frozen=True, rename="camel"):
    """A page of differences in the order of their paths, and what was compared."""

    changes: list[FileChangeJson | FilePrefixJson]
    effective_from_reference: ReferenceV2 | None = None
    effective_to_reference: ReferenceV2 | None = None


class _In(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A body that a client sends; a field that the server does not know is refused."""


class ConditionIn(_In, frozen=True, rename="camel", kw_only=True):
    """What the file that is there now must be like."""

    if_absent: bool = False
    if_match: str = ""
    if_sha256: str = ""


class CopyIn(_In, frozen=True, rename="camel", kw_only=True):
    """A file to be copied; metadata and type are those of the source unless others are given."""

    path: str
    source_ref: str
    source_path: str
    metadata: dict[str, str] | None = None
    content_type: str | None = None
    condition: ConditionIn = ConditionIn()


class UpdateFileIn(_In, frozen=True, rename="camel", kw_only=True):
    """New metadata or a new type of a file; null leaves them as they are."""

    path: str
    metadata: dict[str, str] | None = None
    content_type: str | None = None
    condition: ConditionIn = ConditionIn()


class PathsIn(_In, frozen=True, rename="camel", kw_only=True):
    """Paths of files to be removed."""

    paths: tuple[str, ...]


class ResetIn(_In, frozen=True, rename="camel", kw_only=True):
    """Staged changes to be dropped: that of one path, those below a prefix, or all."""

    path: str | None = None
    prefix: str | None = None


class HardResetIn(_In, frozen=True, rename="camel", kw_only=True):
    """The commit that a branch is moved to."""

    target: str
    expected: str | None = None
    discard_staged: bool = False


class ReserveIn(_In, frozen=True, rename="camel", kw_only=True):
    """The path for which a place is reserved."""

    path: str


class LinkIn(_In, frozen=True, rename="camel", kw_only=True):
    """The token of a reserved place, and what its file is to be."""

    path: str
    token: str
    content_type: str = ""
    metadata: dict[str, str] = {}
    size: int | None = None
    sha256: str = ""
    md5: str = ""
    condition: ConditionIn = ConditionIn()


class ImportSourceIn(_In, frozen=True, rename="camel", kw_only=True):
    """A prefix of an object store, and the prefix of the files that its objects become."""

    url: str
    prefix: str


class ImportIn(_In, frozen=True, rename="camel", kw_only=True):
    """Objects to be imported, and the meta of the commit that does it."""

    sources: tuple[ImportSourceIn, ...]
    commit_meta: CommitMetaIn


class DeletedJson(msgspec.Struct, frozen=True):
    """Whether there was a file."""

    deleted: bool


class ReservationJson(msgspec.Struct, frozen=True, rename="camel"):
    """A reserved place: bytes are sent to `url` by a PUT with exactly these headers."""

    token: str
    address: str
    expires_at: Instant
    url: str
    headers: dict[str, str]


class ImportedJson(msgspec.Struct, frozen=True):
    """The commit of an import, and how many objects it has imported."""

    branch: str
    hash: str
    objects: int
    ignored: int = 0


class PresignedJson(msgspec.Struct, frozen=True):
    """A URL from which the bytes of a file can be read for some minutes."""

    url: str


def file_out(info: FileInfo) -> FileJson:
    """Returns a file as JSON."""
    return FileJson(
        info.path,
        info.size,
        info.etag,
        instant(info.modified_us),
        info.sha256,
        info.content_type,
        dict(info.metadata),
        info.address,
    )


def file_in(file: FileJson) -> FileInfo:
    """Returns the file that JSON describes."""
    return FileInfo(
        path=file.path,
        size=file.size,
        etag=file.etag,
        modified_us=micros(file.modified),
        sha256=file.sha256,
        content_type=file.content_type,
        metadata=tuple(sorted(file.metadata.items())),
        address=file.address,
    )


def item_out(item: FileItem) -> FileJson | FilePrefixJson:
    """Returns an item of a listing as JSON."""
    return FilePrefixJson(item.path) if isinstance(item, FilePrefix) else file_out(item)


def item_in(item: FileJson | FilePrefixJson) -> FileItem:
    """Returns the item of a listing that JSON describes."""
    return FilePrefix(item.path) if isinstance(item, FilePrefixJson) else file_in(item)


def change_out(change: FileDifference) -> FileChangeJson | FilePrefixJson:
    """Returns a difference as JSON."""
    if isinstance(change, FilePrefix):
        return FilePrefixJson(change.path)
    before, after = change.before, change.after
    return FileChangeJson(
        change.path,
        None if before is None else file_out(before),
        None if after is None else file_out(after),
    )


def change_in(change: FileChangeJson | FilePrefixJson) -> FileDifference:
    """Returns the difference that JSON describes."""
    if isinstance(change, FilePrefixJson):
        return FilePrefix(change.path)
    before, after = change.before, change.after
    return FileChange(
        path=change.path,
        before=None if before is None else file_in(before),
        after=None if after is None else file_in(after),
    )


def reservation_out(found: AddressReservation) -> ReservationJson:
    """Returns a reserved place as JSON."""
    return ReservationJson(
        found.token, found.address, instant(found.expires_us), found.url, dict(found.headers)
    )


def reservation_in(found: ReservationJson) -> AddressReservation:
    """Returns the reserved place that JSON describes."""
    return AddressReservation(
        token=found.token,
        address=found.address,
        expires_us=micros(found.expires_at),
        url=found.url,
        headers=tuple(sorted(found.headers.items())),
    )


def imported_out(done: Imported) -> ImportedJson:
    """Returns an import as JSON."""
    return ImportedJson(done.branch, done.hash, done.objects, done.ignored)


def imported_in(done: ImportedJson) -> Imported:
    """Returns the import that JSON describes."""
    return Imported(branch=done.branch, hash=done.hash, objects=done.objects, ignored=done.ignored)
