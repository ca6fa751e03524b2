"""Bodies that are not held whole: what a client sends, read as it comes, and what is sent in parts.

A request's body ends only after its last byte. If the connection ends earlier, if it is malformed,
too long or too slow, the reader gets an error: a part of a body never looks like the whole.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec

from lochan.base.errors import LochanError
from lochan.base.limits.http import STREAM_BUFFER_BYTES


def _nothing() -> None:
    return None


class BodyStream:
    """The body of one request; read by one coroutine, on the loop.

    `wanted` is called when the reader waits for more or has made room for it.
    """

    def __init__(self, wanted: Callable[[], None]) -> None:
        self._wanted = wanted
        self._parts: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: LochanError | None = None
        self.buffered_bytes = 0
        self.is_read = False
        """Whether the handler has begun to read."""
        self.is_complete = False
        """Whether the last byte has come."""

    @property
    def is_full(self) -> bool:
        """Whether the connection should not read on for now."""
        return self.buffered_bytes >= STREAM_BUFFER_BYTES

    async def read(self) -> bytes:
        """Returns the next part, empty after the last; raises if the body will never be whole."""
        self.is_read = True
        while not self._parts and self._error is None and not self.is_complete:
            self._waiter = asyncio.get_running_loop().create_future()
            self._wanted()
            await self._waiter
        if self._error is not None:
            raise self._error
        if not self._parts:
            return b""
        part = self._parts.popleft()
        self.buffered_bytes -= len(part)
        self._wanted()
        return part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields all parts."""
        while part := await self.read():
            yield part

    def feed(self, part: bytes) -> None:
        """Takes what came; the connection calls it."""
        self._parts.append(part)
        self.buffered_bytes += len(part)
        self._wake()

    def complete(self) -> None:
        """Notes that the body is whole."""
        self.is_complete = True
        self._wake()

    def fail(self, error: LochanError) -> None:
        """Notes that the body will never be whole; nothing is changed after its end."""
        if not self.is_complete and self._error is None:
            self._error = error
            self._parts.clear()
            self.buffered_bytes = 0
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ResponseStream(msgspec.Struct, frozen=True):
    """The body of an answer in parts; without a length it is sent in chunks.

    `closed` is called once, when nothing of it will be used any more. For a HEAD request no part is
    asked for.
    """

    parts: AsyncGenerator[bytes, None]
    length: int | None = None
    endless: bool = False
    """Whether it has no end of its own: a server that stops ends it."""
    closed: Callable[[], None] = _nothing
