"""Use cases that write files as streams.

1. `begin` decides on the caller and checks everything that is known before the first byte.
2. The bytes come in pieces: into memory up to the size of a small file, then into a block.
3. `finish` checks size and checksums, stores the bytes durably, decides again, because an upload
   may take hours, and stages the entry.

An upload that is not finished stores nothing: its block is aborted, or swept if the server died. A
refusal in step 3 deletes the block; after an unknown outcome it stays, because the entry may name
it.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5, sha256
from typing import Final, Self

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import BytesDiffer, Invalid, LochanError, TooLarge, Unknown
from lochan.base.keys import file_key
from lochan.base.limits.files import FILE_BYTES_MAX, FILE_IN_STORE_BYTES_MAX
from lochan.base.names import RefName
from lochan.codec.elements import encode_file
from lochan.codec.objects import find_object_id
from lochan.kv.store import Adds
from lochan.model.entries import FileEntry
from lochan.model.files import UNCONDITIONAL, FileInfo, FileProperties, WriteCondition
from lochan.persist.staged import NO_OBJECTS
from lochan.service.file_base import FileUseCases, actions_of_write, staged_condition
from lochan.service.file_claims import staged_write
from lochan.service.file_places import FilePlaces, info_of
from lochan.staging.block_store import BlockAddress, BlockUpload

NO_PROPERTIES: Final = FileProperties()

Piece = bytes | bytearray | memoryview


class Uploads(FileUseCases):
    """Writes the files of one repository."""

    def begin(
        self,
        call: Call,
        branch: str,
        path: str,
        properties: FileProperties = NO_PROPERTIES,
        condition: WriteCondition = UNCONDITIONAL,
    ) -> StagedUpload:
        """Begins a file; leave its `with` block unfinished, and nothing is stored."""
        key = file_key(path)
        check_properties(properties)
        actions = actions_of_write(Action.WRITE_CONTENT, condition)
        row = self._decide(call, branch, [key], *actions)
        name, wanted = RefName(row.name), staged_condition(condition)
        keyed = staged_write(self._context, self._claims, call, Action.WRITE_CONTENT, row, FileInfo)

        def stage(entry: FileEntry, objects: Adds) -> FileInfo:
            self._decide(call, branch, [key], *actions)

            def write(operation: bytes) -> FileInfo:
                made = msgspec.structs.replace(
                    entry, modified_us=self._context.clock.now_us(), operation=operation
                )
                stored = self._staging.writer.put(name, key, made, wanted, objects=objects)
                return info_of(path, stored)

            return keyed.do(write)

        return StagedUpload(self._places, properties, stage, keyed.find_earlier())


class StagedUpload:
    """A file that is being written; one thread at a time."""

    def __init__(
        self,
        places: FilePlaces,
        properties: FileProperties,
        stage: Callable[[FileEntry, Adds], FileInfo],
        earlier: FileInfo | None = None,
    ) -> None:
        self._places = places
        self._properties = properties
        self._stage = stage
        # What an earlier try of the same request has written: the bytes are not taken again.
        self._earlier = earlier
        self._size = 0
        self._small = bytearray()
        self._block: BlockUpload | None = None
        self._is_over = False

    def write(self, piece: Piece) -> None:
        """Takes the next bytes."""
        self._check_open()
        self._size += memoryview(piece).nbytes
        stated = self._properties.size
        if self._size > (FILE_BYTES_MAX if stated is None else stated):
            self.abort()
            if stated is not None:
                raise BytesDiffer(f"the file has more than the {stated} bytes that were stated")
            raise TooLarge(f"a file has at most {FILE_BYTES_MAX} bytes")
        if self._earlier is not None:
            return
        if self._block is None and self._size <= FILE_IN_STORE_BYTES_MAX:
            self._small += piece
            return
        try:
            if self._block is None:
                self._block = self._places.place.begin(size=stated)
                if self._small:
                    self._block.write(bytes(self._small))
                    self._small.clear()
            self._block.write(piece)
        except BaseException:
            self.abort()
            raise

    def finish(self) -> FileInfo:
        """Makes the bytes durable and stages the file."""
        self._check_open()
        stated = self._properties.size
        try:
            if stated is not None and stated != self._size:
                raise BytesDiffer(f"the file has {self._size} bytes, and {stated} were stated")
            if self._earlier is not None:
                return self._earlier
            entry, objects = self._store()
        except BaseException:
            self.abort()
            raise
        self._is_over = True
        try:
            return self._stage(entry, objects)
        except Unknown:
            raise
        except LochanError:
            self._discard(entry)
            raise

    def abort(self) -> None:
        """Ends the upload without a file; idempotent, and harmless after `finish`."""
        self._is_over = True
        self._small.clear()
        block, self._block = self._block, None
        if block is not None:
            block.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_over:
            self.abort()

    def _check_open(self) -> None:
        if self._is_over:
            raise Invalid("this upload has ended; begin another one")

    def _store(self) -> tuple[FileEntry, Adds]:
        """Stores a block; returns the entry without its time, and objects to store with it."""
        given, block = self._properties, self._block
        objects = NO_OBJECTS
        if block is None:
            data = bytes(self._small)
            digest = sha256(data).digest()
            etag = md5(data, usedforsecurity=False).hexdigest()
            if given.sha256 and given.sha256.lower() != digest.hex():
                raise BytesDiffer("the file does not have the SHA-256 that was stated", "sha256")
            if given.md5 and given.md5.lower() != etag:
                raise BytesDiffer("the file does not have the MD5 that was stated", "md5")
            address, objects = self._places.build_small(data)
        else:
            wanted = (given.sha256.lower() or None, given.md5.lower() or None)
            stored = block.finish(sha256=wanted[0], md5=wanted[1])
            self._block = None
            address, etag = stored.address, stored.etag
            digest = bytes.fromhex(stored.sha256 or "")
        entry = FileEntry(
            address=address,
            size=self._size,
            modified_us=0,
            sha256=digest,
            etag=etag,
            metadata=given.metadata,
            content_type=given.content_type,
        )
        return entry, objects

    def _discard(self, entry: FileEntry) -> None:
        """Deletes the block of an entry that was refused; an object is left to the collector."""
        if find_object_id(entry.address) is None:
            try:
                self._places.place.delete(BlockAddress(entry.address))
            except LochanError:
                # The refusal is the answer; a collector finds the block.
                return


def check_properties(properties: FileProperties) -> None:
    """Refuses metadata, a type, a size or checksums that no file may have."""
    if properties.size is not None and not 0 <= properties.size <= FILE_BYTES_MAX:
        raise TooLarge(f"a file has at most {FILE_BYTES_MAX} bytes, not {properties.size}")
    for name, digits, count in (("SHA-256", properties.sha256, 64), ("MD5", properties.md5, 32)):
        if digits and (len(digits) != count or not _is_hex(digits)):
            raise Invalid(f"the {name} of a file has {count} digits in hex")
    encode_file(
        FileEntry(
            address="",
            size=0,
            modified_us=0,
            metadata=properties.metadata,
            content_type=properties.content_type,
        )
    )


def _is_hex(digits: str) -> bool:
    return digits.isascii() and all(digit in "0123456789abcdefABCDEF" for digit in digits)
