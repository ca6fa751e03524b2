"""Streams of events as a client reads them: one connection after another, as if it were one.

`token` is the position behind the last event that was returned: a stream that is opened with it, by
this client or by another, goes on there. It moves without events, too, so that a stream through a
narrow filter does not read history again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, Self

import httpx
import msgspec

from lochan.base.errors import (
    Corrupt,
    Exhausted,
    Invalid,
    LochanError,
    Unavailable,
    Unknown,
)
from lochan.base.limits.client import (
    CLIENT_PAUSE_FIRST_MS,
    EVENT_MESSAGE_BYTES_MAX,
    EVENT_RECONNECT_PAUSE_MAX_S,
    EVENT_RECONNECTS_MAX,
)
from lochan.client.failures import error_of
from lochan.client.flows.events import FollowRequest, http_request, open_stream
from lochan.client.messages import Flow, HttpReply
from lochan.model.events import Event
from lochan.wire.events import event_in
from lochan.wire.problems import ErrorJson

_PROBLEM: Final = b"problem"
_END: Final = b"\n\n"

# A stream that ends for these may be opened again.
_PASSING: Final = (Unavailable, Unknown, Exhausted)


class StreamMessage(msgspec.Struct, frozen=True, gc=False):
    """One message: empty fields are those that it does not have."""

    event: bytes
    id: str
    data: bytes


class MessageParser:
    """Cuts the bytes of a stream into messages; comments are left out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[StreamMessage]:
        """Takes bytes as they came; yields the messages that are whole."""
        *whole, self._rest = (self._rest + piece).split(_END)
        if len(self._rest) > EVENT_MESSAGE_BYTES_MAX:
            raise Corrupt("the server sent a message without an end")
        for block in whole:
            fields: dict[bytes, bytes] = {}
            for line in block.split(b"\n"):
                name, _, value = line.partition(b": ")
                if name in fields and name == b"data":
                    value = fields[name] + b"\n" + value
                fields[name] = value
            found = fields.get(b"id", b"").decode("ascii", "replace")
            yield StreamMessage(fields.get(b"event", b""), found, fields.get(b"data", b""))


class _Progress:
    """How far a stream is, and how often it may be opened again; without IO."""

    def __init__(self, request: FollowRequest, token: str) -> None:
        self.request = request
        self.token = token
        self._parser = MessageParser()
        self._waiting: deque[StreamMessage] = deque()
        self._failures = 0
        self._is_closed = False

    def opening(self) -> Flow[httpx.Response]:
        """Returns the flow that opens the stream, or goes on with it."""
        self._parser = MessageParser()
        self._waiting.clear()
        return open_stream(self.request, self.token)

    def feed(self, piece: bytes) -> None:
        """Takes what was read."""
        self._waiting += self._parser.feed(piece)

    def take(self) -> Event | None:
        """Returns the next event that has come whole, None if there is none; moves the token.

        Raises what the server reports at the end of a stream.
        """
        while self._waiting:
            message = self._waiting.popleft()
            if message.event == _PROBLEM:
                raise self._error(message)
            self._failures = 0
            if message.id:
                self.token = message.id
            if message.data:
                try:
                    return event_in(msgspec.json.decode(message.data))
                except (msgspec.DecodeError, Invalid) as error:
                    text = f"the server sent an event that cannot be read: {error}"
                    raise Corrupt(text) from None
        return None

    def pause_s(self, error: Exception | None) -> float:
        """Returns the pause before the next attempt; raises if there were too many failures."""
        self._failures += 1
        if self._failures > EVENT_RECONNECTS_MAX:
            if isinstance(error, LochanError):
                raise error
            reason = str(error) or type(error).__name__
            raise Unavailable(f"the stream of events broke again and again: {reason}") from error
        doubled: float = CLIENT_PAUSE_FIRST_MS / 1_000 * 2 ** min(self._failures - 1, 10)
        return min(doubled, EVENT_RECONNECT_PAUSE_MAX_S)

    def _error(self, message: StreamMessage) -> LochanError:
        try:
            status = msgspec.json.decode(message.data, type=ErrorJson).status
        except (msgspec.DecodeError, UnicodeDecodeError):
            status = 500
        reply = HttpReply(status, message.data, {})
        return error_of(http_request(self.request, self.token), reply)


class EventStream(_Progress):
    """The events of the blocking client; iterate, and close it."""

    def __init__(
        self,
        request: FollowRequest,
        token: str,
        run: Callable[[Flow[httpx.Response]], httpx.Response],
        sleep: Callable[[float], None],
    ) -> None:
        super().__init__(request, token)
        self._run = run
        self._sleep = sleep
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Returns the next event; waits for it."""
        while not self._is_closed:
            try:
                event = self.take()
                if event is not None:
                    return event
                self._read()
            except _PASSING as error:
                self._drop()
                self._sleep(self.pause_s(error))
            except httpx.RequestError as error:
                self._drop()
                self._sleep(self.pause_s(error))
        raise StopIteration

    def _read(self) -> None:
        """Reads the next bytes, from a new connection if there is none."""
        if self._response is None:
            self._response = self._run(self.opening())
            self._pieces = self._response.iter_raw()
        piece = next(self._pieces, b"")
        if piece:
            self.feed(piece)
            return
        self._drop()
        if not self.request.follow:
            self._is_closed = True
            return
        # The server has stopped, or this client was too slow: both go on from the token.
        self._sleep(self.pause_s(None))

    def _drop(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def end(self) -> None:
        """Lets the iterator end when the next bytes have come; for any thread."""
        self._is_closed = True

    def close(self) -> None:
        """Ends the stream; idempotent."""
        self._is_closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream(_Progress):
    """The events of the asynchronous client: the same, awaited."""

    def __init__(
        self,
        request: FollowRequest,
        token: str,
        run: Callable[[Flow[httpx.Response]], Awaitable[httpx.Response]],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        super().__init__(request, token)
        self._run = run
        self._sleep = sleep
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Returns the next event; waits for it."""
        while not self._is_closed:
            try:
                event = self.take()
                if event is not None:
                    return event
                await self._read()
            except _PASSING as error:
                await self._drop()
                await self._sleep(self.pause_s(error))
            except httpx.RequestError as error:
                await self._drop()
                await self._sleep(self.pause_s(error))
        raise StopAsyncIteration

    async def _read(self) -> None:
        if self._response is None or self._pieces is None:
            self._response = await self._run(self.opening())
            self._pieces = self._response.aiter_raw()
        piece = await anext(self._pieces, b"")
        if piece:
            self.feed(piece)
            return
        await self._drop()
        if not self.request.follow:
            self._is_closed = True
            return
        await self._sleep(self.pause_s(None))

    async def _drop(self) -> None:
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            await response.aclose()

    async def close(self) -> None:
        """Ends the stream; idempotent."""
        self._is_closed = True
        await self._drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
