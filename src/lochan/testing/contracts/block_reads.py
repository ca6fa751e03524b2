"""Reads, listings and deletions of blocks: the requested bytes or an error, never less."""

from __future__ import annotations

from threading import Thread

import pytest

from lochan.base.errors import Corrupt, Invalid
from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES, BLOCK_PIECE_BYTES
from lochan.staging.block_store import (
    BlockAddress,
    BlockStore,
    StoredBlock,
    check_whole,
    is_foreign,
    is_own,
)
from lochan.testing.contracts.sample_blocks import (
    ABSENT_ADDRESS,
    WRONG_ADDRESSES,
    addresses,
    content_of,
    read_block,
    sha256_of,
    store_block,
)


class BlockReadContract:
    """Ranges, missing and damaged blocks, order."""

    def test_every_range_is_exactly_its_bytes(self, place: BlockStore) -> None:
        content = content_of(2 * BLOCK_PIECE_BYTES + 100)
        block = store_block(place, content)
        edges = (0, 1, BLOCK_PIECE_BYTES - 1, BLOCK_PIECE_BYTES, 2 * BLOCK_PIECE_BYTES + 1)
        for start in (*edges, block.size - 1, block.size):
            for end in (*edges, block.size - 1, block.size):
                if start <= end:
                    assert read_block(place, block, start, end) == content[start:end]

    def test_ranges_cross_the_parts_of_a_large_block(self, place: BlockStore) -> None:
        content = content_of(2 * BLOCK_BUFFER_BYTES + 100)
        block = store_block(place, content)
        for edge in (BLOCK_BUFFER_BYTES, 2 * BLOCK_BUFFER_BYTES):
            start, end = edge - 5, edge + 5
            assert read_block(place, block, start, end) == content[start:end]

    @pytest.mark.parametrize(("start", "end"), [(-1, 5), (3, 2), (0, 11), (11, 11)])
    def test_a_range_outside_of_the_block_is_refused(
        self, place: BlockStore, start: int, end: int
    ) -> None:
        block = store_block(place, b"0123456789")
        with pytest.raises(Invalid):
            place.read(block.address, start, end, size=10)

    def test_a_read_may_be_given_up(self, place: BlockStore) -> None:
        block = store_block(place, content_of(4 * BLOCK_PIECE_BYTES))
        # More often than there are connections.
        for _ in range(50):
            reader = place.read(block.address, 0, block.size, size=block.size)
            assert next(reader)
            reader.close()
            reader.close()
            assert list(reader) == []
        assert len(read_block(place, block)) == block.size

    def test_a_missing_block_is_damage_and_never_empty(self, place: BlockStore) -> None:
        assert place.find(ABSENT_ADDRESS) is None
        for size, start, end in ((0, 0, 0), (10, 0, 10), (10, 4, 4), (10, 2, 3)):
            with pytest.raises(Corrupt) as caught:
                place.read(ABSENT_ADDRESS, start, end, size=size)
            assert caught.value.missing

    @pytest.mark.parametrize("stated", [0, 1, 9, 11, 1_000_000])
    def test_a_block_of_another_size_is_damage(self, place: BlockStore, stated: int) -> None:
        block = store_block(place, b"0123456789")
        for start, end in ((0, stated), (0, 0), (stated, stated), (0, min(stated, 1))):
            with pytest.raises(Corrupt):
                list(place.read(block.address, start, end, size=stated))

    def test_a_whole_read_is_compared_with_its_checksum(self, place: BlockStore) -> None:
        content = content_of(BLOCK_PIECE_BYTES * 2)
        block = store_block(place, content)

        def pieces(size: int, sha256: str) -> list[bytes]:
            found: list[bytes] = []
            reader = place.read(block.address, 0, block.size, size=block.size)
            try:
                found.extend(check_whole(reader, size, sha256))
            except Corrupt:
                assert sum(map(len, found)) < block.size
                raise
            return found

        assert b"".join(pieces(block.size, sha256_of(content))) == content
        with pytest.raises(Corrupt):
            pieces(block.size, sha256_of(content + b"!"))
        with pytest.raises(Corrupt):
            pieces(block.size + 1, sha256_of(content))

    def test_what_is_no_address_is_refused_everywhere(self, place: BlockStore) -> None:
        for wrong in map(BlockAddress, WRONG_ADDRESSES):
            assert not is_own(wrong), ascii(wrong)
            assert not is_foreign(wrong), ascii(wrong)
            with pytest.raises(Invalid):
                place.find(wrong)
            with pytest.raises(Invalid):
                place.read(wrong, 0, 0, size=0)
            with pytest.raises(Invalid):
                place.delete(wrong)

    def test_delete_makes_a_block_absent_and_is_idempotent(self, place: BlockStore) -> None:
        place.delete(ABSENT_ADDRESS)
        kept, gone = store_block(place, b"kept"), store_block(place, b"gone")
        place.delete(gone.address)
        place.delete(gone.address)
        assert place.find(gone.address) is None
        with pytest.raises(Corrupt):
            place.read(gone.address, 0, 4, size=4)
        assert addresses(place) == [kept.address]

    def test_blocks_are_listed_in_order_from_any_place(self, place: BlockStore) -> None:
        blocks = {}
        for number in range(40):
            block = store_block(place, content_of(number))
            blocks[block.address] = number
        infos = list(place.iterate())
        order = [info.address for info in infos]
        assert order == sorted(blocks)
        assert [info.size for info in infos] == [blocks[address] for address in order]
        assert all(info == place.find(info.address) for info in infos)
        for position in (0, 1, 20, 39):
            assert [info.address for info in place.iterate(order[position])] == order[
                position + 1 :
            ]
        assert [info.address for info in place.iterate(order[7][:5])] == [
            address for address in order if address > order[7][:5]
        ]
        assert list(place.iterate("fff/" + "f" * 29)) == []

    def test_threads_do_not_disturb_each_other(self, place: BlockStore) -> None:
        found: list[StoredBlock] = []
        failures: list[str] = []

        def work(seed: int) -> None:
            for turn in range(4):
                content = content_of(100_000 + turn, seed)
                block = store_block(place, content)
                if read_block(place, block) != content:
                    failures.append(block.address)
                found.append(block)

        threads = [Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert addresses(place) == sorted(block.address for block in found)
        assert len(found) == 24
