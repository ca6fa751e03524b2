"""A face that stores and returns bytes, and a stream of events: for the tests of streams.

`PUT /b/{key}` stores, `GET /b/{key}` returns with conditions and ranges, `GET /b-zeros/{n}` makes
so many bytes up, `PUT /b-count` counts and forgets, `GET /b-events` follows, `POST /b-publish`
publishes. Keys may hold dots, empty segments and escapes, as files may.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from lochan.base.errors import Denied, LochanError, NotFound
from lochan.transport.body_streams import ResponseStream
from lochan.transport.conditions import select
from lochan.transport.exchange import Exchange, Request, Response, ResponseHeaders
from lochan.transport.problems import status_of
from lochan.transport.routes import Match, Route
from lochan.transport.server_sent_events import encode_event, follow

PIECE = bytes(65_536)
TEXT = b"text/plain"


class ByteFace:
    """Bytes by key, in memory."""

    authentication: Any = None

    def __init__(self, *, bytes_max: int = 1 << 40) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.failures: list[LochanError] = []
        self.followers: set[asyncio.Queue[bytes]] = set()
        self.routes = {
            b"b": Route("bytes", self.serve, streams=True, body_bytes_max=bytes_max),
            b"b-zeros": Route("zeros", self.zeros, streams=True),
            b"b-count": Route("count", self.count, streams=True, body_bytes_max=bytes_max),
            b"b-events": Route("events", self.events, streams=True),
            b"b-publish": Route("publish", self.publish),
            b"b-early": Route("early", self.early, streams=True, body_bytes_max=bytes_max),
            b"b-broken": Route("broken", self.broken, streams=True),
        }

    def owns(self, request: Request) -> bool:
        return request.path.split(b"/", 2)[1] in self.routes

    def match(self, request: Request) -> Match | Response:
        _, word, *rest = request.path.split(b"/", 2)
        return Match(self.routes[word], {"key": rest[0].decode("latin-1") if rest else ""})

    def problem(self, request: Request, error: LochanError) -> Response:
        return Response(status_of(error), b"problem: " + error.public_message.encode(), (), TEXT)

    def refuse(
        self, request: Request, status: int, message: str, headers: ResponseHeaders = ()
    ) -> Response:
        return Response(status, b"refused: " + message.encode(), headers, TEXT)

    async def serve(self, exchange: Exchange) -> Response:
        if exchange.request.method == "PUT":
            return await self._store(exchange)
        return await exchange.run(lambda: self._load(exchange))

    async def _store(self, exchange: Exchange) -> Response:
        assert exchange.request.stream is not None
        parts = []
        try:
            async for part in exchange.request.stream:
                parts.append(part)
        except LochanError as error:
            self.failures.append(error)
            raise
        self.stored[exchange.params["key"].encode("latin-1")] = b"".join(parts)
        return Response(201, b"", (), TEXT)

    def _load(self, exchange: Exchange) -> Response:
        raw = self.stored.get(exchange.params["key"].encode("latin-1"))
        if raw is None:
            raise NotFound("no such key")
        tag = hashlib.sha256(raw).hexdigest()[:16]
        chosen = select(exchange.request, tag, len(raw))
        if chosen.status not in (200, 206):
            return Response(chosen.status, b"", chosen.headers, TEXT)
        stream = ResponseStream(_pieces(raw[chosen.start : chosen.stop]), chosen.length)
        return Response(chosen.status, b"", chosen.headers, TEXT, stream)

    async def zeros(self, exchange: Exchange) -> Response:
        count = int(exchange.params["key"])
        length = None if exchange.request.query.get("chunked") else count
        return Response(200, b"", (), TEXT, ResponseStream(_zeros(count), length))

    async def count(self, exchange: Exchange) -> Response:
        assert exchange.request.stream is not None
        total = 0
        async for part in exchange.request.stream:
            total += len(part)
        return Response(200, str(total).encode(), (), TEXT)

    async def early(self, exchange: Exchange) -> Response:
        raise Denied("not read")

    async def broken(self, exchange: Exchange) -> Response:
        return Response(200, b"", (), TEXT, ResponseStream(_breaks(), 1_000_000))

    async def events(self, exchange: Exchange) -> Response:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.followers.add(queue)
        return follow(_followed(queue, lambda: self.followers.discard(queue)))

    def publish(self, exchange: Exchange) -> Response:
        for queue in self.followers:
            queue.put_nowait(encode_event(exchange.request.body.decode()))
        return Response(200, b"", (), TEXT)


async def _pieces(raw: bytes) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(raw), len(PIECE)):
        yield raw[at : at + len(PIECE)]


async def _zeros(count: int) -> AsyncGenerator[bytes, None]:
    while count > 0:
        yield PIECE[:count]
        count -= len(PIECE)


async def _breaks() -> AsyncGenerator[bytes, None]:
    yield PIECE
    raise RuntimeError("the source broke")


async def _followed(
    queue: asyncio.Queue[bytes], ended: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    try:
        yield b": hello\n\n"
        while True:
            yield await queue.get()
    finally:
        ended()
