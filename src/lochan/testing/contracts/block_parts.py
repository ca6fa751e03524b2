"""Multipart uploads: parts in any order, joined by the rules of S3, or nothing."""

from __future__ import annotations

from threading import Thread

import pytest

from lochan.base.errors import Invalid, LochanError, NotFound
from lochan.base.limits.blocks import PART_BYTES_MIN, PART_NUMBER_MAX
from lochan.staging.block_store import BlockStore, ChosenPart, MultipartId, StoredPart
from lochan.testing.contracts.sample_blocks import (
    addresses,
    chosen,
    content_of,
    md5_of,
    open_uploads,
    read_block,
    sha256_of,
    store_part,
)

WRONG_IDS = ("", ".", "..", "a" * 31, "a" * 33, "A" * 32, "../" + "a" * 32, "a" * 32 + "/..",
             "a" * 32, "a" * 32 + ".nothing", "a" * 32 + ".", "\0" * 32, "x" * 3_000)  # fmt: skip


class MultipartContract:
    """Parts, their completion, and what never finished."""

    def test_parts_are_joined_in_the_order_of_their_numbers(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        contents = {number: content_of(PART_BYTES_MIN + number, number) for number in (1, 7)}
        contents[PART_NUMBER_MAX] = b"the last one may be short"
        parts = [store_part(place, upload, number, contents[number]) for number in (7, 10_000, 1)]
        for part in parts:
            assert part.etag == md5_of(contents[part.number])
            assert part.size == len(contents[part.number])
        assert addresses(place) == []
        listed = place.list_parts(upload)
        assert [(part.number, part.size, part.etag) for part in listed] == [
            (number, len(content), md5_of(content)) for number, content in contents.items()
        ]
        assert [part.number for part in place.list_parts(upload, 1)] == [7, PART_NUMBER_MAX]
        assert place.list_parts(upload, PART_NUMBER_MAX) == []
        block = place.complete_multipart(upload, chosen(*listed))
        whole = b"".join(contents.values())
        together = md5_of(b"".join(bytes.fromhex(part.etag) for part in listed))
        assert (block.size, block.etag) == (len(whole), f"{together}-3")
        assert block.sha256 in {None, sha256_of(whole)}
        assert read_block(place, block) == whole
        assert addresses(place) == [block.address]

    def test_a_completion_may_be_repeated(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        part = store_part(place, upload, 3, b"bytes")
        block = place.complete_multipart(upload, chosen(part))
        assert place.complete_multipart(upload, chosen(part)) == block
        with pytest.raises((Invalid, NotFound)):
            place.complete_multipart(upload, [ChosenPart(4, md5_of(b"other"))])
        with pytest.raises(NotFound):
            store_part(place, upload, 4, b"too late")
        place.abort_multipart(upload)
        assert read_block(place, block) == b"bytes"
        open_uploads(place)
        assert read_block(place, block) == b"bytes"

    def test_only_the_chosen_parts_are_in_the_block(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        parts = [
            store_part(place, upload, number, content_of(PART_BYTES_MIN, number))
            for number in (1, 2, 3)
        ]
        block = place.complete_multipart(upload, chosen(parts[0], parts[2]))
        assert read_block(place, block) == b"".join(
            content_of(PART_BYTES_MIN, number) for number in (1, 3)
        )

    def test_a_part_that_comes_again_replaces_the_first(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        store_part(place, upload, 1, b"first")
        second = store_part(place, upload, 1, b"second")
        assert [part.number for part in place.list_parts(upload)] == [1]
        block = place.complete_multipart(upload, chosen(second))
        assert read_block(place, block) == b"second"

    def test_parts_may_come_in_parallel(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        parts: dict[int, StoredPart] = {}

        def work(number: int) -> None:
            parts[number] = store_part(place, upload, number, content_of(PART_BYTES_MIN, number))

        threads = [Thread(target=work, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        block = place.complete_multipart(upload, chosen(*(parts[key] for key in sorted(parts))))
        assert read_block(place, block) == b"".join(
            content_of(PART_BYTES_MIN, number) for number in range(1, 5)
        )

    def test_wrong_choices_are_refused_and_store_nothing(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        small = store_part(place, upload, 1, b"small")
        large = store_part(place, upload, 2, content_of(PART_BYTES_MIN))
        wrong = [
            [],
            chosen(large, small),
            chosen(large, large),
            chosen(small, large),
            [ChosenPart(2, md5_of(b"other"))],
            [ChosenPart(3, large.etag)],
            [ChosenPart(0, large.etag)],
            [ChosenPart(PART_NUMBER_MAX + 1, large.etag)],
            [ChosenPart(2, "")],
        ]
        for choice in wrong:
            with pytest.raises(Invalid):
                place.complete_multipart(upload, choice)
        assert addresses(place) == []
        block = place.complete_multipart(upload, chosen(large))
        assert block.size == PART_BYTES_MIN

    def test_a_part_that_is_cut_or_wrong_is_not_there(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        with place.begin_part(upload, 1) as part:
            part.write(b"cut")
        with place.begin_part(upload, 2, size=5) as part:
            part.write(b"four")
            with pytest.raises(Invalid):
                part.finish()
        with place.begin_part(upload, 3) as part:
            part.write(b"bytes")
            with pytest.raises(Invalid):
                part.finish(md5=md5_of(b"other"))
        for number in (0, -1, PART_NUMBER_MAX + 1):
            with pytest.raises(Invalid):
                place.begin_part(upload, number)
        assert place.list_parts(upload) == []

    def test_an_aborted_upload_leaves_nothing(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        part = store_part(place, upload, 1, b"bytes")
        late = place.begin_part(upload, 2)
        late.write(b"late")
        place.abort_multipart(upload)
        place.abort_multipart(upload)
        with pytest.raises(LochanError):
            late.finish()
        with pytest.raises(NotFound):
            store_part(place, upload, 3, b"late")
        with pytest.raises(NotFound):
            place.list_parts(upload)
        with pytest.raises(NotFound):
            place.complete_multipart(upload, chosen(part))
        assert addresses(place) == []
        assert open_uploads(place) == 0

    @pytest.mark.parametrize("wrong", WRONG_IDS, ids=lambda text: ascii(text)[:20])
    def test_an_unknown_upload_is_not_found(self, place: BlockStore, wrong: str) -> None:
        upload = MultipartId(wrong)
        with pytest.raises(NotFound):
            place.list_parts(upload)
        with pytest.raises(NotFound):
            store_part(place, upload, 1, b"bytes")
        with pytest.raises(NotFound):
            place.complete_multipart(upload, [ChosenPart(1, md5_of(b"bytes"))])
        place.abort_multipart(upload)
        assert addresses(place) == []

    def test_only_old_uploads_are_swept(self, place: BlockStore) -> None:
        upload = place.begin_multipart()
        part = store_part(place, upload, 1, b"bytes")
        another = place.begin_multipart()
        assert place.sweep_unfinished(1_000_000) == 0
        assert place.list_parts(another) == []
        assert place.complete_multipart(upload, chosen(part)).size == 5
        assert open_uploads(place) >= 1
        with pytest.raises(NotFound):
            place.list_parts(another)
        assert open_uploads(place) == 0
        assert len(addresses(place)) == 1

    def test_a_sweep_is_bounded(self, place: BlockStore) -> None:
        for _ in range(5):
            place.begin_multipart()
        assert place.sweep_unfinished(1 << 62, 3) == 3
        assert place.sweep_unfinished(1 << 62, 3) == 2
        assert place.sweep_unfinished(1 << 62, 3) == 0
