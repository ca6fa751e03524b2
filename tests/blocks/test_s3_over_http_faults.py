"""A whole server whose object store is cut, restarted or down: an error, and nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES
from lochan.testing.contracts.sample_blocks import addresses, content_of, open_uploads
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.blocks.s3_server import FilesServer, SlowUpload, file_url, files_server
from tests.profile import counted
from tests.spark.object_store import ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("s3_blocks")]

LARGE = content_of(3 * BLOCK_BUFFER_BYTES + 5)
BLOCK = content_of(50_000)
CALLERS = 12


@pytest.fixture
def server(object_store: ObjectStore, tmp_path: Path) -> Iterator[FilesServer]:
    with files_server(object_store, tmp_path) as server:
        yield server


def settled(look: Callable[[], int], most: int) -> int:
    """Looks until a number is small enough, for a while; returns it."""
    pause = Event()
    for _ in range(300):
        if look() <= most:
            break
        pause.wait(0.1)
    return look()


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("content", [BLOCK, LARGE], ids=["one put", "parts"])
def test_an_upload_is_whole_or_not_there_wherever_its_connection_to_the_place_is_cut(
    object_store, tmp_path, way, content
):
    with (
        FaultyWire(object_store.port) as wire,
        files_server(object_store, tmp_path, port=wire.port) as server,
    ):
        wire.plan(WireFault.NOTHING, way, 0)
        assert server.file("PUT", "first", content=content).status_code == 200
        total = wire.passed(way)
        steps = counted(2, 12)
        for number, after in enumerate([1, *(total * at // steps for at in range(1, steps + 1))]):
            wire.plan(WireFault.CUT, way, after)
            made = server.file("PUT", f"f{number}", content=content)
            wire.release()
            read = server.file("GET", f"f{number}")
            # Requests that may be repeated are; the beginning of a multipart upload is not.
            if made.status_code == 200:
                assert read.content == content
            else:
                assert (made.status_code, read.status_code) == (503, 404)
        open_uploads(server.place)
        assert open_uploads(server.place) == 0


def test_an_object_store_that_ends_during_an_upload_stores_nothing(object_store, server):
    upload = SlowUpload(server, "cut", len(LARGE))
    half = 2 * BLOCK_BUFFER_BYTES + 70_000
    upload.send(LARGE[:half])
    assert settled(lambda: -server.place_uploads(), -1) == -1
    object_store.crash()
    try:
        upload.send(LARGE[half:])
        assert upload.status() == 503
        assert server.file("GET", "cut").status_code == 404
    finally:
        object_store.start()
    assert server.file("GET", "cut").status_code == 404
    assert addresses(server.place) == []
    # The server could not remove its parts; the sweep of a later day does.
    assert open_uploads(server.place) == 1
    assert open_uploads(server.place) == 0
    assert server.file("PUT", "cut", content=LARGE).status_code == 200
    assert server.file("GET", "cut").content == LARGE


def test_an_object_store_that_restarts_during_an_upload_gets_the_rest(object_store, server):
    upload = SlowUpload(server, "kept", len(LARGE))
    half = 2 * BLOCK_BUFFER_BYTES + 70_000
    upload.send(LARGE[:half])
    assert settled(lambda: -server.place_uploads(), -1) == -1
    object_store.crash()
    object_store.start()
    upload.send(LARGE[half:])
    assert upload.status() == 200
    assert server.file("GET", "kept").content == LARGE
    assert open_uploads(server.place) == 0


def test_a_client_that_leaves_during_an_upload_leaves_nothing(server):
    for sent in (20_000, BLOCK_BUFFER_BYTES + 100_000, len(LARGE) - 1):
        upload = SlowUpload(server, "left", len(LARGE))
        upload.send(LARGE[:sent])
        upload.leave()
    assert settled(server.place_uploads, 0) == 0
    assert server.file("GET", "left").status_code == 404
    assert addresses(server.place) == []


def test_without_an_object_store_requests_are_answered_and_leave_nothing(object_store, server):
    server.file("PUT", "large", content=BLOCK)
    server.file("PUT", "small", content=b"few bytes")

    def ask(number: int) -> httpx.Response:
        # Each on a connection of its own, as different clients are.
        url = server.served.address + file_url("large" if number % 2 else f"new{number}")
        if number % 2:
            return httpx.get(url, timeout=120)
        return httpx.put(url, content=BLOCK, timeout=120)

    def burst() -> None:
        with ThreadPoolExecutor(CALLERS) as callers:
            for answer in callers.map(ask, range(CALLERS)):
                assert answer.status_code == 503, answer.text
                assert "the place for object data is not available" in answer.json()["message"]
                assert answer.headers["retry-after"]

    object_store.crash()
    try:
        burst()
        threads, descriptors = server.threads(), server.descriptors()
        # What is in the store needs no object store.
        assert server.file("GET", "small").content == b"few bytes"
        assert server.file("PUT", "small2", content=b"x").status_code == 200
        for _ in range(counted(1, 5)):
            burst()
        assert settled(server.threads, threads) <= threads
        assert settled(server.descriptors, descriptors) <= descriptors
    finally:
        object_store.start()

    def status() -> int:
        # The object store answers a while before its volumes are there again.
        found = server.file("GET", "large").status_code
        assert found in (200, 503)
        return found

    assert settled(status, 200) == 200
    assert server.file("GET", "large").content == BLOCK
    for number in range(0, CALLERS, 2):
        assert server.file("GET", f"new{number}").status_code == 404
    assert server.file("PUT", "new0", content=BLOCK).status_code == 200
    assert len(addresses(server.place)) == 2
    assert open_uploads(server.place) == 0
