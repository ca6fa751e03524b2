"""The lines before the body of an answer."""

from __future__ import annotations

from email.utils import formatdate
from typing import Final

from lochan.base.errors import Bug
from lochan.transport.exchange import Response
from lochan.transport.problems import reason_of

# A value with a line break would let its author add headers to the answer.
_UNSAFE: Final = bytes(set(range(0x20)) - set(b"\t")) + b"\x7f"


class Heads:
    """Builds heads; the part that changes once a second is built once a second."""

    def __init__(self) -> None:
        self._date = b""
        self._beginnings: dict[int, bytes] = {}

    def set_time(self, seconds: float) -> None:
        """Sets the date that answers carry."""
        date = formatdate(seconds, usegmt=True).encode()
        if date != self._date:
            self._date = date
            self._beginnings.clear()

    def build(
        self, response: Response, request_id: str, *, keep_alive: bool, chunked: bool = True
    ) -> bytes:
        """Returns everything up to the empty line; a client of HTTP/1.0 knows no chunks."""
        status = response.status
        beginning = self._beginnings.get(status) or self._begin(status)
        ending = b"" if keep_alive else b"connection: close\r\n"
        for name, value in response.headers:
            line = b"%b: %b" % (name, value)
            if len(line.translate(None, _UNSAFE)) != len(line):
                raise Bug("a header of an answer holds a control character")
            ending += line + b"\r\n"
        if status in (204, 304):
            return b"%bx-request-id: %b\r\n%b\r\n" % (beginning, request_id.encode(), ending)
        length = len(response.body) if response.stream is None else response.stream.length
        if length is None:
            framing = b"transfer-encoding: chunked\r\n" if chunked else b""
            return b"%bcontent-type: %b\r\n%bx-request-id: %b\r\n%b\r\n" % (
                beginning,
                response.content_type,
                framing,
                request_id.encode(),
                ending,
            )
        if length < 0:
            raise Bug("an answer has announced less than no bytes")
        return b"%bcontent-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b\r\n" % (
            beginning,
            response.content_type,
            length,
            request_id.encode(),
            ending,
        )

    def _begin(self, status: int) -> bytes:
        beginning = b"HTTP/1.1 %d %b\r\ndate: %b\r\nx-content-type-options: nosniff\r\n" % (
            status,
            reason_of(status).encode(),
            self._date,
        )
        self._beginnings[status] = beginning
        return beginning
