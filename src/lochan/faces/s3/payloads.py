"""The body of a request as it is signed: decoded, counted and compared before it is stored."""

from __future__ import annotations

import re
from hashlib import md5, sha256
from typing import Final, Generic, TypeVar

from lochan.access.signatures import UNSIGNED_PAYLOAD, SignatureChain
from lochan.base.errors import Refusal
from lochan.base.limits.blocks import PART_BYTES_MAX
from lochan.faces.body_uploads import BodyUpload
from lochan.faces.s3.checksums import StatedChecksum, read_md5, stated_checksum
from lochan.faces.s3.chunked_bodies import KINDS, STREAMING, ChunkedBody
from lochan.transport.exchange import Request, ResponseHeaders

_HEX: Final = re.compile(r"[0-9a-f]{64}\Z")
_NUMBER: Final = re.compile(r"[0-9]{1,18}\Z")

_Stored = TypeVar("_Stored")


class Payload:
    """What a request states about its body.

    `size` is that of the bytes, None if it is not stated; `sha256` and `md5` are in hex, empty if
    they are not.
    """

    def __init__(self, request: Request) -> None:
        headers = request.headers
        proof = request.proof
        stated = headers.get("x-amz-content-sha256") if proof is None else proof.payload
        chain = SignatureChain(None, "", "", "") if proof is None else proof.chain
        self.sha256 = ""
        self._chunks: ChunkedBody | None = None
        length = "content-length"
        if stated in KINDS:
            self._chunks = ChunkedBody(stated, chain)
            length = "x-amz-decoded-content-length"
        elif stated and stated.startswith(STREAMING):
            raise Refusal(f"bodies cannot be signed by {stated[:80]} here", 501, "NotImplemented")
        elif stated and _HEX.match(stated):
            self.sha256 = stated
        elif stated and stated != UNSIGNED_PAYLOAD:
            raise Refusal(
                "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a streaming kind of Signature "
                "Version 4, or a valid sha256 value.",
                400,
                "InvalidArgument",
            )
        self.size = _read_size(length, headers.get(length))
        if self.size is None and self._chunks is not None:
            raise Refusal(f"The header {length} is missing.", 411, "MissingContentLength")
        if self.size is not None and self.size > PART_BYTES_MAX:
            raise Refusal(
                f"Your proposed upload exceeds the maximum allowed size of {PART_BYTES_MAX} bytes.",
                400,
                "EntityTooLarge",
            )
        self.md5 = read_md5(headers)
        self._checksum: StatedChecksum | None = stated_checksum(headers)

    def decode(self, piece: bytes) -> list[bytes]:
        """Returns the bytes of a file that are in the next part of the body."""
        found = (
            [piece] if self._chunks is None else [one for one in self._chunks.feed(piece) if one]
        )
        if self._checksum is not None:
            for each in found:
                self._checksum.update(each)
        return found

    def finish(self) -> None:
        """Raises unless the body has ended, and has the checksum that it should have."""
        trailers: dict[str, str] = {}
        if self._chunks is not None:
            self._chunks.finish()
            trailers = self._chunks.trailers
        if self._checksum is not None:
            self._checksum.check(trailers)

    def headers(self) -> ResponseHeaders:
        """Returns the checksum that was compared, for the answer."""
        return () if self._checksum is None else (self._checksum.header,)


class CheckedUpload(Generic[_Stored]):
    """An upload of the bytes in a body; it is finished only if all of the body is right."""

    def __init__(self, payload: Payload, inner: BodyUpload[_Stored]) -> None:
        self._payload = payload
        self._inner = inner

    def write(self, piece: bytes) -> None:
        """Takes the next part of the body."""
        for each in self._payload.decode(piece):
            self._inner.write(each)

    def finish(self) -> _Stored:
        """Compares everything that was stated, then stores."""
        self._payload.finish()
        return self._inner.finish()

    def abort(self) -> None:
        """Removes what was written."""
        self._inner.abort()


def check_body(request: Request) -> bytes:
    """Returns the body of a request that was read whole; raises unless it is as it was stated."""
    payload = Payload(request)
    body = b"".join(payload.decode(request.body))
    payload.finish()
    if payload.sha256 and sha256(body).hexdigest() != payload.sha256:
        raise Refusal(
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
            400,
            "XAmzContentSHA256Mismatch",
        )
    if payload.md5 and md5(body, usedforsecurity=False).hexdigest() != payload.md5:
        raise Refusal("The Content-MD5 you specified did not match the body.", 400, "BadDigest")
    return body


def _read_size(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _NUMBER.match(text):
        raise Refusal(f"The header {name} is not a number.", 400, "InvalidArgument")
    return int(text)
