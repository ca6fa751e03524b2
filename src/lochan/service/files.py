"""Use cases on single files: read them, copy, change and delete them on a branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Invalid, TooLarge
from lochan.base.keys import Key, file_key, file_path
from lochan.base.limits.files import FILES_DELETED_MAX, PRESIGNED_LIFETIME_S
from lochan.base.names import RefName
from lochan.codec.objects import find_object_id
from lochan.codec.rows import ReferenceRow
from lochan.kv.store import Adds
from lochan.model.entries import FileEntry
from lochan.model.files import (
    UNCONDITIONAL,
    WHOLE_FILE,
    ByteRange,
    FileInfo,
    FileMetadata,
    FileProperties,
    FileStream,
    WriteCondition,
)
from lochan.model.specs import ReferenceSpec
from lochan.persist.staged import NO_OBJECTS
from lochan.service.file_base import FileUseCases, actions_of_write, staged_condition
from lochan.service.file_claims import staged_write
from lochan.service.file_places import info_of
from lochan.service.uploads import check_properties
from lochan.staging.block_store import BlockAddress, is_foreign


class Files(FileUseCases):
    """The files of one repository."""

    def stat(self, call: Call, spec: ReferenceSpec, path: str) -> FileInfo:
        """Returns what a file is; PathNotFound if there is none that the caller may read."""
        return info_of(path, self._get(call, spec, file_key(path)))

    def open(
        self,
        call: Call,
        spec: ReferenceSpec,
        path: str,
        range: ByteRange = WHOLE_FILE,  # noqa: A002 - the name that HTTP gives it
    ) -> FileStream:
        """Opens the bytes of a file, or a range of them; close the stream."""
        entry = self._get(call, spec, file_key(path))
        return self._places.read(info_of(path, entry), entry, range)

    def open_stored(
        self,
        call: Call,
        spec: ReferenceSpec,
        path: str,
        range: ByteRange = WHOLE_FILE,  # noqa: A002 - the name that HTTP gives it
    ) -> FileStream | None:
        """As `open`, for a file whose bytes are in the store; None for any other."""
        entry = self._get(call, spec, file_key(path))
        if find_object_id(entry.address) is None:
            return None
        return self._places.read(info_of(path, entry), entry, range)

    def presign(self, call: Call, spec: ReferenceSpec, path: str) -> str:
        """Returns a URL from which anyone may read the bytes for some minutes."""
        entry = self._get(call, spec, file_key(path))
        return self._places.presign(entry, PRESIGNED_LIFETIME_S)

    def copy(
        self,
        call: Call,
        branch: str,
        path: str,
        source: ReferenceSpec,
        source_path: str,
        metadata: FileMetadata | None = None,
        content_type: str | None = None,
        condition: WriteCondition = UNCONDITIONAL,
        check_source: CheckFile | None = None,
    ) -> FileInfo:
        """Stages a file with the bytes of another one, which are not copied.

        `check_source` gets that file as it is copied, and raises to refuse it.
        """
        key, source_key = file_key(path), file_key(source_path)
        actions = actions_of_write(Action.WRITE_CONTENT, condition)
        row = self._decide(call, branch, [key], *actions)

        def copied() -> _Planned:
            found = self._get(call, source, source_key)
            if check_source is not None:
                check_source(info_of(source_path, found))
            kept = self._places.keep(found)
            return _Planned(_changed(found, metadata, content_type), condition, kept)

        return self._stage(call, row, key, copied)

    def stage_foreign(
        self,
        call: Call,
        branch: str,
        path: str,
        url: str,
        properties: FileProperties,
        modified_us: int | None = None,
    ) -> FileInfo:
        """Stages a file whose bytes are an object that the operator allows to import.

        The bytes stay where they are. The caller needs the right to import, because the server may
        read more than its users; size and ETag are those that the place states.
        """
        key = file_key(path)
        check_properties(properties)
        row = self._decide(call, branch, [key], Action.WRITE_CONTENT)
        self._decide(call, branch, [], Action.IMPORT_FILES)

        def planned() -> _Planned:
            return _Planned(self._foreign(url, properties, modified_us), UNCONDITIONAL)

        return self._stage(call, row, key, planned)

    def _foreign(self, url: str, properties: FileProperties, modified_us: int | None) -> FileEntry:
        if not is_foreign(url):
            raise Invalid("the address is not the URL of an object")
        found = self._places.place.find(BlockAddress(url))
        if found is None:
            raise Invalid("there is no object at this address")
        if properties.size not in (None, found.size):
            raise Invalid(f"the object has {found.size} bytes, and {properties.size} were stated")
        return FileEntry(
            address=found.address,
            size=found.size,
            modified_us=found.modified_us if modified_us is None else modified_us,
            etag=found.etag,
            metadata=properties.metadata,
            content_type=properties.content_type,
        )

    def update(
        self,
        call: Call,
        branch: str,
        path: str,
        metadata: FileMetadata | None = None,
        content_type: str | None = None,
        condition: WriteCondition = UNCONDITIONAL,
    ) -> FileInfo:
        """Stages a file with other metadata or another content type, and the same bytes.

        Other bytes that are written at the same moment are not replaced: ConditionFailed.
        """
        key = file_key(path)
        actions = actions_of_write(Action.WRITE_CONTENT, condition)
        row = self._decide(call, branch, [key], *actions)
        spec = ReferenceSpec(row.name)

        def changed() -> _Planned:
            found = self._get(call, spec, key)
            wanted = condition
            if condition == UNCONDITIONAL:
                wanted = WriteCondition(if_match=found.etag or "*", if_sha256=found.sha256.hex())
            return _Planned(_changed(found, metadata, content_type), wanted)

        return self._stage(call, row, key, changed)

    def delete(
        self, call: Call, branch: str, path: str, condition: WriteCondition = UNCONDITIONAL
    ) -> bool:
        """Stages the deletion of a file; False if there was none.

        A caller that may not read the file gets True in both cases.
        """
        key = file_key(path)
        row = self._decide(call, branch, [key], *actions_of_write(Action.DELETE_CONTENT, condition))
        name = RefName(row.name)
        write = staged_write(self._context, self._claims, call, Action.DELETE_CONTENT, row, bool)
        deleted = write.do_once(
            lambda operation: self._staging.writer.delete(
                name, key, staged_condition(condition), operation
            )
        )
        return deleted or not self._may_read(call, name, key)

    def delete_many(self, call: Call, branch: str, paths: Sequence[str]) -> None:
        """Stages the deletion of files; that one does not exist is no error."""
        if len(paths) > FILES_DELETED_MAX:
            raise TooLarge(f"one request deletes at most {FILES_DELETED_MAX} files")
        keys = [file_key(path) for path in paths]
        row = self._decide(call, branch, keys, Action.DELETE_CONTENT)

        def delete(_: bytes) -> bool:
            self._staging.writer.delete_many(RefName(row.name), keys)
            return True

        staged_write(self._context, self._claims, call, Action.DELETE_CONTENT, row, bool).do_once(
            delete
        )

    def _stage(
        self, call: Call, row: ReferenceRow, key: Key, plan: Callable[[], _Planned]
    ) -> FileInfo:
        """Stages an entry that is planned only if no earlier try has done so."""
        name, path = RefName(row.name), file_path(key)
        kept = staged_write(self._context, self._claims, call, Action.WRITE_CONTENT, row, FileInfo)
        earlier = kept.find_earlier()
        if earlier is not None:
            return earlier
        planned = plan()
        condition = staged_condition(planned.condition)

        def write(operation: bytes) -> FileInfo:
            made = msgspec.structs.replace(
                planned.entry,
                modified_us=planned.entry.modified_us or self._context.clock.now_us(),
                operation=operation,
            )
            writer = self._staging.writer
            stored = writer.put(name, key, made, condition, objects=planned.objects)
            return info_of(path, stored)

        return kept.do(write)


CheckFile = Callable[[FileInfo], None]
"""Raises to refuse a file."""


class _Planned(msgspec.Struct, frozen=True):
    """What is to be staged, on which condition, and with which objects.

    An entry without a time gets that of the write.
    """

    entry: FileEntry
    condition: WriteCondition
    objects: Adds = NO_OBJECTS


def _changed(
    entry: FileEntry, metadata: FileMetadata | None, content_type: str | None
) -> FileEntry:
    """Returns an entry with other metadata or another type, where they are given."""
    return msgspec.structs.replace(
        entry,
        modified_us=0,
        metadata=entry.metadata if metadata is None else metadata,
        content_type=entry.content_type if content_type is None else content_type,
    )
