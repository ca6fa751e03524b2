"""Uploads to S3: small blocks by one request, larger ones in parts, never much in memory.

An object becomes visible by the last request only: the single put, or the completion of all parts.
S3 has stored it durably when it answers. A crash before leaves at most a multipart upload that the
sweep aborts; a lost answer of the last request at most an object that no entry names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lochan.base.errors import LochanError, NotFound, Unknown
from lochan.base.limits.blocks import (
    BLOCK_BUFFER_BYTES,
    BLOCK_BYTES_MAX,
    PART_BYTES_MAX,
    PART_NUMBER_MAX,
)
from lochan.base.ports import Clock
from lochan.blocks.s3.failures import unavailable
from lochan.blocks.s3.objects import S3Objects
from lochan.blocks.s3.spool import Spool
from lochan.blocks.uploads import Upload
from lochan.staging.block_store import BlockAddress, StoredBlock, StoredPart


def part_bytes(size: int | None) -> int:
    """Returns the size of parts: all equal, as some servers require, and at most 10,000."""
    if size is None:
        return BLOCK_BUFFER_BYTES
    return max(BLOCK_BUFFER_BYTES, -(-size // PART_NUMBER_MAX))


def size_max(size: int | None) -> int:
    """Returns how large a block may become: 78 GiB if its size is not known in advance."""
    return BLOCK_BYTES_MAX if size is not None else BLOCK_BUFFER_BYTES * PART_NUMBER_MAX


@contextmanager
def _to_be_begun_again() -> Iterator[None]:
    """Makes every doubt Unavailable: no entry names the address, so what S3 has is garbage."""
    try:
        yield
    except (NotFound, Unknown) as error:
        raise unavailable(f"the upload was not completed: {error.message}") from error


class S3Upload(Upload[StoredBlock]):
    """A block on its way to S3."""

    def __init__(
        self, objects: S3Objects, key: str, address: BlockAddress, size: int | None
    ) -> None:
        super().__init__(size, size_max(size))
        self._objects = objects
        self._key = key
        self._address = address
        self._part_bytes = part_bytes(size)
        self._spool = Spool()
        self._multipart = ""
        self._parts: list[StoredPart] = []
        self._sent_last = False

    def _take(self, piece: memoryview) -> None:
        rest = piece
        while rest:
            # A full part is sent when more follows, so that one of exactly this size is one put.
            if self._spool.size == self._part_bytes:
                self._send_part()
            taken = rest[: self._part_bytes - self._spool.size]
            self._spool.write(taken)
            rest = rest[len(taken) :]

    def _publish(self) -> StoredBlock:
        if self._multipart:
            self._send_part()
            self._sent_last = True
            with _to_be_begun_again():
                self._objects.complete(self._key, self._multipart, self._parts)
        else:
            self._sent_last = True
            self._objects.put(self._key, self._spool)
        self._spool.close()
        digests = self.digests
        return StoredBlock(self._address, digests.size, digests.sha256, digests.md5)

    def _send_part(self) -> None:
        if not self._multipart:
            self._multipart = self._objects.begin_multipart(self._key)
        number = len(self._parts) + 1
        spool = self._spool
        with _to_be_begun_again():
            etag = self._objects.put_part(self._key, self._multipart, number, spool)
        self._parts.append(StoredPart(number, spool.size, etag, 0))
        spool.close()
        self._spool = Spool()

    def _discard(self) -> None:
        self._spool.close()
        # S3 may not answer now either; then the sweep and the collector remove what is there.
        if self._multipart:
            with suppress(LochanError):
                self._objects.abort(self._key, self._multipart)
        if self._sent_last:
            with suppress(LochanError):
                self._objects.delete(self._key)


class S3Part(Upload[StoredPart]):
    """A part of a client's multipart upload on its way to S3."""

    def __init__(
        self, objects: S3Objects, key: str, upload: str, number: int, size: int | None, clock: Clock
    ) -> None:
        super().__init__(size, PART_BYTES_MAX)
        self._objects = objects
        self._key = key
        self._multipart = upload
        self._number = number
        self._clock = clock
        self._spool = Spool()

    def _take(self, piece: memoryview) -> None:
        self._spool.write(piece)

    def _publish(self) -> StoredPart:
        etag = self._objects.put_part(self._key, self._multipart, self._number, self._spool)
        self._spool.close()
        return StoredPart(self._number, self.digests.size, etag, self._clock.now_us())

    def _discard(self) -> None:
        self._spool.close()
