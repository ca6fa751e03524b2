"""Commits on the wire: requests, responses and logs.

A request is decoded with all its types at once. Only if that fails are its contents decoded one by
one, which accepts types that are not registered and names precisely what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.model.commits import (
    CommitMeta,
    Committed,
    Delete,
    LogEntry,
    Operation,
    Put,
    RecordJob,
    Unchanged,
)
from lochan.model.contents import Content, KnownContent
from lochan.wire.codec import PageJson, not_readable
from lochan.wire.contents import ContentJson, content_in, content_out, content_v1, optional_in
from lochan.wire.keys import KeyJson
from lochan.wire.metas import (
    CommitMetaIn,
    CommitMetaV1,
    CommitMetaV2,
    meta_from_client,
    meta_in,
    meta_to_send,
    meta_v1,
    meta_v2,
)
from lochan.wire.references import ReferenceV1, ReferenceV2


# Thousands come in one request and are in no cycle: the garbage collector need not look at them.
class _PutFast(msgspec.Struct, frozen=True, tag="PUT", tag_field="type", rename="camel", gc=False):
    key: KeyJson
    content: KnownContent
    expected_content: KnownContent | None = None


class PutJson(msgspec.Struct, frozen=True, tag="PUT", tag_field="type", rename="camel", gc=False):
    """Writes a content; `expectedContent` is the content that the writer has read."""

    key: KeyJson
    content: ContentJson
    expected_content: ContentJson | msgspec.UnsetType | None = msgspec.UNSET


class DeleteJson(msgspec.Struct, frozen=True, tag="DELETE", tag_field="type", gc=False):
    """Removes a key."""

    key: KeyJson


class UnchangedJson(msgspec.Struct, frozen=True, tag="UNCHANGED", tag_field="type", gc=False):
    """Requires that a key is unchanged since the expected hash."""

    key: KeyJson


class RecordJobJson(msgspec.Struct, frozen=True, tag="RECORD_JOB", tag_field="type"):
    """Records the job that has written the content which the commit puts; not in Nessie's API."""

    key: KeyJson
    job: str
    facts: dict[str, str] = {}


_OperationFast = _PutFast | DeleteJson | UnchangedJson | RecordJobJson


class _CommitFast(msgspec.Struct, frozen=True, rename="camel"):
    commit_meta: CommitMetaIn
    operations: list[_OperationFast]


class _CommitInPieces(msgspec.Struct, frozen=True, rename="camel"):
    commit_meta: CommitMetaIn
    operations: list[msgspec.Raw]


class CommitBody(msgspec.Struct, frozen=True, rename="camel"):
    """A commit: its meta and its operations."""

    commit_meta: CommitMetaIn
    operations: list[PutJson | DeleteJson | UnchangedJson | RecordJobJson]


class AddedContentJson(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A new key, and the id of its content."""

    key: KeyJson
    content_id: str


class CommitResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The branch after the commit, and the ids of new contents."""

    target_branch: ReferenceV2
    added_contents: list[AddedContentJson]


class LogEntryV2(msgspec.Struct, frozen=True, rename="camel"):
    """A commit in a log; operations only with `fetch=ALL`."""

    commit_meta: CommitMetaV2
    parent_commit_hash: str | None
    operations: list[PutJson | DeleteJson] | None = None


class LogEntryV1(msgspec.Struct, frozen=True, rename="camel"):
    """A commit in a log, version 1; further parents of a merge are shown by version 2 only."""

    commit_meta: CommitMetaV1
    parent_commit_hash: str | None
    operations: list[PutJson | DeleteJson] | None


class LogV2(PageJson, frozen=True, rename="camel"):
    """A page of a log, the newest commit first."""

    log_entries: list[LogEntryV2]


class LogV1(PageJson, frozen=True, rename="camel"):
    """A page of a log, version 1."""

    log_entries: list[LogEntryV1]


# A longer body is decoded in pieces: one call keeps the interpreter until it returns, which is 8 ms
# for 2 MB; to find the pieces takes a quarter of that.
_BODY_AT_ONCE_MAX: Final = 262_144
_OPERATIONS_AT_ONCE: Final = 500

_read_fast: Final = msgspec.json.Decoder(_CommitFast).decode
_read_in_pieces: Final = msgspec.json.Decoder(_CommitInPieces).decode
_read_operations: Final = msgspec.json.Decoder(list[_OperationFast]).decode
_read_slow: Final = msgspec.json.Decoder(CommitBody).decode


def read_commit(body: bytes) -> tuple[CommitMeta, list[Operation]]:
    """Decodes the request for a commit; Invalid names what is wrong with it."""
    try:
        request = _read_fast(body) if len(body) <= _BODY_AT_ONCE_MAX else _read_long(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_carefully(body)
    operations = [
        Put(key=each.key.elements, content=each.content, expected=each.expected_content)
        if isinstance(each, _PutFast)
        else _other(each)
        for each in request.operations
    ]
    return meta_from_client(request.commit_meta), operations


def _read_long(body: bytes) -> _CommitFast:
    """Decodes a long body as one call would, but lets other threads run in between."""
    found = _read_in_pieces(body)
    raw, operations = found.operations, []
    for start in range(0, len(raw), _OPERATIONS_AT_ONCE):
        piece = raw[start : start + _OPERATIONS_AT_ONCE]
        operations += _read_operations(b"[%b]" % b",".join(piece))
    return _CommitFast(found.commit_meta, operations)


def _read_carefully(body: bytes) -> tuple[CommitMeta, list[Operation]]:
    try:
        request = _read_slow(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(not_readable(error)) from None
    operations = [
        _put_in(each, f"operations[{position}].") if isinstance(each, PutJson) else _other(each)
        for position, each in enumerate(request.operations)
    ]
    return meta_from_client(request.commit_meta), operations


def _other(operation: DeleteJson | UnchangedJson | RecordJobJson) -> Operation:
    if isinstance(operation, DeleteJson):
        return Delete(key=operation.key.elements)
    if isinstance(operation, RecordJobJson):
        facts = tuple(sorted(operation.facts.items()))
        return RecordJob(key=operation.key.elements, job=operation.job, facts=facts)
    return Unchanged(key=operation.key.elements)


def _put_in(put: PutJson, where: str = "") -> Put:
    expected = None if put.expected_content is msgspec.UNSET else put.expected_content
    return Put(
        key=put.key.elements,
        content=content_in(put.content, f"{where}content"),
        expected=optional_in(expected, f"{where}expectedContent"),
    )


def commit_to_send(meta: CommitMeta, operations: Sequence[Operation]) -> CommitBody:
    """Returns the body of a commit as a client sends it."""
    return CommitBody(meta_to_send(meta), [_operation_out(each) for each in operations])


def _operation_out(
    operation: Operation, show: Callable[[Content], Any] = content_out
) -> PutJson | DeleteJson | UnchangedJson | RecordJobJson:
    key = KeyJson(operation.key)
    if isinstance(operation, RecordJob):
        return RecordJobJson(key, operation.job, dict(operation.facts))
    if isinstance(operation, Put):
        if operation.expected is None:
            return PutJson(key, show(operation.content))
        return PutJson(key, show(operation.content), show(operation.expected))
    return DeleteJson(key) if isinstance(operation, Delete) else UnchangedJson(key)


def commit_response(committed: Committed) -> CommitResponse:
    """Returns the response to a commit, version 2."""
    return CommitResponse(
        ReferenceV2("BRANCH", committed.branch, committed.hash),
        [AddedContentJson(KeyJson(each.key), each.content_id) for each in committed.added],
    )


def committed_branch_v1(committed: Committed) -> ReferenceV1:
    """Returns the response to a commit, version 1."""
    return ReferenceV1("BRANCH", committed.branch, committed.hash)


def log_entry_v2(entry: LogEntry) -> LogEntryV2:
    """Returns a commit in a log as JSON of version 2."""
    return LogEntryV2(meta_v2(entry.meta), entry.parent or None, _operations_out(entry))


def log_entry_v1(entry: LogEntry) -> LogEntryV1:
    """Returns a commit in a log as JSON of version 1."""
    return LogEntryV1(meta_v1(entry.meta), entry.parent or None, _operations_out(entry, content_v1))


def _operations_out(
    entry: LogEntry, show: Callable[[Content], Any] = content_out
) -> list[PutJson | DeleteJson] | None:
    if entry.operations is None:
        return None
    operations: list[Any] = [_operation_out(each, show) for each in entry.operations]
    return operations


def log_entry_in(entry: LogEntryV2) -> LogEntry:
    """Returns the commit of a log that JSON describes."""
    operations: tuple[Put | Delete, ...] | None = None
    if entry.operations is not None:
        operations = tuple(
            _put_in(each) if isinstance(each, PutJson) else Delete(key=each.key.elements)
            for each in entry.operations
        )
    return LogEntry(meta_in(entry.commit_meta), entry.parent_commit_hash or "", operations)
