"""Streams at their edges: encodings that faces keep, bad lengths, sources that never wait."""

from __future__ import annotations

import asyncio

import pytest

from lochan.transport.body_streams import ResponseStream
from lochan.transport.parts_writer import PartsWriter
from tests.transport.byte_face import ByteFace
from tests.transport.world import Client, SmallFace, running


@pytest.fixture(scope="module")
def face():
    return ByteFace()


@pytest.fixture(scope="module")
def server(face):
    with running(faces=[face, SmallFace()]) as started:
        yield started


@pytest.fixture
def client(server):
    with Client(server) as connected:
        yield connected


@pytest.mark.parametrize("encoding", ["br", "aws-chunked", "zstd, gzip", "gzip"])
def test_the_encoding_of_a_streamed_body_is_the_business_of_its_face(client, face, encoding):
    line = f"Content-Encoding: {encoding}"
    assert client.ask("PUT", "/b/encoded", b"raw", line).status == 201
    assert face.stored[b"encoded"] == b"raw"
    if encoding != "gzip":
        answer = client.ask("POST", "/t/echo/x", b"raw", line)
        assert (answer.status, answer.json()["errorCode"]) == (415, "REFUSED")


def test_an_answer_of_less_than_no_bytes_is_an_error_of_the_server(server, client):
    assert client.ask("GET", "/b-zeros/-5").status == 500
    assert server.on_loop(lambda: server.server.driver.streams) == 0


def test_a_source_that_never_waits_does_not_keep_the_loop():
    """A transport that takes everything at once, as that of asyncio does for a fast client."""
    written: list[int] = []

    class Taking(asyncio.Transport):
        def write(self, data) -> None:
            written.append(len(data))

        def is_closing(self) -> bool:
            return False

    async def source():
        for _ in range(1_000):
            yield b"part"

    async def send() -> int:
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        PartsWriter(Taking(), ResponseStream(source(), 4_000), chunked=False, done=ended.set_result)
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not ended.done():
                asyncio.get_running_loop().call_soon(turn)

        turn()
        await ended
        return turns

    assert asyncio.run(send()) >= 1_000
    assert sum(written) == 4_000
