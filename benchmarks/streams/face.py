"""A face that keeps bytes in files, and a stream of events, for the measurements of streams.

`PUT /bytes/{key}` stores, `GET /bytes/{key}` returns, in chunks with `?chunked=1`; `GET /zeros/{n}`
makes so many bytes up; `GET /events` follows and `POST /publish` publishes. It holds no more than a
piece of a body in memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from lochan.base.errors import LochanError, NotFound
from lochan.transport.body_streams import BodyStream, ResponseStream
from lochan.transport.exchange import Exchange, Request, Response, ResponseHeaders
from lochan.transport.problems import status_of
from lochan.transport.routes import Match, Route
from lochan.transport.server_sent_events import encode_event, follow

_PIECE_BYTES = 65_536
_BODY_BYTES_MAX = 1 << 40
_KEY = re.compile(rb"[a-z0-9-]+")
_BINARY = b"application/octet-stream"
_TEXT = b"text/plain"


class FileFace:
    """Bytes by key, each in a file of a folder; it is there when its last byte has come."""

    authentication = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events: list[bytes] = []
        self._published = asyncio.Event()
        self._uploads = 0
        self._routes = {
            (b"bytes", "PUT"): Route(
                "store", self.store, streams=True, body_bytes_max=_BODY_BYTES_MAX
            ),
            (b"bytes", "GET"): Route("load", self.load, streams=True),
            (b"zeros", "GET"): Route("zeros", self.zeros, streams=True),
            (b"events", "GET"): Route("events", self.events, streams=True),
            (b"publish", "POST"): Route("publish", self.publish),
        }

    def owns(self, request: Request) -> bool:
        word = request.path.split(b"/", 2)[1]
        return any(word == each for each, _ in self._routes)

    def match(self, request: Request) -> Match | Response:
        _, word, *rest = request.path.split(b"/", 2)
        key = rest[0] if rest else b"-"
        route = self._routes.get((word, request.method))
        if route is None or not _KEY.fullmatch(key):
            return self.refuse(request, 404, "nothing is served at this address")
        return Match(route, {"key": key.decode("ascii")})

    def problem(self, request: Request, error: LochanError) -> Response:
        return self.refuse(request, status_of(error), error.public_message)

    def refuse(
        self,
        request: Request,  # noqa: ARG002 - the protocol has it
        status: int,
        message: str,
        headers: ResponseHeaders = (),
    ) -> Response:
        return Response(status, message.encode(), headers, _TEXT)

    async def store(self, exchange: Exchange) -> Response:
        self._uploads += 1
        partly = self._folder / f"{self._uploads}.part"
        file = await exchange.run(partial(partly.open, "wb"))
        try:
            size = await _write(exchange, cast("BodyStream", exchange.request.stream), file)
        except BaseException:
            file.close()
            partly.unlink()
            raise
        file.close()
        partly.replace(self._folder / exchange.params["key"])
        return Response(201, str(size).encode(), (), _TEXT)

    async def load(self, exchange: Exchange) -> Response:
        path = self._folder / exchange.params["key"]
        if not await exchange.run(path.is_file):
            raise NotFound("there is no such key")
        file = await exchange.run(partial(path.open, "rb"))
        length = None if exchange.request.query.get("chunked") else path.stat().st_size
        stream = ResponseStream(_read(exchange, file), length, closed=file.close)
        return Response(200, b"", (), _BINARY, stream)

    async def zeros(self, exchange: Exchange) -> Response:
        count = int(exchange.params["key"])
        return Response(200, b"", (), _BINARY, ResponseStream(_zeros(count), count))

    async def events(self, exchange: Exchange) -> Response:  # noqa: ARG002 - all get the same
        return follow(self._follow(len(self._events)))

    def publish(self, exchange: Exchange) -> Response:
        self._events.append(encode_event(exchange.request.body.decode()))
        published, self._published = self._published, asyncio.Event()
        published.set()
        return Response(200, b"", (), _TEXT)

    async def _follow(self, at: int) -> AsyncGenerator[bytes, None]:
        while True:
            while at == len(self._events):
                await self._published.wait()
            yield self._events[at]
            at += 1


async def _write(exchange: Exchange, body: BodyStream, file: BinaryIO) -> int:
    """Writes a body as it comes, in threads; returns its size."""
    size, parts, held = 0, [], 0
    async for part in body:
        parts.append(part)
        held += len(part)
        if held >= _PIECE_BYTES:
            await exchange.run(partial(file.writelines, parts))
            size, parts, held = size + held, [], 0
    await exchange.run(partial(file.writelines, parts))
    return size + held


async def _read(exchange: Exchange, file: BinaryIO) -> AsyncGenerator[bytes, None]:
    while piece := await exchange.run(partial(file.read, _PIECE_BYTES)):
        yield piece


async def _zeros(count: int) -> AsyncGenerator[bytes, None]:
    piece = bytes(_PIECE_BYTES)
    while count > 0:
        yield piece[:count]
        count -= len(piece)
