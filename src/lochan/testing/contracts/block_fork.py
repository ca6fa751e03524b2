"""Forks: a child uses the place on its own, and never touches what its parent has under way."""

from __future__ import annotations

import gc

from lochan.staging.block_store import BlockStore
from lochan.testing.contracts.sample_blocks import (
    addresses,
    content_of,
    in_pieces,
    read_block,
    sha256_of,
    store_block,
)
from lochan.testing.forks import ForkedChild, error_kind


class BlockForkContract:
    """For every place: many processes share it."""

    def test_a_child_reads_and_writes_by_itself(self, place: BlockStore) -> None:
        content = content_of(600_000)
        block = store_block(place, content)

        def work() -> list[str]:
            own = store_block(place, b"of the child")
            return [sha256_of(read_block(place, block)), own.address]

        for _ in range(3):
            digest, address = ForkedChild(work).result()
            assert digest == sha256_of(content)
            assert address in addresses(place)
            assert read_block(place, block) == content

    def test_an_upload_stays_with_the_parent(self, place: BlockStore) -> None:
        content = content_of(700_000)
        uploads = [place.begin()]
        pieces = in_pieces(content)
        uploads[0].write(next(pieces))

        def work() -> list[str]:
            kinds = [error_kind(lambda: uploads[0].write(b"!")), error_kind(uploads[0].finish)]
            uploads[0].abort()
            uploads.clear()
            gc.collect()
            return kinds

        assert ForkedChild(work).result() == ["store_forked", "store_forked"]
        for piece in pieces:
            uploads[0].write(piece)
        assert read_block(place, uploads[0].finish()) == content

    def test_a_read_of_the_parent_is_not_disturbed(self, place: BlockStore) -> None:
        content = content_of(3_000_000)
        block = store_block(place, content)
        reader = place.read(block.address, 0, block.size, size=block.size)
        found = [next(reader)]

        def work() -> bool:
            error_kind(lambda: next(reader))
            reader.close()
            return read_block(place, block) == content

        assert ForkedChild(work).result() is True
        found += reader
        assert b"".join(found) == content

    def test_a_child_may_close_the_place(self, place: BlockStore) -> None:
        block = store_block(place, b"bytes")

        def work() -> str:
            place.close()
            return error_kind(lambda: place.find(block.address))

        assert ForkedChild(work).result() == "store_closed"
        assert read_block(place, block) == b"bytes"
