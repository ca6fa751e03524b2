"""Writes an answer in parts, no faster than its client reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from lochan.base.errors import Bug
from lochan.transport.body_streams import ResponseStream
from lochan.transport.error_boundary import attempt_async


class PartsWriter:
    """One answer that is being written; `done` is called with whether it was written whole.

    An answer whose source fails is not whole: the connection is cut, so that what has left does not
    look like all of it.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        stream: ResponseStream,
        *,
        chunked: bool,
        done: Callable[[bool], None],
    ) -> None:
        self._transport = transport
        self._stream = stream
        self._chunked = chunked and stream.length is None
        self._done = done
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    def pause(self) -> None:
        """Is called when the client reads more slowly than parts are made."""
        self._may_write.clear()

    def resume(self) -> None:
        """Is called when the client has caught up."""
        self._may_write.set()

    def cancel(self) -> None:
        """Stops: an answer without an end of its own is whole then."""
        self._task.cancel()

    @property
    def is_endless(self) -> bool:
        """Whether the answer has no end of its own."""
        return self._stream.endless

    async def _run(self) -> bool:
        try:
            whole = await attempt_async(self._write_all()) is None
        except asyncio.CancelledError:
            whole = self._stream.endless
        if whole and self._chunked and not self._transport.is_closing():
            self._transport.write(b"0\r\n\r\n")
        return whole

    def _ended(self, task: asyncio.Task[bool]) -> None:
        """Is called at the end, also if the client left before the first part was asked for."""
        self._stream.closed()
        self._done(not task.cancelled() and task.result())

    async def _write_all(self) -> None:
        length = self._stream.length
        sent = 0
        async with aclosing(self._stream.parts) as parts:
            async for part in parts:
                sent += len(part)
                if length is not None and sent > length:
                    raise Bug("an answer has more bytes than it has announced")
                if part:
                    self._write(part)
                    await self._may_write.wait()
                # A source that never waits must not keep the loop from other connections.
                await asyncio.sleep(0)
        if length is not None and sent < length:
            raise Bug("an answer has fewer bytes than it has announced")

    def _write(self, part: bytes) -> None:
        if self._chunked:
            self._transport.writelines((b"%x\r\n" % len(part), part, b"\r\n"))
        else:
            self._transport.write(part)
