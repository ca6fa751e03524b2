"""The life of an upload, the same at every place: writes, then finished or aborted, once.

1. `write` counts and hashes the bytes, and refuses those beyond the stated size.
2. `finish` compares size and checksums before anything becomes visible, then publishes.
3. Whatever raises, in `write` or in `finish`, discards the upload first: there is no state in which
   an upload failed and could still be finished.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from lochan.base.errors import BytesDiffer, Invalid, StoreForked, TooLarge
from lochan.blocks.digests import Digests
from lochan.process import FORK_ADVICE, after_fork

_Stored = TypeVar("_Stored")


class Upload(ABC, Generic[_Stored]):
    """Bytes of a block or of a part on their way to a place."""

    def __init__(self, size: int | None, size_max: int) -> None:
        if size is not None and not 0 <= size <= size_max:
            raise TooLarge(f"{size} bytes are stated; the limit is {size_max}")
        self.size = size
        self.digests = Digests()
        self._size_max = size_max if size is None else size
        self._ended = ""
        self._forked = False
        # A child shares the position in the file, and its end must not remove its parent's file.
        after_fork(self, Upload._in_child)

    def write(self, piece: bytes | bytearray | memoryview) -> None:
        """Takes the next bytes; Invalid if they are more than the stated size."""
        self._check_open()
        view = memoryview(piece).cast("B")
        try:
            if self.digests.size + len(view) > self._size_max:
                self._refuse_more()
            self.digests.update(view)
            self._take(view)
        except BaseException:
            self.abort()
            raise

    def finish(self, *, sha256: str | None = None, md5: str | None = None) -> _Stored:
        """Compares, publishes, and returns what is durable now."""
        self._check_open()
        try:
            self.digests.check(self.size, sha256, md5)
            stored = self._publish()
        except BaseException:
            self.abort()
            raise
        self._ended = "finished"
        return stored

    def abort(self) -> None:
        """Discards what was written; idempotent, and harmless after `finish`."""
        if not self._ended and not self._forked:
            self._ended = "aborted"
            self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()

    @abstractmethod
    def _take(self, piece: memoryview) -> None:
        """Keeps the next bytes; the memory belongs to the caller and may change afterwards."""

    @abstractmethod
    def _publish(self) -> _Stored:
        """Makes the upload durable, then visible; raises where either is not certain."""

    @abstractmethod
    def _discard(self) -> None:
        """Removes what was written; raises nothing, because a sweep removes the rest."""

    def _abandon(self) -> None:
        """Gives up inherited descriptors in a forked process."""

    def _in_child(self) -> None:
        self._forked = True
        if not self._ended:
            self._abandon()

    def _check_open(self) -> None:
        if self._forked:
            raise StoreForked(
                f"this upload belongs to the process from which this one was forked; {FORK_ADVICE}"
            )
        if self._ended:
            raise Invalid(f"this upload was {self._ended} already")

    def _refuse_more(self) -> None:
        if self.size is None:
            raise TooLarge(f"more than {self._size_max} bytes came; nothing was stored")
        raise BytesDiffer(f"more than the stated {self.size} bytes came; nothing was stored")
