"""Bodies in signed or checked pieces (`aws-chunked`), read as they come.

    SIZE;chunk-signature=SIGNATURE CRLF BYTES CRLF     (the signature only if pieces are signed)
    …
    0;chunk-signature=SIGNATURE CRLF
    NAME:VALUE CRLF …  x-amz-trailer-signature:SIGNATURE CRLF     (only with trailers)
    CRLF

The signature of a piece is compared when all of it has passed. What has passed before is on its way
to an upload that is not finished yet, so a body that is wrong anywhere stores nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from lochan.access.signatures import SignatureChain
from lochan.base.errors import Refusal
from lochan.base.limits.http import HTTP_TRAILER_BYTES_MAX

STREAMING: Final = "STREAMING-"
SIGNED: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
KINDS: Final = (SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER)

_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"
_LINE_BYTES_MAX: Final = 1_024
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,10})(?:;chunk-signature=([0-9a-f]{64}))?\Z")
_TRAILER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*?)[ \t]*\Z")


def _incomplete(reason: str) -> Refusal:
    return Refusal(f"The body is not as it was announced: {reason}.", 400, "IncompleteBody")


class ChunkedBody:
    """Decodes one body; `trailers` are there after its end."""

    def __init__(self, kind: str, chain: SignatureChain) -> None:
        self._chain = chain if kind != UNSIGNED_TRAILER else None
        self._has_trailers = kind != SIGNED
        self._buffer = b""
        self._left = 0
        self._digest = sha256()
        self._signature = ""
        self._state = "size"
        self._trailer_bytes = 0
        self.trailers: dict[str, str] = {}

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yields the bytes in a part of the body."""
        data = self._buffer + piece if self._buffer else piece
        at = 0
        while at < len(data):
            if self._state == "bytes":
                taken = data[at : at + self._left]
                at += len(taken)
                self._left -= len(taken)
                if self._chain is not None:
                    self._digest.update(taken)
                if not self._left:
                    self._state = "end of bytes"
                yield taken
                continue
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                break
            self._take_line(data[at:line_end])
            at = line_end + 2
        self._buffer = data[at:]
        if len(self._buffer) > _LINE_BYTES_MAX:
            raise _incomplete("a line is too long")

    def finish(self) -> None:
        """Raises unless the body has ended as it should."""
        if self._state != "over" or self._buffer:
            raise _incomplete("its last piece is missing")

    def _take_line(self, line: bytes) -> None:
        if self._state == "size":
            self._begin_chunk(line)
        elif self._state == "end of bytes":
            if line:
                raise _incomplete("a piece is longer than its size")
            self._end_chunk()
            self._state = "size"
        elif self._state == "trailer":
            self._take_trailer(line)
        elif self._state == "over" or line:
            raise _incomplete("something follows its last piece")
        else:
            self._state = "over"

    def _begin_chunk(self, line: bytes) -> None:
        match = _CHUNK.match(line)
        if match is None or (match[2] is None) != (self._chain is None):
            raise _incomplete("a piece has no size, or not the signature that it should have")
        self._left = int(match[1], 16)
        self._signature = "" if match[2] is None else match[2].decode()
        self._digest = sha256()
        self._state = "bytes"
        if not self._left:
            self._end_chunk()
            self._state = "trailer" if self._has_trailers else "end"

    def _end_chunk(self) -> None:
        if self._chain is not None:
            self._chain.check_chunk(self._digest.hexdigest(), self._signature)

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self._end_trailers()
            self._state = "over"
            return
        self._trailer_bytes += len(line)
        match = _TRAILER.match(line)
        if match is None or self._trailer_bytes > HTTP_TRAILER_BYTES_MAX:
            raise Refusal("a trailer is not NAME:VALUE", 400, "MalformedTrailerError")
        name, value = match[1].decode().lower(), match[2].decode()
        if name in self.trailers:
            raise Refusal(f"the trailer {name} is given twice", 400, "MalformedTrailerError")
        self.trailers[name] = value

    def _end_trailers(self) -> None:
        signature = self.trailers.pop(_TRAILER_SIGNATURE, "")
        if self._chain is not None:
            text = "".join(f"{name}:{value}\n" for name, value in sorted(self.trailers.items()))
            self._chain.check_trailer(sha256(text.encode()).hexdigest(), signature)
