"""The methods of files: read, write, list and compare them, commit what is staged."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from pathlib import Path

from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.client.methods import Group, Runner, page_iterator, request_method, stream_method
from lochan.client.upload_sources import source_of
from lochan.model.commits import CommitMeta, Operation
from lochan.model.file_requests import (
    CopyFileRequest,
    DeleteFileRequest,
    DeleteFilesRequest,
    DiffFilesRequest,
    FileLogRequest,
    HardResetRequest,
    ImportFilesRequest,
    LinkAddressRequest,
    ListFilesRequest,
    OpenFileRequest,
    PresignFileRequest,
    PutFileRequest,
    ReadFileRequest,
    ReserveAddressRequest,
    ResetFilesRequest,
    StatFileRequest,
    UncommittedFilesRequest,
    UpdateFileRequest,
)
from lochan.model.files import (
    ByteRange,
    FileBody,
    FileProperties,
    ImportProgress,
    ImportSource,
    WriteCondition,
    metadata_of,
)
from lochan.model.requests import DEFAULT_BRANCH, CommitRequest
from lochan.model.specs import parse_commit, parse_expected, parse_name, parse_spec


class FileMethods(Group[Runner]):
    """Files, staged on branches and committed with tables.

    A branch is read with what is staged on it; a tag, a hash or `main~1` is read as committed.
    """

    @request_method
    def stat(self, spec: str, path: str) -> StatFileRequest:
        """Returns what a file is; PathNotFound if there is none."""
        return StatFileRequest(spec=parse_spec(spec), path=path)

    @request_method
    def read(
        self,
        spec: str,
        path: str,
        *,
        start: int = 0,
        end: int | None = None,
        last: int | None = None,
    ) -> ReadFileRequest:
        """Returns the bytes of a file, a range [start, end) of them, or its last ones."""
        wanted = ByteRange(start=start, end=end, last=last)
        return ReadFileRequest(spec=parse_spec(spec), path=path, range=wanted)

    @stream_method
    def open(
        self,
        spec: str,
        path: str,
        *,
        start: int = 0,
        end: int | None = None,
        last: int | None = None,
    ) -> OpenFileRequest:
        """Returns the bytes of a file as a stream of pieces; use it in a `with` block."""
        wanted = ByteRange(start=start, end=end, last=last)
        return OpenFileRequest(spec=parse_spec(spec), path=path, range=wanted)

    @request_method
    def put(
        self,
        branch: str,
        path: str,
        body: FileBody | Path | AsyncIterable[bytes],
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        size: int | None = None,
        sha256: str = "",
        md5: str = "",
        if_absent: bool = False,
        if_match: str = "",
        if_sha256: str = "",
    ) -> PutFileRequest:
        """Stages a file; the body is bytes, a path, a binary file or an iterable of pieces.

        The asynchronous client takes an asynchronous iterable too. Size and checksums are checked
        if they are stated. A condition that does not hold is ConditionFailed, and nothing is
        written.
        """
        properties = FileProperties(
            content_type=content_type,
            metadata=metadata_of(metadata),
            size=size,
            sha256=sha256,
            md5=md5,
        )
        return PutFileRequest(
            branch=parse_name(branch),
            path=path,
            body=source_of(body),
            properties=properties,
            condition=_condition(if_match, if_sha256, if_absent=if_absent),
        )

    @request_method
    def copy(
        self,
        branch: str,
        path: str,
        source_path: str,
        *,
        source: str | None = None,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        if_absent: bool = False,
        if_match: str = "",
        if_sha256: str = "",
    ) -> CopyFileRequest:
        """Stages a copy of a file of the branch, or of another source; bytes are not copied."""
        return CopyFileRequest(
            branch=parse_name(branch),
            path=path,
            source=parse_spec(branch if source is None else source),
            source_path=source_path,
            metadata=None if metadata is None else metadata_of(metadata),
            content_type=content_type,
            condition=_condition(if_match, if_sha256, if_absent=if_absent),
        )

    @request_method
    def update(
        self,
        branch: str,
        path: str,
        *,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        if_match: str = "",
        if_sha256: str = "",
    ) -> UpdateFileRequest:
        """Stages a file with other metadata, or another content type, and the same bytes."""
        return UpdateFileRequest(
            branch=parse_name(branch),
            path=path,
            metadata=None if metadata is None else metadata_of(metadata),
            content_type=content_type,
            condition=_condition(if_match, if_sha256),
        )

    @request_method
    def delete(
        self, branch: str, path: str, *, if_match: str = "", if_sha256: str = ""
    ) -> DeleteFileRequest:
        """Stages the deletion of a file; returns False if there was none."""
        return DeleteFileRequest(
            branch=parse_name(branch), path=path, condition=_condition(if_match, if_sha256)
        )

    @request_method
    def delete_many(self, branch: str, paths: Sequence[str]) -> DeleteFilesRequest:
        """Stages the deletion of up to 1,000 files; that one does not exist is no error."""
        return DeleteFilesRequest(branch=parse_name(branch), paths=tuple(paths))

    @request_method
    def list(
        self,
        spec: str = DEFAULT_BRANCH,
        prefix: str = "",
        *,
        delimiter: str = "",
        after: str = "",
        limit: int | None = None,
        token: str | None = None,
    ) -> ListFilesRequest:
        """Returns a page of files, in the order of their paths, folded at a delimiter."""
        return ListFilesRequest(
            spec=parse_spec(spec),
            prefix=prefix,
            delimiter=delimiter,
            after=after,
            limit=limit,
            token=token,
        )

    @page_iterator
    def iterate(
        self,
        spec: str = DEFAULT_BRANCH,
        prefix: str = "",
        *,
        delimiter: str = "",
        after: str = "",
    ) -> ListFilesRequest:
        """Yields all files; those of a branch as they are when their page is read."""
        return ListFilesRequest(
            spec=parse_spec(spec),
            prefix=prefix,
            delimiter=delimiter,
            after=after,
            limit=PAGE_ENTRIES_MAX,
        )

    @request_method
    def uncommitted(
        self,
        branch: str = DEFAULT_BRANCH,
        prefix: str = "",
        *,
        delimiter: str = "",
        limit: int | None = None,
        token: str | None = None,
    ) -> UncommittedFilesRequest:
        """Returns a page of the files that are staged and differ from the head."""
        return UncommittedFilesRequest(
            branch=parse_name(branch), prefix=prefix, delimiter=delimiter, limit=limit, token=token
        )

    @page_iterator
    def iterate_uncommitted(
        self, branch: str = DEFAULT_BRANCH, prefix: str = "", *, delimiter: str = ""
    ) -> UncommittedFilesRequest:
        """Yields all files that are staged and differ from the head."""
        return UncommittedFilesRequest(
            branch=parse_name(branch), prefix=prefix, delimiter=delimiter, limit=PAGE_ENTRIES_MAX
        )

    @request_method
    def diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        *,
        delimiter: str = "",
        since_base: bool = False,
        limit: int | None = None,
        token: str | None = None,
    ) -> DiffFilesRequest:
        """Returns a page of the committed files that differ.

        With `since_base`, what the right side has changed since the merge base of both.
        """
        return DiffFilesRequest(
            left=parse_spec(left),
            right=parse_spec(right),
            prefix=prefix,
            delimiter=delimiter,
            since_base=since_base,
            limit=limit,
            token=token,
        )

    @page_iterator
    def iterate_diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        *,
        delimiter: str = "",
        since_base: bool = False,
    ) -> DiffFilesRequest:
        """Yields all committed files that differ."""
        return DiffFilesRequest(
            left=parse_spec(left),
            right=parse_spec(right),
            prefix=prefix,
            delimiter=delimiter,
            since_base=since_base,
            limit=PAGE_ENTRIES_MAX,
        )

    @request_method
    def log(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit_hash: str | None = None,
        limit: int | None = None,
        token: str | None = None,
    ) -> FileLogRequest:
        """Returns a page of the commits that changed one of these files or prefixes."""
        return FileLogRequest(
            spec=parse_spec(spec),
            paths=tuple(paths),
            prefixes=tuple(prefixes),
            limit_hash=None if limit_hash is None else parse_commit(limit_hash),
            limit=limit,
            token=token,
        )

    @page_iterator
    def iterate_log(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit_hash: str | None = None,
    ) -> FileLogRequest:
        """Yields all commits that changed one of these files or prefixes, newest first."""
        return FileLogRequest(
            spec=parse_spec(spec),
            paths=tuple(paths),
            prefixes=tuple(prefixes),
            limit_hash=None if limit_hash is None else parse_commit(limit_hash),
            limit=PAGE_ENTRIES_MAX,
        )

    @request_method
    def commit(
        self,
        branch: str,
        message: str | CommitMeta,
        operations: Sequence[Operation] = (),
        *,
        expected: str | None = None,
        allow_empty: bool = False,
    ) -> CommitRequest:
        """Commits what is staged on a branch, with operations on tables in the same commit."""
        meta = CommitMeta(message=message) if isinstance(message, str) else message
        return CommitRequest(
            branch=parse_name(branch),
            expected=parse_expected(expected),
            meta=meta,
            operations=tuple(operations),
            staged=True,
            allow_empty=allow_empty,
        )

    @request_method
    def reset(
        self, branch: str, *, prefix: str | None = None, path: str | None = None
    ) -> ResetFilesRequest:
        """Drops what is staged: all, below a prefix, or of one path."""
        return ResetFilesRequest(branch=parse_name(branch), prefix=prefix, path=path)

    @request_method
    def hard_reset(
        self,
        branch: str,
        target: str,
        *,
        expected: str | None = None,
        discard_staged: bool = False,
    ) -> HardResetRequest:
        """Moves a branch to a commit; StagedWork if files are staged that may not be dropped."""
        return HardResetRequest(
            branch=parse_name(branch),
            target=parse_spec(target),
            expected=parse_expected(expected),
            discard_staged=discard_staged,
        )

    @request_method
    def reserve(self, branch: str, path: str) -> ReserveAddressRequest:
        """Reserves a place to which a client writes the bytes of a file by itself."""
        return ReserveAddressRequest(branch=parse_name(branch), path=path)

    @request_method
    def link(
        self,
        branch: str,
        path: str,
        token: str,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        size: int | None = None,
        md5: str = "",
        if_absent: bool = False,
        if_match: str = "",
    ) -> LinkAddressRequest:
        """Stages a file whose bytes were written to a reserved place."""
        properties = FileProperties(
            content_type=content_type, metadata=metadata_of(metadata), size=size, md5=md5
        )
        return LinkAddressRequest(
            branch=parse_name(branch),
            path=path,
            token=token,
            properties=properties,
            condition=_condition(if_match, "", if_absent=if_absent),
        )

    @request_method
    def import_files(
        self,
        branch: str,
        sources: Sequence[tuple[str, str]],
        message: str | CommitMeta,
        *,
        report: Callable[[ImportProgress], None] | None = None,
    ) -> ImportFilesRequest:
        """Commits the objects below URLs as the files of destination prefixes, without a copy."""
        meta = CommitMeta(message=message) if isinstance(message, str) else message
        return ImportFilesRequest(
            branch=parse_name(branch),
            sources=tuple(ImportSource(url, prefix) for url, prefix in sources),
            meta=meta,
            report=report,
        )

    @request_method
    def presign(self, spec: str, path: str) -> PresignFileRequest:
        """Returns a URL from which anyone may read the bytes of a file for some minutes."""
        return PresignFileRequest(spec=parse_spec(spec), path=path)


def _condition(if_match: str, if_sha256: str, *, if_absent: bool = False) -> WriteCondition:
    return WriteCondition(if_absent=if_absent, if_match=if_match, if_sha256=if_sha256)
