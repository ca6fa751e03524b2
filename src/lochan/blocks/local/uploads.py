"""Uploads into files: written under a temporary name, synchronised, then renamed."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from lochan.base.errors import NotFound, Unavailable
from lochan.base.limits.blocks import BLOCK_BYTES_MAX, PART_BYTES_MAX
from lochan.blocks.local.failures import failure
from lochan.blocks.local.folders import CREATE, FILE_MODE, write_all
from lochan.blocks.local.objects import LocalObjects
from lochan.blocks.uploads import Upload
from lochan.process import Descriptor
from lochan.staging.block_store import BlockAddress, StoredBlock, StoredPart

_Stored = TypeVar("_Stored")


class FileUpload(Upload[_Stored]):
    """Bytes that go into a new file of a directory; it is removed unless it is published.

    The directory stays open for as long as the upload lasts.
    """

    def __init__(self, directory: int, name: str, size: int | None, size_max: int) -> None:
        self._descriptors: tuple[Descriptor, ...] = ()
        super().__init__(size, size_max)
        self._name = name
        self._directory = os.dup(directory)
        try:
            self._file = os.open(name, CREATE, FILE_MODE, dir_fd=self._directory)
        except BaseException:
            os.close(self._directory)
            raise
        self._descriptors = (Descriptor(self._file), Descriptor(self._directory))

    def _take(self, piece: memoryview) -> None:
        try:
            write_all(self._file, piece)
        except OSError as error:
            raise failure(error, "writing an upload") from error

    def _publish(self) -> _Stored:
        try:
            self._seal()
            # Never again after it failed: the kernel may have dropped the bytes and report success.
            os.fsync(self._file)
            stored = self._rename()
        except FileNotFoundError as error:
            raise Unavailable("the upload was removed before it was finished") from error
        except OSError as error:
            raise failure(error, "storing an upload") from error
        self._close()
        return stored

    def _seal(self) -> None:
        """Adds what belongs after the bytes."""

    @abstractmethod
    def _rename(self) -> _Stored:
        """Gives the synchronised file its name, durably."""

    def _discard(self) -> None:
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._directory)
        self._close()

    def _close(self) -> None:
        os.close(self._file)
        os.close(self._directory)

    def _abandon(self) -> None:
        for descriptor in self._descriptors:
            descriptor.abandon()


class LocalUpload(FileUpload[StoredBlock]):
    """A block on its way into a directory."""

    def __init__(
        self, uploads: int, objects: LocalObjects, address: BlockAddress, size: int | None
    ) -> None:
        super().__init__(uploads, f"{address.replace('/', '')}.block", size, BLOCK_BYTES_MAX)
        self._objects = objects
        self._address = address

    def _rename(self) -> StoredBlock:
        self._objects.adopt(self._name, self._directory, self._address)
        digests = self.digests
        return StoredBlock(self._address, digests.size, digests.sha256, digests.md5)


class LocalPart(FileUpload[StoredPart]):
    """A part on its way into the directory of its multipart upload.

    The file of a part ends with the MD5 of its bytes, so that one rename replaces both.
    """

    def __init__(
        self, directory: int, name: str, number: int, size: int | None, is_over: Callable[[], bool]
    ) -> None:
        super().__init__(directory, name, size, PART_BYTES_MAX)
        self._part = number
        self._is_over = is_over

    def _seal(self) -> None:
        write_all(self._file, memoryview(self.digests.md5_bytes))

    def _rename(self) -> StoredPart:
        if self._is_over():
            raise NotFound("the multipart upload has ended")
        final = part_name(self._part)
        os.rename(self._name, final, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        os.fsync(self._directory)
        status = os.fstat(self._file)
        modified_us = status.st_mtime_ns // 1_000
        return StoredPart(self._part, self.digests.size, self.digests.md5, modified_us)


def part_name(number: int) -> str:
    """Returns the name of the file of a finished part."""
    return f"{number:05d}"
