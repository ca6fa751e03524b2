"""S3 with cut connections and servers that restart or are absent: a whole block or an error."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest

from lochan.base.errors import (
    Corrupt,
    Exhausted,
    Invalid,
    InvalidUrl,
    LochanError,
    NotFound,
    Unavailable,
    Unknown,
)
from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES, BLOCK_PIECE_BYTES, PART_BYTES_MIN
from lochan.staging.block_store import BlockStore, ChosenPart, check_whole
from lochan.testing.contracts.sample_blocks import (
    ABSENT_ADDRESS,
    addresses,
    chosen,
    content_of,
    in_pieces,
    open_uploads,
    read_block,
    sha256_of,
    store_block,
    store_part,
)
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.blocks.s3_place import open_s3
from tests.profile import counted
from tests.spark.object_store import ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("s3_blocks")]


@pytest.fixture
def wire(object_store: ObjectStore) -> Iterator[FaultyWire]:
    with FaultyWire(object_store.port) as wire:
        yield wire


@pytest.fixture
def place(wire: FaultyWire) -> Iterator[BlockStore]:
    place = open_s3(wire.port)
    yield place
    place.close()


def cuts(total: int, many: int) -> list[int]:
    """Returns bytes at which to cut: the first ones, the last ones, and some between."""
    between = [total * part // (many + 1) for part in range(1, many + 1)]
    return sorted({1, 200, *between, max(1, total - 1)})


@pytest.mark.parametrize("size", [1_000, 2 * BLOCK_BUFFER_BYTES + 5])
@pytest.mark.parametrize("way", list(Way))
def test_an_upload_cut_at_any_byte_is_whole_or_not_there(place, wire, size, way):
    content = content_of(size)
    wire.plan(WireFault.NOTHING, way, 0)
    first = store_block(place, content)
    total = wire.passed(way)
    place.delete(first.address)
    stored = []
    for after in cuts(total, counted(2, 40)):
        wire.plan(WireFault.CUT, way, after)
        # Refused is what is not retried, such as the beginning of a multipart upload.
        with suppress(Unavailable, Exhausted):
            stored.append(store_block(place, content))
        wire.release()
    assert wire.happened.is_set()
    assert stored, "requests that may be repeated are repeated"
    for block in stored:
        assert read_block(place, block) == content
    # A lost answer may leave an object that no entry names, but never half of one.
    for info in place.iterate():
        pieces = place.read(info.address, 0, info.size, size=info.size)
        assert sha256_of(b"".join(pieces)) == sha256_of(content)
    open_uploads(place)
    assert open_uploads(place) == 0


def test_a_read_that_is_cut_goes_on_where_it_stopped(place, wire):
    content = content_of(3_000_000)
    block = store_block(place, content)
    for after in cuts(3_000_000, counted(4, 40)):
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after)
        pieces = place.read(block.address, 5, block.size, size=block.size)
        assert b"".join(pieces) == content[5:]
        assert wire.happened.is_set()


def test_a_completion_whose_answer_is_lost_can_be_repeated(place, wire):
    for after in (1, 100, 150):
        upload = place.begin_multipart()
        parts = [
            store_part(place, upload, 1, content_of(PART_BYTES_MIN)),
            store_part(place, upload, 2, b"the end"),
        ]
        place.list_parts(upload)
        wire.plan(WireFault.NOTHING, Way.TO_CLIENT, 0)
        place.list_parts(upload)
        listing = wire.passed(Way.TO_CLIENT)
        # After the answer to the listing of parts comes the one to the completion.
        wire.plan(WireFault.CUT, Way.TO_CLIENT, listing + after)
        try:
            block = place.complete_multipart(upload, chosen(*parts))
        except Unknown:
            block = place.complete_multipart(upload, chosen(*parts))
        assert wire.happened.is_set()
        assert place.complete_multipart(upload, chosen(*parts)) == block
        assert read_block(place, block) == content_of(PART_BYTES_MIN) + b"the end"


def test_a_server_that_restarts_in_the_middle(object_store, monkeypatch):
    # The pauses between attempts grow, and nothing answers while the server is down.
    monkeypatch.setattr("lochan.blocks.s3.client.S3_ATTEMPTS_MAX", 2)
    place = open_s3(object_store.port)
    content = content_of(2 * BLOCK_BUFFER_BYTES + 5)
    before = store_block(place, content)
    upload = place.begin()
    pieces = list(in_pieces(content))
    for piece in pieces[:40]:
        upload.write(piece)
    multipart = place.begin_multipart()
    part = store_part(place, multipart, 1, b"bytes")
    reader = place.read(before.address, 0, before.size, size=before.size)
    read = [next(reader)]
    object_store.crash()
    for call in (
        lambda: place.find(before.address),
        lambda: list(place.iterate()),
        lambda: place.read(before.address, 0, 5, size=before.size),
        lambda: store_block(place, b"bytes"),
        place.begin_multipart,
        lambda: place.sweep_unfinished(1 << 62),
    ):
        with pytest.raises(Unavailable):
            call()
    object_store.start()
    for piece in pieces[40:]:
        upload.write(piece)
    after = upload.finish()
    read += reader
    assert b"".join(check_whole(read, before.size, before.sha256 or "")) == content
    assert read_block(place, after) == content
    block = place.complete_multipart(multipart, chosen(part))
    assert read_block(place, block) == b"bytes"
    assert addresses(place) == sorted(found.address for found in (before, after, block))
    place.close()


def test_an_upload_that_is_aborted_without_a_server_leaves_only_what_the_sweep_finds(
    object_store, place, wire
):
    upload = place.begin()
    for piece in in_pieces(content_of(2 * BLOCK_BUFFER_BYTES)):
        upload.write(piece)
    wire.plan(WireFault.CUT, Way.TO_SERVER, 10)
    upload.abort()
    wire.release()
    open_uploads(place)
    assert open_uploads(place) == 0
    assert addresses(place) == []


def test_a_missing_bucket_is_an_error_and_not_an_empty_place(object_store):
    place = open_s3(object_store.port, bucket="there-is-none")
    for call in (
        lambda: place.find(ABSENT_ADDRESS),
        lambda: place.read(ABSENT_ADDRESS, 0, 0, size=0),
        lambda: place.read(ABSENT_ADDRESS, 0, 1, size=1),
        lambda: list(place.iterate()),
        lambda: place.sweep_unfinished(1 << 62),
    ):
        # SeaweedFS makes a missing bucket when an object is put, so no call writes here.
        with pytest.raises(Unavailable):
            call()
    place.close()


def test_wrong_credentials_are_an_error_that_shows_no_secret(object_store, caplog):
    from lochan.assembly.blocks import open_blocks
    from lochan.base.secrets import Secret

    url = f"s3://blocks/x?endpoint=http://127.0.0.1:{object_store.port}"
    place = open_blocks(url, access_key="tests", secret_key=Secret("a-very-wrong-secret"))
    with pytest.raises(Unavailable) as caught:
        list(place.iterate())
    with pytest.raises(LochanError) as other:
        store_block(place, b"bytes")
    for text in (str(caught.value), str(other.value), caplog.text, repr(place)):
        assert "a-very-wrong-secret" not in text
    place.close()


def test_bytes_that_changed_in_the_bucket_are_noticed(object_store, place):
    block = store_block(place, b"0123456789")
    path = f"blocks/{place._prefix}{block.address}"
    with object_store.filesystem().open_output_stream(path) as file:
        file.write(b"short")
    for start, end in ((0, 10), (5, 5), (7, 9), (0, 2)):
        with pytest.raises(Corrupt):
            list(place.read(block.address, start, end, size=10))
    with object_store.filesystem().open_output_stream(path) as file:
        file.write(b"9876543210")
    with pytest.raises(Corrupt):
        list(check_whole(place.read(block.address, 0, 10, size=10), 10, block.sha256 or ""))


def test_requests_are_bounded_by_the_number_of_connections(object_store, monkeypatch):
    monkeypatch.setattr("lochan.blocks.s3.client.S3_CONNECTION_WAIT_S", 0.01)
    place = open_s3(object_store.port, more="&connections=2")
    block = store_block(place, content_of(4 * BLOCK_PIECE_BYTES))
    readers = [place.read(block.address, 0, block.size, size=block.size) for _ in range(2)]
    with pytest.raises(Exhausted):
        place.find(block.address)
    readers[0].close()
    assert place.find(block.address) is not None
    assert b"".join(readers[1]) == content_of(4 * BLOCK_PIECE_BYTES)
    for _ in range(5):
        assert read_block(place, block, 3, 9) == content_of(4 * BLOCK_PIECE_BYTES)[3:9]
    place.close()


def test_signed_urls_read_any_block_and_write_each_address_once(object_store):
    place = open_s3(object_store.port)
    block = store_block(place, b"bytes")
    url = place.presign_get(block.address, 60)
    assert url is not None
    assert urllib.request.urlopen(url).read() == b"bytes"
    put = place.presign_put(60)
    assert put is not None
    assert place.find(put.address) is None

    def send(content: bytes, headers: dict[str, str]) -> int:
        request = urllib.request.Request(put.url, content, headers, method="PUT")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert send(b"without the condition", {}) == 403
    assert send(b"first", put.headers) == 200
    assert send(b"second", put.headers) == 412
    info = place.find(put.address)
    assert info is not None
    assert b"".join(place.read(put.address, 0, info.size, size=info.size)) == b"first"
    for lifetime_s in (0, -1, 90_000):
        with pytest.raises(Invalid):
            place.presign_put(lifetime_s)
    place.close()


def test_parts_that_were_sent_to_signed_urls_become_a_block(object_store):
    place = open_s3(object_store.port)
    upload = place.begin_multipart()
    signed = place.presign_parts(upload, (1, 2), 60)
    assert signed is not None
    parts = []
    for number, (url, content) in enumerate(
        zip(signed.urls, (content_of(5 * 1_024**2), b"end"), strict=True), 1
    ):
        request = urllib.request.Request(url, content, method="PUT")
        with urllib.request.urlopen(request) as answer:
            parts.append(ChosenPart(number, answer.headers["ETag"].strip('"')))
    assert place.find(signed.address) is None
    block = place.complete_multipart(upload, parts)
    assert block.address == signed.address
    assert read_block(place, block, block.size - 4, block.size)[1:] == b"end"
    for lifetime_s in (0, 90_000):
        with pytest.raises(Invalid):
            place.presign_parts(upload, (1,), lifetime_s)
    for number in (0, 10_001):
        with pytest.raises(Invalid):
            place.presign_parts(upload, (number,), 60)
    place.close()


def test_a_swept_multipart_upload_is_gone_for_its_writer(object_store):
    place = open_s3(object_store.port)
    upload = place.begin_multipart()
    part = place.begin_part(upload, 1)
    part.write(b"bytes")
    assert open_uploads(place) == 1
    with pytest.raises(NotFound):
        part.finish()
    place.close()


@pytest.mark.parametrize(
    "url",
    [
        "s3:", "s3://", "s3://B/x", "s3://user:secret@bucket/x", "s3:bucket/x", "s3://bucket?x=1",
        "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=http://a:b@host",
        "s3://bucket?region=", "s3://bucket?connections=0", "s3://bucket?connections=x",
        "s3://bucket?path_style=maybe",
        "s3://bucket?region=a&region=b",
    ],
)  # fmt: skip
def test_wrong_addresses_are_refused(url):
    from lochan.assembly.blocks import open_blocks

    with pytest.raises(InvalidUrl) as caught:
        open_blocks(url)
    assert "secret" not in str(caught.value)


def test_descriptors_are_given_back(object_store):
    place = open_s3(object_store.port)
    block = store_block(place, content_of(BLOCK_BUFFER_BYTES + 1))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        read_block(place, block)
        place.read(block.address, 0, block.size, size=block.size).close()
        store_block(place, b"bytes")
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    place.close()
