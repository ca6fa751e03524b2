"""Bytes of files over connections that break: what goes on, what is sent again, what is unknown."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from lochan.base.errors import Conflict, Unavailable, Unknown
from lochan.client import AsyncClient, Client
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.client.serving import serving
from tests.client.test_lost_replies import Losing, losing_client

LONG = bytes(range(256)) * 8_000


@pytest.fixture
def address() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def wire(address: str) -> Iterator[FaultyWire]:
    with FaultyWire(urlsplit(address).port or 0) as one:
        yield one


def through(wire: FaultyWire) -> str:
    return f"http://127.0.0.1:{wire.port}"


@pytest.mark.parametrize("after", [1_000, 70_000, 1_000_000, 2_040_000])
def test_a_download_goes_on_after_its_connection_breaks(address, wire, after):
    with Client(address) as client:
        client.files.put("main", "a", LONG)
    with Client(through(wire), sleep=lambda _: None) as client:
        client.files.stat("main", "a")
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after)
        with client.files.open("main", "a") as stream:
            assert stream.read() == LONG
        assert wire.happened.is_set()
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after // 2)
        target = io.BytesIO()
        with client.files.open("main", "a", start=10, end=len(LONG) - 10) as stream:
            for piece in stream:
                target.write(piece)
        assert target.getvalue() == LONG[10:-10]


def test_a_download_of_the_asynchronous_client_goes_on_too(address, wire):
    async def run() -> bytes:
        async with AsyncClient(through(wire)) as client:
            await client.files.put("main", "a", LONG)
            wire.plan(WireFault.CUT, Way.TO_CLIENT, 700_000)
            async with await client.files.open("main", "a") as stream:
                return await stream.read()

    assert asyncio.run(run()) == LONG


def test_a_file_that_was_replaced_is_not_continued(address, wire):
    with Client(address) as other, Client(through(wire), sleep=lambda _: None) as client:
        other.files.put("main", "a", LONG)
        wire.plan(WireFault.CUT, Way.TO_CLIENT, 100_000)
        with client.files.open("main", "a") as stream:
            first = next(iter(stream))
            other.files.put("main", "a", LONG[::-1])
            pieces: list[bytes] = []
            with pytest.raises(Conflict, match="replaced"):
                pieces.extend(stream)
        assert LONG.startswith(first + b"".join(pieces))


def test_a_download_that_never_comes_to_its_end_is_an_error(address):
    class Cutting(httpx.BaseTransport):
        """Cuts every body short."""

        def __init__(self) -> None:
            self._through = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = self._through.handle_request(request)
            if request.url.path.endswith("/file") and request.method == "GET":
                response.close()
                nothing = httpx.ByteStream(b"")
                return httpx.Response(
                    response.status_code, headers=response.headers, stream=nothing
                )
            return response

        def close(self) -> None:
            self._through.close()

    with Client(address, transport=Cutting(), sleep=lambda _: None) as client:
        client.files.put("main", "a", LONG)
        with client.files.open("main", "a") as stream, pytest.raises(Unavailable):
            stream.read()


@pytest.mark.parametrize("status", [None, 504])
def test_an_upload_whose_reply_is_lost_is_sent_again_if_its_source_can_be_read_again(
    address, tmp_path, status
):
    local = tmp_path / "local"
    local.write_bytes(LONG)
    for number, body in enumerate([LONG, local, io.BytesIO(LONG)]):
        transport = Losing(2, status)
        client, pauses = losing_client(address, transport)
        with client:
            info = client.files.put("main", f"a{number}", body, if_absent=True)
            assert client.files.read("main", f"a{number}") == LONG
        assert info.size == len(LONG)
        assert len(transport.keys) == 3
        assert len(set(transport.keys)) == 1
        assert len(pauses) == 2


def test_an_upload_that_cannot_be_read_again_is_unknown_after_a_lost_reply(address):
    transport = Losing(1)
    client, _ = losing_client(address, transport)
    with client, pytest.raises(Unknown):
        client.files.put("main", "a", iter([LONG]))
    assert len(transport.keys) == 1


def test_an_upload_that_was_refused_is_not_sent_again_if_it_cannot_be_read_again(address):
    class Busy(httpx.BaseTransport):
        def __init__(self) -> None:
            self.sent = 0

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            for _ in request.stream:  # type: ignore[union-attr]
                pass
            self.sent += 1
            return httpx.Response(503, request=request)

    transport = Busy()
    pauses: list[float] = []
    with Client(address, transport=transport, sleep=pauses.append) as client:
        with pytest.raises(Unavailable):
            client.files.put("main", "a", iter([b"1"]))
        assert transport.sent == 1
        with pytest.raises(Unavailable):
            client.files.put("main", "a", b"1")
    assert transport.sent > 2


@pytest.mark.parametrize("after", [10, 5_000, 1_000_000, 2_048_000])
def test_an_upload_whose_connection_breaks_is_sent_again(address, wire, after):
    with Client(through(wire), sleep=lambda _: None) as client:
        client.config()
        wire.plan(WireFault.CUT, Way.TO_SERVER, after)
        client.files.put("main", "a", LONG)
        assert client.files.read("main", "a") == LONG
        (staged,) = client.files.iterate_uncommitted("main")
        assert staged.path == "a"


def test_a_source_that_fails_stores_nothing_and_the_client_stays_usable(address):
    def broken() -> Iterator[bytes]:
        yield LONG
        raise RuntimeError("the source broke")

    with Client(address) as client:
        with pytest.raises(RuntimeError, match="the source broke"):
            client.files.put("main", "a", broken())
        assert list(client.files.iterate("main")) == []


def test_the_asynchronous_client_takes_asynchronous_iterators(address, tmp_path):
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(LONG), 100_000):
            yield LONG[at : at + 100_000]

    async def run() -> list[Any]:
        async with AsyncClient(address) as client:
            await client.files.put("main", "a", pieces())
            local = tmp_path / "local"
            local.write_bytes(LONG)
            await client.files.put("main", "b", local)
            target = io.BytesIO()
            async with await client.files.open("main", "a") as stream:
                async for piece in stream:
                    target.write(piece)
            return [target.getvalue(), await client.files.read("main", "b")]

    assert asyncio.run(run()) == [LONG, LONG]


def test_early_refusals_of_long_uploads_are_read(address):
    with Client(address) as client:
        client.files.put("main", "a", b"1")
        for path in ("a", "x" * 2_000):
            with pytest.raises(Exception, match=r"a|path") as refused:
                client.files.put("main", path, bytes(30_000_000), if_absent=True)
            assert type(refused.value).__name__ in ("ConditionFailed", "Invalid", "InvalidKey")
