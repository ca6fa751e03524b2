"""The bytes of a file as a client reads them: in pieces, from one response after another.

A stream ends only after its last byte. If the connection breaks before, the stream asks for the
rest, on condition that the file still has the same ETag; if that is not possible, it raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import BinaryIO, Self

import httpx

from lochan.base.errors import ConditionFailed, Conflict, Unavailable
from lochan.base.limits.client import CLIENT_ATTEMPTS_MAX
from lochan.model.files import FileInfo


class OpenedFile:
    """A response whose body is the bytes [start, end) of a file; read it once and close it."""

    def __init__(self, info: FileInfo, start: int, end: int, response: httpx.Response) -> None:
        self.info = info
        self.start = start
        self.end = end
        self.response = response

    def __iter__(self) -> Iterator[bytes]:
        return self.response.iter_raw()

    def read(self) -> bytes:
        """Returns all bytes."""
        return b"".join(self)

    def close(self) -> None:
        """Gives up the rest."""
        self.response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Progress:
    """How far a stream is: what it reads, where it is, and how often it may begin again."""

    def __init__(self, opened: OpenedFile) -> None:
        self.info = opened.info
        self.start = opened.start
        self.end = opened.end
        self._at = opened.start
        self._failures = 0

    @property
    def is_complete(self) -> bool:
        """Whether the last byte was read."""
        return self._at >= self.end

    def advance(self, piece: bytes) -> bytes:
        """Takes a piece that was read."""
        self._at += len(piece)
        self._failures = 0
        return piece

    def rest(self, error: Exception) -> tuple[int, int]:
        """Returns the range that is left after a failure; raises if there were too many."""
        self._failures += 1
        if self._failures >= CLIENT_ATTEMPTS_MAX or not self.info.etag:
            raise Unavailable(
                f"{self.info.path!r} could not be read to its end: {error}"
            ) from error
        return self._at, self.end


def changed_meanwhile(info: FileInfo) -> Conflict:
    """Returns the error for a file that was replaced while it was read."""
    return Conflict(
        f"{info.path!r} was replaced while it was read; read it again, or read it at a commit"
    )


class ResumedFileStream(_Progress):
    """The stream of the blocking client; `again` opens the rest [start, end) of the same file."""

    def __init__(self, opened: OpenedFile, again: Callable[[int, int], OpenedFile]) -> None:
        super().__init__(opened)
        self._opened = opened
        self._again = again
        self._pieces = iter(opened)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Returns the next piece, which is not empty."""
        while not self.is_complete:
            try:
                piece = next(self._pieces, b"")
            except httpx.RequestError as error:
                self._open_rest(error)
                continue
            if piece:
                return self.advance(piece)
            self._open_rest(httpx.ReadError("the response ended early"))
        self.close()
        raise StopIteration

    def read(self) -> bytes:
        """Returns all bytes that are left, and closes the stream."""
        with self:
            return b"".join(self)

    def write_to(self, file: BinaryIO) -> int:
        """Writes all bytes that are left into a file, and closes the stream; returns how many."""
        written = 0
        with self:
            for piece in self:
                file.write(piece)
                written += len(piece)
        return written

    def close(self) -> None:
        """Gives up the rest; idempotent."""
        self._opened.response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_rest(self, error: Exception) -> None:
        start, end = self.rest(error)
        self._opened.response.close()
        try:
            self._opened = self._again(start, end)
        except ConditionFailed:
            raise changed_meanwhile(self.info) from None
        self._pieces = iter(self._opened)


class AsyncFileStream(_Progress):
    """The stream of the asynchronous client: the same, awaited."""

    def __init__(
        self, opened: OpenedFile, again: Callable[[int, int], Awaitable[OpenedFile]]
    ) -> None:
        super().__init__(opened)
        self._opened = opened
        self._again = again
        self._pieces = opened.response.aiter_raw()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Returns the next piece, which is not empty."""
        while not self.is_complete:
            try:
                piece = await anext(self._pieces, b"")
            except httpx.RequestError as error:
                await self._open_rest(error)
                continue
            if piece:
                return self.advance(piece)
            await self._open_rest(httpx.ReadError("the response ended early"))
        await self.close()
        raise StopAsyncIteration

    async def read(self) -> bytes:
        """Returns all bytes that are left, and closes the stream."""
        async with self:
            return b"".join([piece async for piece in self])

    async def write_to(self, file: BinaryIO) -> int:
        """Writes all bytes that are left into a file, and closes the stream; returns how many."""
        written = 0
        async with self:
            async for piece in self:
                file.write(piece)
                written += len(piece)
        return written

    async def close(self) -> None:
        """Gives up the rest; idempotent."""
        await self._opened.response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open_rest(self, error: Exception) -> None:
        start, end = self.rest(error)
        await self._opened.response.aclose()
        try:
            self._opened = await self._again(start, end)
        except ConditionFailed:
            raise changed_meanwhile(self.info) from None
        self._pieces = self._opened.response.aiter_raw()
