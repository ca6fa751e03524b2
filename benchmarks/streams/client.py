"""Plain HTTP over a blocking socket, which reads no more than it passes on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

_PIECE_BYTES = 1 << 18


class Head(NamedTuple):
    """The status of an answer, and the length that it states."""

    status: int
    length: int


def head_of(method: str, path: str, *lines: str) -> bytes:
    """Returns the bytes of a request up to its body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


class Reader:
    """Reads answers."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._rest = b""

    def head(self) -> Head:
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return Head(int(first.split(" ")[1]), int(headers.get("content-length", 0)))

    def until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._rest += self._receive()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        self.pass_on(count, parts.append)
        return b"".join(parts)

    def pass_on(self, count: int, take: Callable[[bytes], None]) -> None:
        """Passes so many bytes on, in pieces."""
        while count:
            piece = self._rest or self._receive()
            take(piece[:count])
            self._rest = piece[count:]
            count -= min(count, len(piece))

    def _receive(self) -> bytes:
        piece = self._client.recv(_PIECE_BYTES)
        if not piece:
            raise ConnectionError("the server hung up in the middle of an answer")
        return piece
