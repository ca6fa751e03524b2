"""One HTTP request to an address that was checked: bounded in time and size, no redirects.

The deadline holds for the request as a whole, however slowly bytes come. As soon as the head of the
answer is there, its status counts; the rest is read only so that the receiver can finish.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from time import monotonic
from typing import Final

import httptools
import msgspec

from lochan.base.limits.events import WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_HEAD_BYTES_MAX

_READ_BYTES: Final = 16_384


class Deadline:
    """The end of a request."""

    def __init__(self, timeout_ms: float) -> None:
        self._end_s = monotonic() + timeout_ms / 1_000

    def left_s(self) -> float:
        """Returns how much time is left, in seconds; TimeoutError if there is none."""
        left_s = self._end_s - monotonic()
        if left_s <= 0:
            raise TimeoutError("the receiver did not answer in time")
        return left_s


class BadAnswer(OSError):
    """The answer is no HTTP, or its head is too large."""


class Answer(msgspec.Struct, frozen=True):
    """The status of an answer, and the header `retry-after`."""

    status: int
    retry_after: str = ""


class _Answer:
    """Reads an answer; has the methods that the parser calls."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._size = 0
        self._retry_after = ""
        self._is_whole = False
        self.answer: Answer | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        # Interim answers (1xx) come before the one that counts.
        if self._parser.get_status_code() >= 200:
            self.answer = Answer(self._parser.get_status_code(), self._retry_after)

    def on_message_complete(self) -> None:
        self._is_whole = self.answer is not None

    def feed(self, raw: bytes) -> bool:
        """Takes bytes; returns whether more are wanted."""
        if not raw:
            if self.answer is None:
                raise BadAnswer("the receiver closed the connection without an answer")
            return False
        self._size += len(raw)
        try:
            self._parser.feed_data(raw)
        except httptools.HttpParserError:
            if self.answer is None:
                raise BadAnswer("the receiver does not answer in HTTP") from None
            return False
        if self.answer is None and self._size > WEBHOOK_HEAD_BYTES_MAX:
            raise BadAnswer(f"the head of the answer has more than {WEBHOOK_HEAD_BYTES_MAX} bytes")
        return not self._is_whole and self._size <= WEBHOOK_ANSWER_BYTES_MAX


def connect(
    address: str, port: int, host: str, tls: ssl.SSLContext | None, deadline: Deadline
) -> socket.socket:
    """Connects to exactly this address; its certificate has to be that of the host."""
    plain = socket.create_connection((address, port), timeout=deadline.left_s())
    try:
        # The request is sent in one or two pieces, and nothing follows them.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return plain
        plain.settimeout(deadline.left_s())
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def exchange(connection: socket.socket, request: bytes, deadline: Deadline) -> Answer:
    """Sends a request and returns the answer; OSError if there is none in time."""
    with closing(connection):
        view = memoryview(request)
        try:
            while view:
                connection.settimeout(deadline.left_s())
                view = view[connection.send(view) :]
        except (BrokenPipeError, ConnectionResetError):
            # A receiver may answer before it has read everything: its refusal is read below.
            pass
        reader = _Answer()
        try:
            while True:
                connection.settimeout(deadline.left_s())
                if not reader.feed(connection.recv(_READ_BYTES)):
                    break
        except OSError:
            if reader.answer is None:
                raise
        if reader.answer is None:
            raise BadAnswer("the answer has no end")
        return reader.answer


def request_bytes(path: str, host: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Returns the bytes of a POST on a connection that ends with it."""
    lines = [f"POST {path} HTTP/1.1", f"host: {host}", "user-agent: lochan", "connection: close"]
    lines += [f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
