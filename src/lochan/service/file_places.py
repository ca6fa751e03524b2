"""Where the bytes of files are: small ones in the store, others at the place of the repository.

A small file is an object of the store, found by the hash of its bytes: it is durable by the flush
that makes its staged record durable. A larger one is a block of the place (`block_store.py`), which
is durable before its entry is written. A file that was imported or linked stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from lochan.base.errors import Corrupt, Invalid, RangeNotSatisfiable
from lochan.base.ids import InstanceId, ObjId
from lochan.base.limits.storage import GRACE_S
from lochan.base.ports import Lock, NewLock
from lochan.codec.objects import (
    FileObject,
    address_of,
    decode_object,
    encode_object,
    find_object_id,
    object_id,
)
from lochan.kernel.context import RepositoryContext
from lochan.kv.store import Adds
from lochan.model.entries import FileEntry
from lochan.model.files import ByteRange, FileInfo
from lochan.persist.staged import NO_OBJECTS
from lochan.staging.block_store import (
    BlockAddress,
    BlockStore,
    check_whole,
    is_foreign,
)


class OpenPlace(Protocol):
    """Returns the open place of a repository; without a URL its default place.

    It is called once for each opened repository, and the caller does not close what it returns.
    """

    def __call__(self, url: str, instance: InstanceId) -> BlockStore:
        """Returns the place."""
        ...


CheckPlace = Callable[[str], None]
"""Refuses the URL of a place that no new repository may have."""


class _OneThread:
    """The lock of a repository that only one thread uses."""

    def __enter__(self) -> bool:
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def _new_one_thread_lock() -> Lock:
    return _OneThread()


def _open_nothing(url: str, instance: InstanceId) -> BlockStore:  # noqa: ARG001 - the protocol
    raise Invalid(
        "this repository was opened without a place for the bytes of files; only files of a few "
        "KB can be stored"
    )


def _allow_every_place(url: str) -> None:  # noqa: ARG001 - the protocol
    return None


class FileSupport(msgspec.Struct, frozen=True):
    """What files need from outside: the places for their bytes, and locks between threads."""

    open_place: OpenPlace = _open_nothing
    new_lock: NewLock = _new_one_thread_lock
    check_place: CheckPlace = _allow_every_place


NO_PLACES: Final = FileSupport()
"""For one thread, without a place: small files only."""


class FilePlaces:
    """The bytes of the files of one repository."""

    def __init__(self, context: RepositoryContext, open_place: OpenPlace) -> None:
        self._context = context
        self._open_place = open_place
        self._opened: BlockStore | None = None

    @property
    def place(self) -> BlockStore:
        """The place of the repository; opened when it is first needed."""
        if self._opened is None:
            context = self._context
            self._opened = self._open_place(context.description.storage, context.instance)
        return self._opened

    @property
    def is_open(self) -> bool:
        """Whether the place was used since the process began."""
        return self._opened is not None

    def build_small(self, data: bytes) -> tuple[str, Adds]:
        """Returns the address of the bytes of a small file, and the object that is to be stored."""
        raw = encode_object(FileObject(1, data))
        obj_id = object_id(raw)
        return address_of(obj_id), self._context.objects.adds([(obj_id, raw)])

    def keep(self, entry: FileEntry) -> Adds:
        """Returns the bytes of a small file that another entry is about to name, to be stored anew.

        A collector leaves alone what was stored within its grace.
        """
        obj_id = find_object_id(entry.address)
        if obj_id is None:
            return NO_OBJECTS
        return self.build_small(self._small(obj_id, entry))[1]

    def read(self, info: FileInfo, entry: FileEntry, wanted: ByteRange) -> StoredFileStream:
        """Opens the bytes of a file, or a range of them."""
        start, end = find_bounds(wanted, entry.size)
        obj_id = find_object_id(entry.address)
        if obj_id is not None:
            data = self._small(obj_id, entry)[start:end]
            return StoredFileStream(info, start, end, [data] if data else [])
        address, is_whole = BlockAddress(entry.address), (start, end) == (0, entry.size)
        etag = entry.etag if is_foreign(address) else ""
        reader = self.place.read(address, start, end, size=entry.size, etag=etag)
        pieces: Iterable[bytes] = reader
        if is_whole and entry.sha256:
            pieces = check_whole(reader, entry.size, entry.sha256.hex())
        return StoredFileStream(info, start, end, pieces, reader)

    def presign(self, entry: FileEntry, lifetime_s: int) -> str:
        """Returns a URL from which the bytes can be read; Invalid where there is none."""
        url = None
        if find_object_id(entry.address) is None:
            url = self.place.presign_get(BlockAddress(entry.address), lifetime_s)
        if url is None:
            raise Invalid("the bytes of this file have no URL of their own; read them from here")
        return url

    def sweep_unfinished(self, limit: int) -> int:
        """Removes uploads that nothing was added to for a day; returns how many.

        A place that was not used since the process began is left for later.
        """
        if self._opened is None:
            return 0
        before_us = self._context.clock.now_us() - GRACE_S * 1_000_000
        return self._opened.sweep_unfinished(before_us, limit)

    def _small(self, obj_id: ObjId, entry: FileEntry) -> bytes:
        (raw,) = self._context.objects.fetch_many([obj_id])
        data = decode_object(FileObject, raw).data
        if len(data) != entry.size:
            raise Corrupt(f"a file has {len(data)} bytes, its entry states {entry.size}", obj_id)
        return data


class _Closable(Protocol):
    def close(self) -> None:
        """Releases what is read from."""
        ...


class StoredFileStream:
    """The bytes of one read, in pieces (`model.files.FileStream`)."""

    def __init__(
        self,
        info: FileInfo,
        start: int,
        end: int,
        pieces: Iterable[bytes],
        source: _Closable | None = None,
    ) -> None:
        self.info = info
        self.start = start
        self.end = end
        self._pieces = iter(pieces)
        self._source = source

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def read(self) -> bytes:
        """Returns all bytes that are left."""
        return b"".join(self._pieces)

    def close(self) -> None:
        """Gives up the rest; idempotent."""
        if self._source is not None:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def find_bounds(wanted: ByteRange, size: int) -> tuple[int, int]:
    """Returns a range as [start, end) of a file; RangeNotSatisfiable if it begins behind it."""
    if wanted.last is not None:
        return max(0, size - wanted.last), size
    if wanted.start > size or (wanted.start == size and wanted.start > 0):
        raise RangeNotSatisfiable(
            f"the range begins at {wanted.start}, and the file has {size} bytes", size
        )
    return wanted.start, size if wanted.end is None else min(wanted.end, size)


def info_of(path: str, entry: FileEntry) -> FileInfo:
    """Returns a file as users see it."""
    return FileInfo(
        path=path,
        size=entry.size,
        etag=entry.etag,
        modified_us=entry.modified_us,
        sha256=entry.sha256.hex(),
        content_type=entry.content_type,
        metadata=entry.metadata,
        address=entry.address,
    )
