"""Requests about files: one struct for each operation (see `model/requests.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lochan.model.commits import CommitMeta, LogEntry
from lochan.model.files import (
    UNCONDITIONAL,
    WHOLE_FILE,
    AddressReservation,
    ByteRange,
    FileDifference,
    FileInfo,
    FileItem,
    FileMetadata,
    FileProperties,
    FileStream,
    Imported,
    ImportProgress,
    ImportSource,
    WriteCondition,
)
from lochan.model.references import Reference
from lochan.model.requests import PageRequest, RepositoryRequest
from lochan.model.specs import ReferenceSpec


class StatFileRequest(RepositoryRequest[FileInfo], frozen=True, kw_only=True):
    """Reads what a file is, without its bytes."""

    spec: ReferenceSpec
    path: str


class ReadFileRequest(RepositoryRequest[bytes], frozen=True, kw_only=True):
    """Reads the bytes of a file, or a range of them, into memory."""

    spec: ReferenceSpec
    path: str
    range: ByteRange = WHOLE_FILE


class OpenFileRequest(RepositoryRequest[FileStream], frozen=True, kw_only=True):
    """Reads the bytes of a file, or a range of them, as a stream."""

    spec: ReferenceSpec
    path: str
    range: ByteRange = WHOLE_FILE


class PutFileRequest(RepositoryRequest[FileInfo], frozen=True, kw_only=True):
    """Writes a file on a branch; `body` is a `FileBody`."""

    branch: str
    path: str
    body: Any
    properties: FileProperties = FileProperties()
    condition: WriteCondition = UNCONDITIONAL


class CopyFileRequest(RepositoryRequest[FileInfo], frozen=True, kw_only=True):
    """Makes a file of a commit or a branch a file of a branch, without copying its bytes.

    Metadata and content type are those of the source unless others are given.
    """

    branch: str
    path: str
    source: ReferenceSpec
    source_path: str
    metadata: FileMetadata | None = None
    content_type: str | None = None
    condition: WriteCondition = UNCONDITIONAL


class UpdateFileRequest(RepositoryRequest[FileInfo], frozen=True, kw_only=True):
    """Replaces the metadata of a file, or its content type, and keeps its bytes."""

    branch: str
    path: str
    metadata: FileMetadata | None = None
    content_type: str | None = None
    condition: WriteCondition = UNCONDITIONAL


class DeleteFileRequest(RepositoryRequest[bool], frozen=True, kw_only=True):
    """Removes a file from a branch; False if there was none."""

    branch: str
    path: str
    condition: WriteCondition = UNCONDITIONAL


class DeleteFilesRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Removes files from a branch; that one does not exist is no error."""

    branch: str
    paths: tuple[str, ...]


class ListFilesRequest(PageRequest[FileItem], frozen=True, kw_only=True):
    """Lists files in the order of their paths."""

    spec: ReferenceSpec
    prefix: str = ""
    delimiter: str = ""
    after: str = ""


class UncommittedFilesRequest(PageRequest[FileDifference], frozen=True, kw_only=True):
    """Lists the files of a branch that are staged and not committed."""

    branch: str
    prefix: str = ""
    delimiter: str = ""


class DiffFilesRequest(PageRequest[FileDifference], frozen=True, kw_only=True):
    """Lists the files that differ between two states.

    With `since_base`, the left side is the merge base of both, so only what the right side changed
    is listed.
    """

    left: ReferenceSpec
    right: ReferenceSpec
    prefix: str = ""
    delimiter: str = ""
    since_base: bool = False


class FileLogRequest(PageRequest[LogEntry], frozen=True, kw_only=True):
    """Lists the commits that changed one of some files, or a file below one of some prefixes."""

    spec: ReferenceSpec
    paths: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    limit_hash: ReferenceSpec | None = None


class ResetFilesRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Drops staged changes of a branch: all, those below a prefix, or that of one path."""

    branch: str
    prefix: str | None = None
    path: str | None = None


class HardResetRequest(RepositoryRequest[Reference], frozen=True, kw_only=True):
    """Moves a branch to a commit; refused if files are staged, unless they may be dropped."""

    branch: str
    target: ReferenceSpec
    expected: ReferenceSpec | None = None
    discard_staged: bool = False


class ReserveAddressRequest(RepositoryRequest[AddressReservation], frozen=True, kw_only=True):
    """Reserves a place for the bytes of a file, to which a client writes by itself."""

    branch: str
    path: str


class LinkAddressRequest(RepositoryRequest[FileInfo], frozen=True, kw_only=True):
    """Makes what was written to a reserved place a file of the branch, once."""

    branch: str
    path: str
    token: str
    properties: FileProperties = FileProperties()
    condition: WriteCondition = UNCONDITIONAL


class ImportFilesRequest(RepositoryRequest[Imported], frozen=True, kw_only=True):
    """Commits the objects below prefixes of an object store as files, without copying them.

    Each destination prefix is replaced: what was below it and is not in the source is removed.
    """

    branch: str
    sources: tuple[ImportSource, ...]
    meta: CommitMeta
    report: Callable[[ImportProgress], None] | None = None


class PresignFileRequest(RepositoryRequest[str], frozen=True, kw_only=True):
    """Returns a URL from which anyone who has it may read the bytes of a file for some minutes."""

    spec: ReferenceSpec
    path: str
