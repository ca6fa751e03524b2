"""One kept HTTP/1.1 connection with one request under way, read without a parser's overhead.

The generator shares two cores with the server it measures, so a reply costs it as little as
possible: a reply that arrives whole and has its length is cut out of the received bytes.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import urlsplit

Replied = Callable[[int, bytes], None]
Lost = Callable[[Exception | None], None]

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_CHUNKED = b"\r\ntransfer-encoding: chunked"
_JSON = "Content-Type: application/json\r\n"


class Malformed(Exception):
    """A reply that no client could read."""


class Replies:
    """Cuts replies out of a stream of bytes; one at a time, because one request is under way."""

    def __init__(self) -> None:
        self._pending = b""
        self._parts: list[bytes] = []
        self._missing = 0

    def feed(self, data: bytes) -> tuple[int, bytes] | None:
        """Returns status and body when the reply is complete, None while more must come."""
        if self._missing > len(data):
            # Joined once, at its end: a long reply must not hold up the clients beside it.
            self._parts.append(data)
            self._missing -= len(data)
            return None
        if self._parts:
            data = b"".join([*self._parts, data])
            self._parts, self._missing = [], 0
        elif self._pending:
            data = self._pending + data
        end = data.find(_END_OF_HEAD)
        if end < 0:
            self._pending = data
            return None
        status = int(data[9:12])
        head = data[:end].lower()
        start = end + len(_END_OF_HEAD)
        at = head.find(_LENGTH)
        if at >= 0:
            at += len(_LENGTH)
            stop = head.find(b"\r\n", at)
            total = start + int(head[at : stop if stop >= 0 else end])
            if len(data) < total:
                self._parts, self._missing = [data], total - len(data)
                return None
            return self._whole(status, data[start:total], len(data) - total)
        if _CHUNKED not in head:
            return self._whole(status, b"", len(data) - start)
        joined = join_chunks(data, start)
        if joined is None:
            self._pending = data
            return None
        body, stop = joined
        return self._whole(status, body, len(data) - stop)

    def _whole(self, status: int, body: bytes, surplus: int) -> tuple[int, bytes]:
        if surplus:
            raise Malformed(f"{surplus} bytes after a reply to the only request")
        self._pending = b""
        return status, body


def join_chunks(data: bytes, start: int) -> tuple[bytes, int] | None:
    """Returns the body of a chunked reply and where it ends, None while it is incomplete."""
    parts = []
    while True:
        line = data.find(b"\r\n", start)
        if line < 0:
            return None
        size = int(data[start:line].partition(b";")[0], 16)
        begin, end = line + 2, line + 2 + size
        if len(data) < end + 2:
            return None
        if data[end : end + 2] != b"\r\n":
            raise Malformed("a chunk does not end at its stated length, or trailers follow")
        if not size:
            return b"".join(parts), end + 2
        parts.append(data[begin:end])
        start = end + 2


class Connection(asyncio.Protocol):
    """Sends raw requests; calls back with each reply, and once when the connection is lost."""

    def __init__(self, replied: Replied, lost: Lost) -> None:
        self._feed = Replies().feed
        self._replied = replied
        self._lost = lost
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def send(self, request: bytes) -> None:
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        found = self._feed(data)
        if found is not None:
            self._replied(*found)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(exc)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Requests:
    """Builds raw requests to one server."""

    def __init__(
        self, address: str, prefix: str = "/api/v2", token: str = "", *, basic: str = ""
    ) -> None:
        parts = urlsplit(address)
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"{address!r} is no http://HOST:PORT")
        self.host, self.port = parts.hostname, parts.port
        self._prefix = prefix
        self._fixed = (
            f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
            "Nessie-Client-Spec: 2\r\n"
        )
        if token:
            self._fixed += f"Authorization: Bearer {token}\r\n"
        if basic:
            self._fixed += f"Authorization: Basic {b64encode(basic.encode()).decode()}\r\n"

    def get(self, path: str) -> bytes:
        return f"GET {self._prefix}{path}{self._fixed}\r\n".encode()

    def post(self, path: str, body: bytes, more: str = _JSON) -> bytes:
        return self._with_body("POST", path, body, more)

    def put(self, path: str, body: bytes, more: str = _JSON) -> bytes:
        return self._with_body("PUT", path, body, more)

    def _with_body(self, method: str, path: str, body: bytes, more: str) -> bytes:
        """Returns a request; `more` are further headers, each with the end of its line."""
        head = f"{method} {self._prefix}{path}{self._fixed}{more}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def connect(self, replied: Replied, lost: Lost) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(replied, lost), self.host, self.port
        )
        return connection
