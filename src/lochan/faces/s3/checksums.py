"""Checksums that a client states for the bytes that it sends, and how they are computed.

CRC-32C and CRC-64/NVME are computed by a library, `awscrt`, because Python would need a second for
ten megabytes. Without it, requests with one of them are refused: nothing is stored unchecked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from lochan.base.errors import Refusal
from lochan.transport.exchange import RequestHeaders
from lochan.wire.s3_problems import not_implemented

PREFIX: Final = "x-amz-checksum-"


class Checksum(Protocol):
    """A checksum of bytes that pass."""

    def update(self, piece: bytes) -> None:
        """Takes the next bytes."""
        ...

    def digest(self) -> bytes:
        """Returns the checksum of all bytes so far."""
        ...


class _Crc:
    """A cyclic checksum by a function of bytes and of the value before."""

    def __init__(self, compute: Callable[[bytes, int], int], width: int) -> None:
        self._compute = compute
        self._width = width
        self._value = 0

    def update(self, piece: bytes) -> None:
        self._value = self._compute(piece, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width, "big")


def _library() -> Any:
    try:
        from awscrt import checksums
    except ImportError:
        raise not_implemented(
            "The checksum CRC32C or CRC64NVME (the server's operator adds it with "
            "`pip install 'lochan[s3]'`)"
        ) from None
    return checksums


_KINDS: Final[dict[str, tuple[int, Callable[[], Checksum]]]] = {
    "crc32": (4, lambda: _Crc(zlib.crc32, 4)),
    "crc32c": (4, lambda: _Crc(_library().crc32c, 4)),
    "crc64nvme": (8, lambda: _Crc(_library().crc64nvme, 8)),
    "sha1": (20, lambda: hashlib.sha1(usedforsecurity=False)),
    "sha256": (32, hashlib.sha256),
}


class StatedChecksum:
    """A checksum that a client states before its bytes, or in a trailer after them."""

    def __init__(self, kind: str, text: str | None) -> None:
        length, make = _KINDS[kind]
        self._kind = kind
        self._length = length
        self._made = make()
        self._stated = None if text is None else self._read(text)
        self._text = text

    @property
    def header(self) -> tuple[bytes, bytes]:
        """The header by which an answer repeats it."""
        return (PREFIX + self._kind).encode(), (self._text or "").encode("latin-1")

    def update(self, piece: bytes) -> None:
        """Takes the next bytes."""
        self._made.update(piece)

    def check(self, trailers: dict[str, str]) -> None:
        """Raises unless the bytes have the checksum that was stated, at last in a trailer."""
        if self._stated is None:
            text = trailers.get(PREFIX + self._kind)
            if text is None:
                raise Refusal(
                    f"the trailer {PREFIX}{self._kind} is missing", 400, "MalformedTrailerError"
                )
            self._text, self._stated = text, self._read(text)
        if self._made.digest() != self._stated:
            raise Refusal(
                f"The {self._kind.upper()} you specified did not match the calculated checksum.",
                400,
                "BadDigest",
            )

    def _read(self, text: str) -> bytes:
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != self._length:
            name = PREFIX + self._kind
            raise Refusal(f"Value for {name} header is invalid.", 400, "InvalidRequest")
        return raw


def stated_checksum(headers: RequestHeaders) -> StatedChecksum | None:
    """Returns the checksum that a request states, or announces as a trailer; None for none."""
    found: list[tuple[str, str | None]] = []
    for name, value in headers.items():
        kind = name.removeprefix(PREFIX)
        if kind != name and kind not in ("algorithm", "type", "mode"):
            found.append((kind, value))
        elif name == "x-amz-trailer":
            found += [(each.strip().lower(), None) for each in value.split(",") if each.strip()]
    found = [(kind.removeprefix(PREFIX), text) for kind, text in found]
    if len(found) > 1:
        raise Refusal("Expecting a single x-amz-checksum- header.", 400, "InvalidRequest")
    if not found:
        return None
    kind, text = found[0]
    if kind not in _KINDS:
        raise Refusal(f"The checksum {kind[:40]!r} is not supported.", 400, "InvalidRequest")
    return StatedChecksum(kind, text)


def read_md5(headers: RequestHeaders) -> str:
    """Returns the MD5 that a request states, in hex; empty if it states none."""
    text = headers.get("content-md5")
    if text is None:
        return ""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise Refusal("The Content-MD5 you specified is not valid.", 400, "InvalidDigest")
    return raw.hex()
