"""Conditions and ranges of a request for bytes that have a tag: what of them is to be sent.

The order is that of the standard (RFC 9110, 13.2.2): `If-Match`, `If-None-Match`, then `Range` if
`If-Range` allows it. Several ranges, and units other than bytes, are answered with everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.transport.exchange import Request, ResponseHeaders

# Clients that want the rest of a file name the largest number that they have as its last byte.
_RANGE: Final = re.compile(r"bytes=([0-9]{0,40})-([0-9]{0,40})")


class ByteSelection(msgspec.Struct, frozen=True):
    """What is sent: bytes from `start` to before `stop` with status 200 or 206.

    With 304, 412 and 416 nothing is sent.
    """

    status: int
    start: int
    stop: int
    headers: ResponseHeaders

    @property
    def length(self) -> int:
        """How many bytes are sent."""
        return self.stop - self.start


def select(request: Request, tag: str, length: int) -> ByteSelection:
    """Returns which part of so many bytes with a strong tag (without quotes) a request wants."""
    quoted = f'"{tag}"'
    headers: ResponseHeaders = ((b"etag", quoted.encode("latin-1")),)
    headers += ((b"accept-ranges", b"bytes"),)
    wanted = request.headers.all("if-match")
    if wanted and not _names(wanted, quoted, weak=False):
        return ByteSelection(412, 0, 0, headers)
    known = request.headers.all("if-none-match")
    if known and _names(known, quoted, weak=True):
        return ByteSelection(304 if request.method in ("GET", "HEAD") else 412, 0, 0, headers)
    text = request.headers.get("range")
    same = request.headers.get("if-range") in (None, quoted)
    match = _RANGE.fullmatch(text.replace(" ", "")) if text and same else None
    if match is None or not (match[1] or match[2]) or request.method not in ("GET", "HEAD"):
        return ByteSelection(200, 0, length, headers)
    if match[1]:
        start = int(match[1])
        stop = min(int(match[2]) + 1, length) if match[2] else length
        if match[2] and int(match[2]) < start:
            return ByteSelection(200, 0, length, headers)
    else:
        start, stop = max(0, length - int(match[2])), length
    if start >= length or start >= stop:
        return ByteSelection(416, 0, 0, (*headers, (b"content-range", b"bytes */%d" % length)))
    shown = b"bytes %d-%d/%d" % (start, stop - 1, length)
    return ByteSelection(206, start, stop, (*headers, (b"content-range", shown)))


def _names(values: Sequence[str], quoted: str, *, weak: bool) -> bool:
    """Returns whether one of the tags in a header is the one given, or `*`."""
    tags = [one.strip() for value in values for one in value.split(",")]
    if weak:
        tags = [one.removeprefix("W/") for one in tags]
    return "*" in tags or quoted in tags
