"""Use cases that write a file in parts, which may come in any order and in parallel.

1. `create` begins an upload at the place of the repository, and adds its row (`persist/uploads`).
2. `begin_part` decides on the caller, and takes the bytes of one part.
3. `complete`: a. finds the row; an outcome in it is the answer. b. decides on the caller. c. lets
   the place join the parts, which may be repeated. d. stages the file, with the operation id of the
   row. e. records the outcome in the row.
4. `abort` removes the row, then the parts.

A crash before 3d leaves no file: the same completion sent again goes on, or the upload is swept a
day after its last part. One between 3d and 3e leaves a row without an outcome, and the completion
sent again stages the same file again. A reply that is lost after 3e is answered from the row, for a
day. A block that was joined and then refused, by a condition or because the branch is gone, stays
until the upload is completed in another way, or for the collector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Corrupt, NotFound, UploadNotFound
from lochan.base.keys import file_key
from lochan.base.limits.files import ADDRESS_LIFETIME_S, UPLOADS_LISTED_MAX
from lochan.base.names import RefName
from lochan.codec.forms import DECODE_FAILURES
from lochan.codec.rows import ReferenceRow
from lochan.model.entries import FileEntry
from lochan.model.files import (
    UNCONDITIONAL,
    FileInfo,
    FileProperties,
    OpenUpload,
    SignedUpload,
    UploadedPart,
    UploadPage,
    WriteCondition,
)
from lochan.persist.rows import Stamped
from lochan.persist.uploads import UploadRow, UploadRows, upload_key
from lochan.service.file_base import (
    FileContext,
    FileUseCases,
    actions_of_write,
    staged_condition,
)
from lochan.service.file_places import info_of
from lochan.service.uploads import NO_PROPERTIES, check_properties
from lochan.staging.block_store import ChosenPart, MultipartId, PartUpload, StoredPart

_ID_BYTES: Final = 16
_OPERATION_BYTES: Final = 16
_ENDED: Final = "there is no such upload: it was completed or aborted, or never begun"
_encode: Final = msgspec.msgpack.Encoder().encode


class PartUploads(FileUseCases):
    """Uploads in parts of one repository."""

    def __init__(self, files: FileContext) -> None:
        super().__init__(files)
        self._rows = UploadRows(files.context.store, files.context.instance)

    def create(
        self, call: Call, branch: str, path: str, properties: FileProperties = NO_PROPERTIES
    ) -> str:
        """Begins an upload; returns its id."""
        key = file_key(path)
        check_properties(properties)
        row = self._decide(call, branch, [key], Action.WRITE_CONTENT)
        context = self._context
        upload = context.random.random_bytes(_ID_BYTES).hex()
        place = self._places.place.begin_multipart()
        made = UploadRow(
            1,
            row.name,
            row.incarnation,
            path,
            upload,
            place,
            context.random.random_bytes(_OPERATION_BYTES),
            call.principal,
            context.clock.now_us(),
            properties.content_type,
            properties.metadata,
        )
        self._rows.add(made, context.retry())
        return upload

    def begin_part(
        self,
        call: Call,
        branch: str,
        path: str,
        upload: str,
        number: int,
        size: int | None = None,
    ) -> StagedPart:
        """Begins a part; one that is not finished stores nothing."""
        place = MultipartId(self._open(call, branch, path, upload).row.place)
        with _known_upload():
            return StagedPart(self._places.place.begin_part(place, number, size=size))

    def create_signed(self, call: Call, branch: str, path: str, parts: int) -> SignedUpload | None:
        """Begins an upload whose parts the client sends to the place by itself.

        None where clients cannot write to the place.
        """
        self._decide(call, branch, [file_key(path)], Action.WRITE_CONTENT)
        if not self._places.place.signs_urls:
            return None
        upload = self.create(call, branch, path)
        return self.sign_parts(call, branch, path, upload, range(1, parts + 1))

    def sign_parts(
        self, call: Call, branch: str, path: str, upload: str, numbers: Sequence[int]
    ) -> SignedUpload | None:
        """Returns where the client sends these parts, and where the bytes of the file will be.

        Without numbers the upload may have been completed. None where clients cannot write to the
        place.
        """
        self._decide(call, branch, [file_key(path)], Action.WRITE_CONTENT)
        place = self._places.place
        if not place.signs_urls:
            return None
        row = self._open(call, branch, path, upload, ended=not numbers).row
        signed = place.presign_parts(MultipartId(row.place), numbers, ADDRESS_LIFETIME_S)
        return None if signed is None else SignedUpload(upload, signed.address, signed.urls)

    def list_parts(
        self, call: Call, branch: str, path: str, upload: str, after: int = 0
    ) -> Sequence[UploadedPart]:
        """Returns up to 1,000 parts with numbers greater than `after`, in order."""
        found = self._open(call, branch, path, upload)
        with _known_upload():
            parts = self._places.place.list_parts(MultipartId(found.row.place), after)
        return [_shown(part) for part in parts]

    def list_uploads(
        self, call: Call, prefix: str, after: str = "", limit: int = 1_000
    ) -> UploadPage:
        """Returns uploads that are under way, in the order of their names, after a name.

        Names are those of `persist/uploads`: branch and path, NUL and the id. Uploads to files that
        the caller may not write are left out.
        """
        self._access.check_seen(call)
        start = prefix.encode()
        if after:
            start = max(start, after.encode() + b"\0")
        found: list[OpenUpload] = []
        seen = 0
        further: bytes | None = start
        while further is not None and seen < UPLOADS_LISTED_MAX:
            page = self._rows.scan(further, limit + 1)
            for each in page.rows:
                row = each.row
                name = self._rows.key_of(row)
                if not name.startswith(prefix.encode()):
                    return UploadPage(tuple(found))
                if row.outcome or not self._may_write(call, row):
                    continue
                if len(found) == limit:
                    return UploadPage(tuple(found), is_truncated=True)
                found.append(OpenUpload(row.branch, row.path, row.id, row.began_us))
            seen += len(page.rows)
            further = page.next_start
        return UploadPage(tuple(found), is_truncated=bool(found) and further is not None)

    def complete(
        self,
        call: Call,
        branch: str,
        path: str,
        upload: str,
        parts: Sequence[UploadedPart],
        condition: WriteCondition = UNCONDITIONAL,
        properties: FileProperties | None = None,
    ) -> FileInfo:
        """Joins the chosen parts to a file and stages it.

        `properties` are stated here by clients that did not do so when they began.
        """
        if properties is not None:
            check_properties(properties)
        # a and b
        actions = actions_of_write(Action.WRITE_CONTENT, condition)
        found = self._open(call, branch, path, upload, *actions, ended=True)
        row, key = found.row, file_key(path)
        earlier = _outcome_of(row)
        if earlier is not None:
            return earlier
        # c
        chosen = [ChosenPart(part.number, part.etag) for part in parts]
        with _known_upload():
            block = self._places.place.complete_multipart(MultipartId(row.place), chosen)
        stated = properties or FileProperties(content_type=row.content_type, metadata=row.metadata)
        # d, after another decision: joining may take minutes.
        self._open(call, branch, path, upload, *actions, ended=True)
        # What is in memory may be the row of a branch that was deleted some moments ago.
        if not _is_of(row, self._staging.rows.fetch(RefName(row.branch))):
            raise UploadNotFound(_ENDED)
        entry = FileEntry(
            address=block.address,
            size=block.size,
            modified_us=self._context.clock.now_us(),
            sha256=bytes.fromhex(block.sha256 or ""),
            etag=block.etag,
            metadata=stated.metadata,
            content_type=stated.content_type,
            operation=row.operation,
        )
        name, wanted = RefName(row.branch), staged_condition(condition)
        put = self._staging.writer.put
        # It may be deleted and created again at any moment.
        info = info_of(path, put(name, key, entry, wanted, incarnation=row.incarnation))
        # e
        self._rows.record(row, _encode(info), self._context.retry())
        return info

    def abort(self, call: Call, branch: str, path: str, upload: str) -> None:
        """Ends an upload without a file, and removes its parts."""
        found = self._open(call, branch, path, upload)
        self._rows.drop(found)
        self._places.place.abort_multipart(MultipartId(found.row.place))

    def _open(
        self,
        call: Call,
        branch: str,
        path: str,
        upload: str,
        *actions: Action,
        ended: bool = False,
    ) -> Stamped[UploadRow]:
        """Returns the row of an upload to a file that the caller may write."""
        target = self._decide(call, branch, [file_key(path)], *(actions or (Action.WRITE_CONTENT,)))
        found = self._rows.fetch(upload_key(target.name, path, upload))
        if found is None or not _is_of(found.row, target) or (found.row.outcome and not ended):
            raise UploadNotFound(_ENDED)
        return found

    def _may_write(self, call: Call, row: UploadRow) -> bool:
        right = self._access.key_right(call, Action.WRITE_CONTENT, row.branch)
        return right is None or right.covers(bytes(file_key(row.path)))


class StagedPart:
    """A part that is being written; one thread at a time."""

    def __init__(self, part: PartUpload) -> None:
        self._part = part

    def write(self, piece: bytes | bytearray | memoryview) -> None:
        """Takes the next bytes."""
        self._part.write(piece)

    def finish(self, *, sha256: str = "", md5: str = "") -> UploadedPart:
        """Makes the part durable; BytesDiffer unless it has these checksums, in hex."""
        with _known_upload():
            return _shown(self._part.finish(sha256=sha256 or None, md5=md5 or None))

    def abort(self) -> None:
        """Ends the part without storing it; idempotent, and harmless after `finish`."""
        self._part.abort()


@contextmanager
def _known_upload() -> Iterator[None]:
    """Names what is not there: to a place it is an upload, to users other things may be absent."""
    try:
        yield
    except NotFound as error:
        raise UploadNotFound(_ENDED) from error


def _is_of(row: UploadRow, target: ReferenceRow) -> bool:
    """Returns whether an upload was begun on this incarnation of its branch."""
    return row.incarnation == target.incarnation


def _outcome_of(row: UploadRow) -> FileInfo | None:
    if not row.outcome:
        return None
    try:
        return msgspec.msgpack.decode(row.outcome, type=FileInfo)
    except DECODE_FAILURES as error:
        raise Corrupt(f"not the outcome of an upload: {error}") from None


def _shown(part: StoredPart) -> UploadedPart:
    return UploadedPart(part.number, part.etag, part.size, part.modified_us)
