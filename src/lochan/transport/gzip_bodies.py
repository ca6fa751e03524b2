"""Packed bodies, both ways.

What comes in is unpacked piece by piece, so that a bomb is noticed when it has grown to the limit
and not when it has filled the memory.
"""

from __future__ import annotations

import zlib
from typing import Final

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.http import GZIP_FREE_BYTES, GZIP_RATIO_MAX, HTTP_BODY_BYTES_MAX

_GZIP_WINDOW: Final = 31
_PIECE_BYTES: Final = 65_536

# Fast, and within a tenth of the best size for JSON.
_LEVEL: Final = 1


def unpack(packed: bytes, bytes_max: int = HTTP_BODY_BYTES_MAX) -> bytes:
    """Returns what was packed; TooLarge for a bomb, Invalid for anything that is not gzip."""
    allowed = min(bytes_max, max(GZIP_FREE_BYTES, GZIP_RATIO_MAX * len(packed)))
    reader = zlib.decompressobj(_GZIP_WINDOW)
    pieces: list[bytes] = []
    size = 0
    rest = packed
    try:
        while not reader.eof:
            piece = reader.decompress(rest, _PIECE_BYTES)
            rest = reader.unconsumed_tail
            size += len(piece)
            if size > allowed:
                raise TooLarge(f"the body unpacks to more than {allowed} bytes")
            if not piece and not rest:
                break
            pieces.append(piece)
    except zlib.error:
        raise Invalid("the body is not gzip, though its Content-Encoding says so") from None
    if not reader.eof or reader.unused_data:
        raise Invalid("the gzip body is cut off or followed by something else")
    return b"".join(pieces)


def pack(body: bytes) -> bytes:
    """Packs an answer."""
    writer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return writer.compress(body) + writer.flush()


def accepts_gzip(accepted: bytes) -> bool:
    """Returns whether an Accept-Encoding header accepts gzip, by name or by a star."""
    taken: dict[bytes, bool] = {}
    for part in accepted.lower().split(b","):
        name, _, parameters = part.partition(b";")
        quality = parameters.strip().removeprefix(b"q=").strip()
        taken[name.strip()] = quality.strip(b"0.") != b"" or not parameters
    return taken.get(b"gzip", taken.get(b"x-gzip", taken.get(b"*", False)))
