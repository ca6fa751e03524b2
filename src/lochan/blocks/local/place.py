"""A directory as a place for object data; see `staging/block_store.py` for what it promises.

    ROOT/objects/ab3/…      blocks, 29 digits in one of 4,096 directories
    ROOT/uploads/….block    blocks that are being written
    ROOT/uploads/…/         multipart uploads

Several processes may share it, if its file system has the semantics of POSIX.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lochan.base.checks import check
from lochan.base.errors import Corrupt, Invalid, InvalidUrl, NotFound
from lochan.base.limits.blocks import BLOCK_PAGE_MAX
from lochan.blocks.local.failures import failure
from lochan.blocks.local.folders import (
    DIRECTORY,
    DIRECTORY_MODE,
    Folder,
    create,
    find_status,
    is_directory,
    is_file,
    names_in,
)
from lochan.blocks.local.foreign import ForeignFiles
from lochan.blocks.local.multipart import ID, Multiparts
from lochan.blocks.local.objects import LocalObjects, etag_of
from lochan.blocks.local.reader import FileReader
from lochan.blocks.local.uploads import LocalUpload
from lochan.staging.block_store import (
    ADDRESS_BYTES,
    BlockAddress,
    BlockInfo,
    BlockUpload,
    ChosenPart,
    ForeignPage,
    MultipartId,
    PartUpload,
    PlaceOptions,
    PresignedParts,
    PresignedPut,
    StoredBlock,
    StoredPart,
    build_address,
    changed_import,
    check_range,
    is_foreign,
    is_own,
)

_UPLOAD: Final = re.compile(r"[0-9a-f]{32}\.block\Z")


class LocalBlocks:
    """Blocks in a directory."""

    signs_urls = False

    def __init__(self, root: Path, options: PlaceOptions) -> None:
        self._random = options.random
        self._foreign = ForeignFiles(options.imports)
        self._root, self._objects_folder, self._uploads = _open_root(root)
        self._objects = LocalObjects(self._objects_folder)
        self._multiparts = Multiparts(self._uploads, self._objects)

    def begin(self, *, size: int | None = None) -> BlockUpload:
        """Begins a block under a temporary name."""
        address = build_address(self._random.random_bytes(ADDRESS_BYTES))
        with _failures("beginning an upload"):
            return LocalUpload(self._uploads.number, self._objects, address, size)

    def read(
        self, address: BlockAddress, start: int, end: int, *, size: int, etag: str = ""
    ) -> FileReader:
        """Reads [start, end) of a file that must have this size."""
        check_range(start, end, size)
        foreign = _check_address(address)
        what = f"the file {address}" if foreign else f"the block {address}"
        with _failures(f"opening {what}"):
            try:
                number = self._foreign.open(address) if foreign else self._objects.open(address)
            except FileNotFoundError as error:
                if foreign:
                    raise NotFound(f"{what} no longer exists") from error
                raise Corrupt(f"{what} is missing", missing=True) from error
            reader = FileReader(number, what, start, end)
            status = os.fstat(number)
        if status.st_size != size:
            reader.close()
            text = f"{what} has {status.st_size} bytes, its entry states {size}"
            raise changed_import(text) if foreign else Corrupt(text)
        if foreign:
            check(bool(etag), "the etag of a foreign object is stated")
            if etag_of(status) != etag:
                reader.close()
                raise changed_import(f"{what} was changed after it was imported")
        return reader

    def find(self, address: BlockAddress) -> BlockInfo | None:
        """Returns size, etag and time, or None."""
        with _failures(f"looking for {address}"):
            if _check_address(address):
                return self._foreign.find(address)
            return self._objects.find(address)

    def delete(self, address: BlockAddress) -> None:
        """Removes a block; idempotent."""
        if _check_address(address):
            raise Invalid("a foreign object is not deleted")
        with _failures(f"deleting {address}"):
            self._objects.delete(address)

    def iterate(self, after: str = "") -> Iterator[BlockInfo]:
        """Yields blocks in the order of their addresses."""
        return self._objects.iterate(after)

    def begin_multipart(self) -> MultipartId:
        """Begins an upload in parts."""
        with _failures("beginning a multipart upload"):
            return self._multiparts.begin(self._random.random_bytes(ADDRESS_BYTES).hex())

    def begin_part(
        self, upload: MultipartId, number: int, *, size: int | None = None
    ) -> PartUpload:
        """Begins a part under a temporary name."""
        suffix = self._random.random_bytes(ADDRESS_BYTES).hex()
        return self._multiparts.begin_part(upload, number, suffix, size)

    def list_parts(self, upload: MultipartId, after: int = 0) -> Sequence[StoredPart]:
        """Returns a page of finished parts."""
        return self._multiparts.list_parts(upload, after)

    def complete_multipart(self, upload: MultipartId, parts: Sequence[ChosenPart]) -> StoredBlock:
        """Joins the chosen parts; their SHA-256 is computed on the way."""
        return self._multiparts.complete(upload, parts)

    def abort_multipart(self, upload: MultipartId) -> None:
        """Removes the parts; idempotent."""
        with _failures("aborting a multipart upload"):
            self._multiparts.abort(upload)

    def sweep_unfinished(self, before_us: int, limit: int = BLOCK_PAGE_MAX) -> int:
        """Removes uploads to which nothing was written since `before_us`."""
        removed = 0
        with _failures("sweeping unfinished uploads"):
            for name in names_in(self._uploads.number):
                if removed == limit:
                    break
                with suppress(FileNotFoundError):
                    removed += self._sweep(name, before_us)
        return removed

    def presign_get(self, address: BlockAddress, lifetime_s: int) -> str | None:  # noqa: ARG002
        """Returns None: a directory serves no URLs."""
        return None

    def presign_put(self, lifetime_s: int) -> PresignedPut | None:  # noqa: ARG002
        """Returns None: a directory serves no URLs."""
        return None

    def presign_parts(
        self,
        upload: MultipartId,  # noqa: ARG002 - the protocol has them
        numbers: Sequence[int],  # noqa: ARG002
        lifetime_s: int,  # noqa: ARG002
    ) -> PresignedParts | None:
        """Returns None: a directory has no URLs."""
        return None

    def list_foreign(
        self, prefix: str, after: str = "", limit: int = BLOCK_PAGE_MAX
    ) -> ForeignPage:
        """Lists files below an allowed directory."""
        return self._foreign.list_below(prefix, after, min(limit, BLOCK_PAGE_MAX))

    def close(self) -> None:
        """Releases the directories; idempotent."""
        for folder in (self._root, self._objects_folder, self._uploads):
            folder.close()

    def _sweep(self, name: str, before_us: int) -> bool:
        uploads = self._uploads.number
        status = find_status(name, uploads)
        if _UPLOAD.match(name) and is_file(status):
            if status is not None and status.st_mtime_ns // 1_000 < before_us:
                os.unlink(name, dir_fd=uploads)
                return True
        elif ID.match(name) and is_directory(status):
            if self._multiparts.last_change_us(name) < before_us:
                return self._multiparts.remove(name)
        return False


def _open_root(root: Path) -> tuple[Folder, Folder, Folder]:
    """Opens the three directories, and creates those that are missing."""
    if not root.parent.is_dir():
        raise InvalidUrl(f"the directory {root.parent} does not exist; create it first")
    with _failures(f"opening {root}"):
        with suppress(FileExistsError):
            root.mkdir(DIRECTORY_MODE)
        # The root itself may be a link of the operator's; nothing below it may be one.
        try:
            top = Folder(os.open(root, DIRECTORY & ~os.O_NOFOLLOW))
        except NotADirectoryError as error:
            raise InvalidUrl(f"{root} is a file; blocks are kept in a directory") from error
        folders = []
        for name in ("objects", "uploads"):
            create(name, top.number)
            try:
                folders.append(Folder(os.open(name, DIRECTORY, dir_fd=top.number)))
            except NotADirectoryError as error:
                raise InvalidUrl(f"{root / name} is a link or a file, not a directory") from error
    return top, folders[0], folders[1]


def _check_address(address: str) -> bool:
    """Returns whether an address is foreign; Invalid if it is none at all."""
    if is_own(address):
        return False
    if is_foreign(address):
        return True
    raise Invalid(f"{address[:80]!r} is not the address of a block")


@contextmanager
def _failures(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise failure(error, what) from error
