"""A process that uploads blocks and acknowledges them until it is killed.

Started as `python -m lochan.testing.killed_uploader URL FIRST`. For each number n from FIRST on, it
stores a block, every third time as a multipart upload, and then writes the line "n address" to
standard output. The content of a block follows from n, which its first bytes state, so that
`check_blocks` can check every block that is there, whenever the process was killed.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from random import Random

from lochan.assembly.blocks import open_blocks
from lochan.staging.block_store import BlockAddress, BlockStore, ChosenPart

STARTING = b"starting\n"
PIECE_BYTES = 20_000
_NUMBER_BYTES = 8


def content_of_number(number: int) -> bytes:
    """Returns the block of a number: small ones and some of many pieces."""
    random = Random(number)
    size = random.choice((0, 1, 1_000, PIECE_BYTES, 5 * PIECE_BYTES, 40 * PIECE_BYTES))
    return number.to_bytes(_NUMBER_BYTES, "big") + random.randbytes(size)


def upload_number(place: BlockStore, number: int) -> BlockAddress:
    """Stores the block of a number."""
    content = content_of_number(number)
    pieces = [content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES)]
    if number % 3:
        with place.begin(size=len(content)) as upload:
            for piece in pieces:
                upload.write(piece)
            return upload.finish().address
    multipart = place.begin_multipart()
    with place.begin_part(multipart, 1) as part:
        for piece in pieces:
            part.write(piece)
        etag = part.finish().etag
    return place.complete_multipart(multipart, [ChosenPart(1, etag)]).address


def check_blocks(place: BlockStore, acknowledged: dict[int, str]) -> set[int]:
    """Checks that every block is whole and every acknowledged one is there; returns the numbers."""
    found: dict[int, str] = {}
    for info in place.iterate():
        content = b"".join(place.read(info.address, 0, info.size, size=info.size))
        number = int.from_bytes(content[:_NUMBER_BYTES], "big")
        assert content == content_of_number(number), f"{info.address} is not the whole {number}"
        found[number] = info.address
    for number, address in acknowledged.items():
        assert found.get(number) == address, f"{number} was acknowledged and is not there"
    return set(found)


def main(url: str, first: int) -> None:
    """Runs until killed."""
    os.write(1, STARTING)
    place = open_blocks(url)
    for number in count(first):
        os.write(1, b"%d %s\n" % (number, upload_number(place, number).encode()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
