"""The operations on files, below `/files/v1`: bytes as streams, everything else as JSON.

The path of a file is a query parameter, so that every path can be written: clients and proxies
change dots and slashes in the path of a URL.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lochan.access.policy import Action
from lochan.wire.commits import CommitBody, CommitResponse, LogV2
from lochan.wire.files import (
    CopyIn,
    DeletedJson,
    FileChangesJson,
    FileJson,
    FilesJson,
    HardResetIn,
    ImportedJson,
    ImportIn,
    LinkIn,
    PathsIn,
    PresignedJson,
    ReservationJson,
    ReserveIn,
    ResetIn,
    UpdateFileIn,
)
from lochan.wire.operations import ApiOperation
from lochan.wire.references import SingleReference

FILES_PREFIX: Final = "/files/v1"

_REF: Final = "/refs/{ref}"
_PAGE: Final = ("max-records", "page-token")
_CONDITIONS: Final = ("file-if-match", "If-None-Match", "Lochan-If-SHA256")
_KEY: Final = "Idempotency-Key"

_reads = partial(ApiOperation, beyond=True, action=Action.READ_CONTENT)
_lists = partial(ApiOperation, beyond=True, action=Action.READ_ENTRIES)
_writes = partial(ApiOperation, beyond=True, action=Action.WRITE_CONTENT)
_deletes = partial(ApiOperation, beyond=True, action=Action.DELETE_CONTENT)
_changes = partial(ApiOperation, beyond=True, action=Action.COMMIT)

_OF_BYTES: Final = (
    _reads(
        "getFile",
        "GET",
        f"{_REF}/file",
        "Returns the bytes of a file, or a range of them.",
        parameters=("file-ref", "file-path", "Range", "file-if-match", "If-None-Match"),
        bytes_out=True,
    ),
    _writes(
        "putFile",
        "PUT",
        f"{_REF}/file",
        "Writes a file on a branch; it is staged until it is committed.",
        FileJson,
        (
            *("file-branch", "file-path", *_CONDITIONS, "Content-MD5", "Content-Digest"),
            *("Lochan-Metadata", _KEY),
        ),
        bytes_in=True,
    ),
    _deletes(
        "deleteFile",
        "DELETE",
        f"{_REF}/file",
        "Removes a file from a branch.",
        DeletedJson,
        ("file-branch", "file-path", *_CONDITIONS, _KEY),
    ),
    _reads(
        "presignFile",
        "GET",
        f"{_REF}/presigned",
        "Returns a URL from which anyone may read a file for some minutes.",
        PresignedJson,
        ("file-ref", "file-path"),
    ),
)

_OF_READS: Final = (
    _reads(
        "statFile",
        "GET",
        f"{_REF}/stat",
        "Returns what a file is, without its bytes.",
        FileJson,
        ("file-ref", "file-path"),
    ),
    _lists(
        "listFiles",
        "GET",
        f"{_REF}/files",
        "Lists files in the order of their paths.",
        FilesJson,
        ("file-ref", "file-prefix", "delimiter", "after", *_PAGE),
    ),
    _lists(
        "listUncommittedFiles",
        "GET",
        f"{_REF}/uncommitted",
        "Lists the files of a branch that are staged and not committed.",
        FileChangesJson,
        ("file-branch", "file-prefix", "delimiter", *_PAGE),
    ),
    _lists(
        "diffFiles",
        "GET",
        f"{_REF}/diff/{{to-ref}}",
        "Lists the files that differ between two commits.",
        FileChangesJson,
        ("file-ref", "file-to-ref", "file-prefix", "delimiter", "since-base", *_PAGE),
    ),
    ApiOperation(
        "getFileLog",
        "GET",
        f"{_REF}/log",
        "Lists the commits that changed some files.",
        LogV2,
        ("file-ref", "file-paths", "file-prefixes", "limit-hash", *_PAGE),
        beyond=True,
        action=Action.READ_LOG,
    ),
)

_OF_WRITES: Final = (
    _writes(
        "copyFile",
        "POST",
        f"{_REF}/copy",
        "Makes a file of a commit a file of a branch, without copying its bytes.",
        FileJson,
        ("file-branch", _KEY),
        CopyIn,
    ),
    _writes(
        "updateFile",
        "POST",
        f"{_REF}/update",
        "Replaces the metadata of a file, or its type.",
        FileJson,
        ("file-branch", _KEY),
        UpdateFileIn,
    ),
    _deletes(
        "deleteFiles",
        "POST",
        f"{_REF}/delete",
        "Removes files from a branch; that one does not exist is no error.",
        None,
        ("file-branch", _KEY),
        PathsIn,
    ),
    _writes(
        "reserveAddress",
        "POST",
        f"{_REF}/reserve",
        "Reserves a place to which a client sends the bytes of a file by itself.",
        ReservationJson,
        ("file-branch",),
        ReserveIn,
    ),
    _writes(
        "linkAddress",
        "POST",
        f"{_REF}/link",
        "Makes what was sent to a reserved place a file of the branch, once.",
        FileJson,
        ("file-branch", _KEY),
        LinkIn,
    ),
)

_OF_BRANCHES: Final = (
    _changes(
        "commitFiles",
        "POST",
        f"{_REF}/commit",
        "Commits the staged files of a branch, and operations on tables in the same commit.",
        CommitResponse,
        ("file-branch", "allow-empty", _KEY),
        CommitBody,
    ),
    _changes(
        "importFiles",
        "POST",
        f"{_REF}/import",
        "Commits the objects below prefixes of an object store as files, without copying them.",
        ImportedJson,
        ("file-branch", _KEY),
        ImportIn,
    ),
    _deletes(
        "resetFiles",
        "POST",
        f"{_REF}/reset",
        "Drops staged changes of a branch: one path, a prefix, or all.",
        None,
        ("file-branch", _KEY),
        ResetIn,
    ),
    ApiOperation(
        "hardReset",
        "POST",
        f"{_REF}/hard-reset",
        "Moves a branch to a commit; refused if files are staged, unless they may be dropped.",
        SingleReference,
        ("file-branch", _KEY),
        HardResetIn,
        beyond=True,
        action=Action.ASSIGN_REFERENCE,
    ),
)

OPERATIONS_FILES: Final = (*_OF_BYTES, *_OF_READS, *_OF_WRITES, *_OF_BRANCHES)
