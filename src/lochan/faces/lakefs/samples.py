"""Sample data for a new repository: small files that show what a repository may hold.

They are made here and not stored anywhere: a text, a table in Parquet form with numbers, and some
pictures. Clients' tutorials and tests expect the names.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from lochan.access.policy import Call
from lochan.faces.lakefs.parquet import parquet_of
from lochan.model.commits import CommitMeta
from lochan.model.files import FileProperties
from lochan.service.repository import Repository

_README: Final = b"""# Sample data

`lakes.parquet` is a table of made-up lakes. Change it on a branch, compare the branch with this
one, and merge it:

    lakectl branch create lakefs://REPOSITORY/denmark --source lakefs://REPOSITORY/main
    lakectl diff lakefs://REPOSITORY/main lakefs://REPOSITORY/denmark
    lakectl merge lakefs://REPOSITORY/denmark lakefs://REPOSITORY/main
"""
_SOURCE: Final = b"The lakes are made up: each number follows from the number of its row.\n"
_MESSAGE: Final = "Add sample data"

# Large enough that clients read it in more than one piece.
_LAKES: Final = 50_000
_PICTURES: Final = 29
_PICTURE_SIDE: Final = 16


def write_samples(repository: Repository, call: Call) -> None:
    """Commits the sample data to the default branch of a repository that was just created."""
    branch = repository.info.default_branch
    for path, kind, data in _files():
        properties = FileProperties(content_type=kind, size=len(data))
        with repository.uploads.begin(call, branch, path, properties) as upload:
            upload.write(data)
            upload.finish()
    meta = CommitMeta(message=_MESSAGE, properties=(("sample", ("true",)),))
    pending = repository.commits.commit(call, branch, None, meta, (), staged=True)
    (settled,) = repository.publisher(pending.branch).publish([pending.proposal])
    pending.finish(settled)


def _files() -> Iterator[tuple[str, str, bytes]]:
    yield "README.md", "text/markdown", _README
    yield "data/lakes.source.md", "text/markdown", _SOURCE
    yield "lakes.parquet", "application/octet-stream", _lakes()
    for number in range(_PICTURES):
        yield f"images/lake-{number:02d}.png", "image/png", _picture(number)


def _lakes() -> bytes:
    numbers = range(_LAKES)
    return parquet_of(
        {
            "Hylak_id": list(numbers),
            "Depth_m": [1 + at * 7 % 211 for at in numbers],
            "Lake_area": [0.5 + at * 7_919 % 100_003 / 10 for at in numbers],
        }
    )


def _picture(number: int) -> bytes:
    """Returns a square of one colour as PNG."""
    colour = bytes((number * 8 % 256, 80 + number * 5 % 128, 200 - number * 3 % 128))
    rows = (b"\0" + colour * _PICTURE_SIDE) * _PICTURE_SIDE
    head = struct.pack(">IIBBBBB", _PICTURE_SIDE, _PICTURE_SIDE, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
