"""Blocks and small helper functions that the suites of places share."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5, sha256
from random import Random
from typing import Protocol

from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES, BLOCK_PIECE_BYTES
from lochan.staging.block_store import (
    BlockAddress,
    BlockStore,
    ChosenPart,
    MultipartId,
    StoredBlock,
    StoredPart,
)

ABSENT_ADDRESS = BlockAddress("abc/0123456789abcdef0123456789abc")

# Around the sizes at which something changes: pieces, and the buffer of one request.
SIZES = (
    0,
    1,
    1_000,
    BLOCK_PIECE_BYTES - 1,
    BLOCK_PIECE_BYTES,
    BLOCK_PIECE_BYTES + 1,
    BLOCK_BUFFER_BYTES,
    BLOCK_BUFFER_BYTES + 1,
    2 * BLOCK_BUFFER_BYTES + 17,
)

# What no place may take for an address: ways out of its directory, and other names.
WRONG_ADDRESSES = (
    "",
    ".",
    "..",
    "/",
    "abc",
    "abc/",
    "abc/..",
    "../objects/abc",
    "abc/../../../etc/passwd",
    "/etc/passwd",
    "abc/0123456789abcdef0123456789ab",
    "abc/0123456789abcdef0123456789abcd",
    "ABC/0123456789abcdef0123456789abc",
    "abc\\0123456789abcdef0123456789abc",
    "abc//123456789abcdef0123456789abc",
    "abc/0123456789abcdef0123456789abc\n",
    "abc/0123456789abcdef0123456789ab\0",
    "abc/0123456789abcdef0123456789ab\u0661",
    *(f"abc/0123456789abcdef0123456789ab{chr(byte)}" for byte in range(256)
      if chr(byte) not in "0123456789abcdef"),
)  # fmt: skip


class ForeignPlace(Protocol):
    """Objects that were there before: what the fixture `foreign` provides."""

    prefix: str
    """The URL that the place was opened with as one of its `imports`."""

    def put(self, path: str, content: bytes) -> None:
        """Writes an object below the prefix."""

    def remove(self, path: str) -> None:
        """Removes it again."""


def content_of(size: int, seed: int = 1) -> bytes:
    """Returns bytes that differ everywhere, so that an exchange of pieces is noticed."""
    return Random(seed).randbytes(size)


def sha256_of(content: bytes) -> str:
    """Returns the SHA-256 in hex."""
    return sha256(content).hexdigest()


def md5_of(content: bytes) -> str:
    """Returns the MD5 in hex."""
    return md5(content, usedforsecurity=False).hexdigest()


def in_pieces(content: bytes, size: int = BLOCK_PIECE_BYTES) -> Iterator[bytes]:
    """Yields the bytes in pieces."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


def store_block(place: BlockStore, content: bytes) -> StoredBlock:
    """Stores a block."""
    with place.begin(size=len(content)) as upload:
        for piece in in_pieces(content):
            upload.write(piece)
        return upload.finish()


def store_part(place: BlockStore, upload: MultipartId, number: int, content: bytes) -> StoredPart:
    """Stores a part."""
    with place.begin_part(upload, number) as part:
        for piece in in_pieces(content):
            part.write(piece)
        return part.finish()


def read_block(place: BlockStore, block: StoredBlock, start: int = 0, end: int = -1) -> bytes:
    """Returns the bytes of a block, or of a range."""
    end = block.size if end < 0 else end
    return b"".join(place.read(block.address, start, end, size=block.size))


def chosen(*parts: StoredPart) -> list[ChosenPart]:
    """Returns the parts as a caller names them."""
    return [ChosenPart(part.number, part.etag) for part in parts]


def addresses(place: BlockStore) -> list[str]:
    """Returns the addresses of all blocks, in order."""
    return [info.address for info in place.iterate()]


def open_uploads(place: BlockStore) -> int:
    """Removes every unfinished upload and returns how many there were."""
    return place.sweep_unfinished(1 << 62)
