"""A connection without a network for the walks of bytes: every piece, pause and cut is chosen.

`Wire` stands for the socket on the server's side; `Answers` reads what the client got.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lochan.transport.connection import Connection

BUFFER_HIGH, BUFFER_LOW = 600, 200


class Answer(msgspec.Struct):
    """An answer as the client got it; one without an end was cut."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def closes(self) -> bool:
        return self.headers.get("connection") == "close"


class Answers:
    """Cuts answers out of the bytes; `methods` are those of the requests, in their order."""

    def __init__(self, methods: list[str]) -> None:
        self._methods = methods
        self.raw = b""

    def read(self) -> tuple[list[Answer], list[int]]:
        """Returns the answers so far, and before which of them a 100 has come."""
        answers: list[Answer] = []
        interim: list[int] = []
        rest = self.raw
        while b"\r\n\r\n" in rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            version, status, *_ = first.split(" ")
            assert version == "HTTP/1.1", f"no answer begins like this: {head[:60]!r}"
            if status == "100":
                interim.append(len(answers))
                continue
            headers = dict(line.split(": ", 1) for line in lines)
            assert len(answers) < len(self._methods), f"an answer to no request: {head!r}"
            method = self._methods[len(answers)]
            body, rest, whole = _body(headers, method == "HEAD" or status in ("204", "304"), rest)
            answers.append(Answer(int(status), headers, body, whole))
            if not whole:
                break
        return answers, interim


def _body(headers: dict[str, str], none: bool, rest: bytes) -> tuple[bytes, bytes, bool]:
    """Returns a body, what follows, and whether it is whole."""
    if none:
        return b"", rest, True
    if headers.get("transfer-encoding") != "chunked":
        length = int(headers["content-length"])
        return rest[:length], rest[length:], len(rest) >= length
    parts = []
    while b"\r\n" in rest:
        size, _, after = rest.partition(b"\r\n")
        count = int(size, 16)
        if len(after) < count + 2:
            break
        assert after[count : count + 2] == b"\r\n", "a chunk is not as long as it states"
        parts.append(after[:count])
        rest = after[count + 2 :]
        if not count:
            return b"".join(parts), rest, True
    return b"".join(parts), rest, False


class Wire:
    """As much of a transport as a connection asks for."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._connection: Any = None
        self._is_over = False
        self._is_closing = False
        self._wrote_end = False
        self.unread = b""
        self.is_paused = False
        self.is_lost = False

    def connect(self, connection: Connection) -> None:
        self._connection = connection
        connection.connection_made(self)  # type: ignore[arg-type]

    # What the client does.

    @property
    def takes(self) -> bool:
        """Whether a piece that the client sends would come now."""
        return not (self.is_paused or self.is_lost or self._is_closing)

    @property
    def ended(self) -> bool:
        """Whether the client sees that the server has ended the connection."""
        return self.is_lost or ((self._is_closing or self._wrote_end) and not self.unread)

    def deliver(self, piece: bytes) -> None:
        self._connection.data_received(piece)

    def half_close(self) -> None:
        if not self.is_lost and not self._connection.eof_received():
            self.close()

    def read(self, count: int) -> None:
        """Reads what the server has written."""
        self._answers.raw += self.unread[:count]
        self.unread = self.unread[count:]
        if self._is_over and len(self.unread) <= BUFFER_LOW:
            self._is_over = False
            self._connection.resume_writing()
        if not self.unread and (self._is_closing or self._wrote_end):
            self.lose()

    def lose(self) -> None:
        """Ends the connection for both sides."""
        if not self.is_lost:
            self.is_lost = True
            self.unread = b""
            self._connection.connection_lost(None)

    # What the connection calls.

    def write(self, data: bytes) -> None:
        assert not self._wrote_end or self._is_closing, "something is written after the end"
        if self.is_lost or self._is_closing:
            return
        self.unread += data
        if not self._is_over and len(self.unread) > BUFFER_HIGH:
            self._is_over = True
            self._connection.pause_writing()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def write_eof(self) -> None:
        self._wrote_end = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self._is_closing = True
        if not self.unread:
            self.lose()

    def abort(self) -> None:
        self._is_closing = True
        self.lose()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Keeps limits of its own, which small answers reach."""

    def get_extra_info(self, name: str) -> Any:
        return None
