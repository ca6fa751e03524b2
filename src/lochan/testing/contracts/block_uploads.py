"""Uploads of blocks: whole and durable, or not there at all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from lochan.base.errors import Invalid, LochanError, StoreClosed, TooLarge
from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES, BLOCK_BYTES_MAX, BLOCK_PIECE_BYTES
from lochan.staging.block_store import BlockStore, BlockUpload, check_whole, is_own
from lochan.testing.contracts.sample_blocks import (
    ABSENT_ADDRESS,
    SIZES,
    addresses,
    content_of,
    in_pieces,
    md5_of,
    open_uploads,
    read_block,
    sha256_of,
    store_block,
)


class BlockUploadContract:
    """Beginning, writing, finishing, aborting."""

    memory_bytes_max = 3 * BLOCK_BUFFER_BYTES
    """What one transfer may hold in memory, whatever the size of its block."""

    @pytest.mark.parametrize("size", SIZES)
    def test_a_block_is_read_as_it_was_written(self, place: BlockStore, size: int) -> None:
        content = content_of(size)
        block = store_block(place, content)
        assert is_own(block.address)
        assert (block.size, block.sha256, block.etag) == (size, sha256_of(content), md5_of(content))
        pieces = place.read(block.address, 0, size, size=size)
        assert b"".join(check_whole(pieces, size, sha256_of(content))) == content
        info = place.find(block.address)
        assert info is not None
        assert (info.address, info.size) == (block.address, size)
        assert info.modified_us > 0
        assert open_uploads(place) == 0

    def test_pieces_of_every_kind_and_size_are_joined(self, place: BlockStore) -> None:
        content = content_of(200_000)
        with place.begin() as upload:
            upload.write(content[:1])
            upload.write(b"")
            upload.write(bytearray(content[1:100]))
            upload.write(memoryview(content)[100:150_000])
            reused = bytearray(content[150_000:])
            upload.write(reused)
            # The memory belongs to the caller again.
            reused[:] = bytes(len(reused))
            block = upload.finish(sha256=sha256_of(content), md5=md5_of(content))
        assert read_block(place, block) == content

    def test_two_blocks_with_equal_bytes_are_two_blocks(self, place: BlockStore) -> None:
        one, other = store_block(place, b"same"), store_block(place, b"same")
        assert one.address != other.address
        place.delete(one.address)
        assert read_block(place, other) == b"same"

    def test_nothing_is_visible_before_the_finish(self, place: BlockStore) -> None:
        content = content_of(BLOCK_BUFFER_BYTES + 10)
        upload = place.begin()
        for piece in in_pieces(content):
            upload.write(piece)
            assert addresses(place) == []
        block = upload.finish()
        assert addresses(place) == [block.address]

    @pytest.mark.parametrize("size", [0, 1, 100, BLOCK_PIECE_BYTES + 1, BLOCK_BUFFER_BYTES + 1])
    @pytest.mark.parametrize("way", ["abort", "left", "raised"])
    def test_an_upload_that_is_cut_anywhere_stores_nothing(
        self, place: BlockStore, size: int, way: str
    ) -> None:
        upload = place.begin()
        for piece in in_pieces(content_of(size)):
            upload.write(piece)
        if way == "abort":
            upload.abort()
            upload.abort()
        elif way == "left":
            with upload:
                pass
        else:
            with pytest.raises(ConnectionError), upload:
                raise ConnectionError("the client has gone")
        assert addresses(place) == []
        assert open_uploads(place) == 0
        _refuses_everything(upload)

    @pytest.mark.parametrize("size", [0, 5, BLOCK_BUFFER_BYTES + 1])
    @pytest.mark.parametrize("wrong", ["sha256", "md5", "size", "form"])
    def test_wrong_statements_store_nothing(self, place: BlockStore, size: int, wrong: str) -> None:
        content = content_of(size)
        finishes: dict[str, Callable[[BlockUpload], object]] = {
            "sha256": lambda upload: upload.finish(sha256=sha256_of(content + b"!")),
            "md5": lambda upload: upload.finish(sha256=sha256_of(content), md5=md5_of(b"other")),
            "size": lambda upload: upload.finish(),
            "form": lambda upload: upload.finish(md5=md5_of(content).upper() + "!"),
        }
        upload = place.begin(size=size + 1 if wrong == "size" else size)
        for piece in in_pieces(content):
            upload.write(piece)
        with pytest.raises(Invalid):
            finishes[wrong](upload)
        assert addresses(place) == []
        assert open_uploads(place) == 0
        _refuses_everything(upload)

    def test_more_bytes_than_stated_are_refused_at_once(self, place: BlockStore) -> None:
        upload = place.begin(size=10)
        upload.write(b"0123456789")
        with pytest.raises(Invalid):
            upload.write(b"!")
        _refuses_everything(upload)
        assert addresses(place) == []

    def test_sizes_beyond_the_limit_are_refused_in_advance(self, place: BlockStore) -> None:
        for size in (BLOCK_BYTES_MAX + 1, 1 << 80, -1):
            with pytest.raises(TooLarge):
                place.begin(size=size)
        assert open_uploads(place) == 0

    def test_a_finished_upload_cannot_be_used_again(self, place: BlockStore) -> None:
        upload = place.begin()
        upload.write(b"bytes")
        block = upload.finish()
        _refuses_everything(upload)
        assert read_block(place, block) == b"bytes"

    def test_uploads_beside_each_other_do_not_mix(self, place: BlockStore) -> None:
        uploads = [place.begin() for _ in range(4)]
        contents = [content_of(300_000, seed) for seed in range(4)]
        for start in range(0, 300_000, 100_000):
            for upload, content in zip(uploads, contents, strict=True):
                upload.write(content[start : start + 100_000])
        uploads[1].abort()
        blocks = [uploads[number].finish() for number in (3, 0, 2)]
        assert [read_block(place, block) for block in blocks] == [
            contents[number] for number in (3, 0, 2)
        ]
        assert addresses(place) == sorted(block.address for block in blocks)

    def test_memory_does_not_grow_with_the_block(self, place: BlockStore) -> None:
        piece = content_of(BLOCK_PIECE_BYTES)
        pieces = 6 * BLOCK_BUFFER_BYTES // BLOCK_PIECE_BYTES
        store_block(place, piece)
        tracemalloc.start()
        try:
            with place.begin() as upload:
                for _ in range(pieces):
                    upload.write(piece)
                block = upload.finish()
            read = sum(map(len, place.read(block.address, 0, block.size, size=block.size)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert read == block.size == pieces * BLOCK_PIECE_BYTES
        assert peak <= self.memory_bytes_max < block.size

    def test_a_closed_place_refuses_every_call(self, place: BlockStore) -> None:
        multipart = place.begin_multipart()
        place.close()
        place.close()
        calls: list[Callable[[], object]] = [
            place.begin,
            lambda: place.read(ABSENT_ADDRESS, 0, 1, size=1),
            lambda: place.find(ABSENT_ADDRESS),
            lambda: place.delete(ABSENT_ADDRESS),
            lambda: list(place.iterate()),
            place.begin_multipart,
            lambda: place.begin_part(multipart, 1),
            lambda: place.list_parts(multipart),
            lambda: place.abort_multipart(multipart),
            lambda: place.sweep_unfinished(0),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()


def _refuses_everything(upload: BlockUpload) -> None:
    with pytest.raises(LochanError):
        upload.write(b"more")
    with pytest.raises(LochanError):
        upload.finish()
    upload.abort()
