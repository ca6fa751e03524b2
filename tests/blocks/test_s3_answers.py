"""Answers of S3 that were cut at any byte are errors, and children have no sockets of a parent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.base.limits.blocks import PART_BYTES_MIN
from lochan.staging.block_store import BlockStore
from lochan.testing.contracts.sample_blocks import (
    addresses,
    chosen,
    content_of,
    read_block,
    store_block,
    store_part,
)
from lochan.testing.forks import ForkedChild
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
def place(wire: FaultyWire, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockStore]:
    """A place that tries once, so that every cut is seen."""
    monkeypatch.setattr("lochan.blocks.s3.client.S3_ATTEMPTS_MAX", 1)
    monkeypatch.setattr("lochan.blocks.s3.reader.S3_ATTEMPTS_MAX", 1)
    place = open_s3(wire.port)
    yield place
    place.close()


def check_cuts(wire: FaultyWire, call: Callable[[], object]) -> None:
    """Cuts the answers to a call at each byte in turn: it returns the same, or it raises."""
    expected = call()
    wire.plan(WireFault.NOTHING, Way.TO_CLIENT, 0)
    assert call() == expected
    total = wire.passed(Way.TO_CLIENT)
    for after in range(1, total, counted(13, 1)):
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after)
        # It may also come between two answers, where nothing is lost.
        with suppress(Unavailable):
            assert call() == expected
        assert wire.happened.is_set()
    assert call() == expected


def test_no_cut_makes_a_block_absent_or_shorter(place, wire):
    block = store_block(place, b"some bytes")
    check_cuts(wire, lambda: place.find(block.address))
    check_cuts(wire, lambda: read_block(place, block))
    check_cuts(wire, lambda: read_block(place, block, 3, 5))
    check_cuts(wire, lambda: read_block(place, block, 3, 3))


def test_no_cut_makes_a_listing_shorter(place, wire):
    for number in range(2):
        store_block(place, b"%d" % number)
    upload = place.begin_multipart()
    store_part(place, upload, 1, b"bytes")
    check_cuts(wire, lambda: addresses(place))
    check_cuts(wire, lambda: place.list_parts(upload))
    check_cuts(wire, lambda: place.sweep_unfinished(0))


def test_no_cut_makes_an_upload_seem_stored(place, wire):
    check_cuts(wire, lambda: store_block(place, b"some bytes").etag)
    upload = place.begin_multipart()
    check_cuts(wire, lambda: store_part(place, upload, 1, b"bytes").etag)


def test_no_cut_loses_a_multipart_upload(place, wire):
    content = content_of(PART_BYTES_MIN)
    for after in range(1, 3_000, counted(330, 60)):
        wire.plan(WireFault.NOTHING, Way.TO_CLIENT, 0)
        upload = place.begin_multipart()
        parts = [store_part(place, upload, 1, content), store_part(place, upload, 2, b"the end")]
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after)
        try:
            block = place.complete_multipart(upload, chosen(*parts))
        except (Unavailable, Unknown):
            wire.release()
            block = place.complete_multipart(upload, chosen(*parts))
        wire.release()
        assert read_block(place, block) == content + b"the end"


def sockets() -> set[str]:
    """Returns the sockets that this process has open."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            # The directory itself was open while it was listed.
            continue
    return {name for name in found if name.startswith("socket:")}


def test_a_child_keeps_no_socket_of_its_parent(object_store):
    others = sockets()
    place = open_s3(object_store.port)
    content = content_of(3_000_000)
    block = store_block(place, content)
    reader = place.read(block.address, 0, block.size, size=block.size)
    pieces = [next(reader)]
    place.find(block.address)
    theirs = sockets() - others
    assert len(theirs) >= 2

    def work() -> list[str]:
        kept = sockets() & theirs
        assert read_block(place, block) == content
        return sorted(kept | (sockets() & theirs))

    assert ForkedChild(work).result() == []
    assert b"".join([*pieces, *reader]) == content
    assert place.find(block.address) is not None
    place.close()
