"""The layer between a connection and its socket, in memory: a client's TLS on one side of it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from lochan.transport.tls_layer import TlsLayer
from tests.transport.certificates import CertificateFiles


class Socket:
    """As much of the loop's transport as the layer asks for."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.unsent_bytes = 0
        self.reading = True
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        assert not self.calls, "nothing is written after the end"
        self.written += data

    def write_eof(self) -> None:
        self.calls.append("write_eof")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes


class Recorder(asyncio.Protocol):
    """The connection above: notes what it gets, and does what a test wants with it."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.events: list[str] = []
        self.keeps_open = False
        self.transport: Any = None
        self.pauses = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert "eof" not in self.events
        self.got += data
        if self.pauses:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keeps_open

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")


class Pair:
    """A client, and the layer that it speaks with."""

    def __init__(self, files: CertificateFiles) -> None:
        self.socket, self.connection = Socket(), Recorder()
        self.layer = TlsLayer(self.connection, files.load().context)
        self.layer.connection_made(self.socket)  # type: ignore[arg-type]
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = files.trust().wrap_bio(self._in, self._out, server_hostname="localhost")

    def pass_on(self, size: int = 1 << 20) -> None:
        """Passes what each side has written, in pieces of a size."""
        raw = self.sent()
        for at in range(0, len(raw), size):
            self.layer.data_received(raw[at : at + size])
        self._in.write(bytes(self.socket.written))
        self.socket.written.clear()

    def sent(self) -> bytes:
        """Takes what the client has written."""
        return self._out.read()

    def shake_hands(self, size: int = 1 << 20) -> None:
        while True:
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.pass_on(size)
            else:
                self.pass_on(size)
                return


async def next_turn() -> None:
    """Returns when the loop has done what it had to do soon."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def pair(files):
    return Pair(files)


@pytest.mark.parametrize("size", [1, 5, 100, 1 << 20])
def test_records_may_be_cut_anywhere(pair, size):
    pair.shake_hands(size)
    pair.client.write(b"hello " * 5_000)
    pair.pass_on(size)
    assert pair.connection.got == b"hello " * 5_000
    pair.layer.writelines([b"", b"an", bytearray(b"swer"), memoryview(b"s" * 20_000)])
    pair.pass_on()
    got = b""
    while len(got) < 20_006:
        got += pair.client.read(65_536)
    assert got == b"answer" + b"s" * 20_000


def test_nothing_is_delivered_while_the_connection_does_not_read(pair):
    async def run() -> None:
        pair.shake_hands()
        for number in range(3):
            pair.client.write(b"%d" % number)
        pair.connection.pauses = True
        pair.pass_on()
        for got in (b"0", b"01", b"012"):
            assert pair.connection.got == got
            assert not pair.socket.reading
            pair.layer.resume_reading()
            # Never within the call, which the connection makes while it takes a request apart.
            assert pair.connection.got == got
            assert pair.socket.reading
            await next_turn()

    asyncio.run(run())


def test_an_end_that_comes_while_the_connection_does_not_read_waits_for_what_came_before(pair):
    async def run() -> None:
        pair.shake_hands()
        pair.client.write(b"0")
        pair.client.write(b"1")
        pair.connection.pauses = True
        pair.pass_on()
        assert pair.layer.eof_received()
        assert (bytes(pair.connection.got), pair.connection.events) == (b"0", [])
        pair.layer.resume_reading()
        await next_turn()
        assert (bytes(pair.connection.got), pair.connection.events) == (b"01", [])
        pair.layer.resume_reading()
        await next_turn()
        assert pair.connection.events == ["eof"]
        assert pair.socket.calls == ["close"]

    asyncio.run(run())


def test_what_is_written_before_the_handshake_is_sent_after_it(pair):
    pair.layer.write(b"too many")
    pair.layer.write_eof()
    assert pair.layer.get_write_buffer_size() == 8
    assert not pair.socket.written
    pair.shake_hands()
    assert pair.client.read(100) == b"too many"
    assert pair.client.read(100) == b""
    assert pair.socket.calls == ["write_eof"]
    assert pair.layer.get_write_buffer_size() == 0


def test_our_end_is_announced_and_what_still_comes_is_dropped(pair):
    pair.shake_hands()
    pair.client.write(b"before")
    pair.pass_on()
    pair.layer.write(b"the last")
    pair.client.write(b"under way")
    pair.layer.write_eof()
    pair.pass_on()
    assert pair.client.read(100) == b"the last"
    assert pair.client.read(100) == b""
    assert pair.connection.got == b"before"
    pair.layer.write(b"more")
    assert not pair.socket.written
    assert pair.layer.eof_received()
    assert pair.connection.events == ["eof"]
    assert pair.socket.calls == ["write_eof", "close"]


def test_a_client_that_ends_its_direction_still_gets_its_answer(pair):
    pair.connection.keeps_open = True
    pair.shake_hands()
    pair.client.write(b"the question")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.pass_on()
    assert (bytes(pair.connection.got), pair.connection.events) == (b"the question", ["eof"])
    assert pair.layer.eof_received()
    assert pair.connection.events == ["eof"]
    pair.layer.write(b"the answer")
    pair.pass_on()
    assert pair.client.read(100) == b"the answer"


def test_a_damaged_record_ends_the_connection_with_an_alert(pair):
    pair.shake_hands()
    pair.client.write(b"hello")
    raw = bytearray(pair.sent())
    raw[-1] ^= 1
    pair.layer.data_received(bytes(raw))
    assert pair.socket.calls == ["close"]
    assert pair.connection.got == b""
    pair.pass_on()
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        pair.client.read(1)
    # What comes afterwards is not looked at.
    pair.layer.data_received(b"x")
    pair.layer.write(b"x")
    pair.layer.close()
    assert not pair.socket.written


def test_an_end_before_the_handshake_closes(pair):
    assert not pair.layer.eof_received()
    assert pair.connection.events == []


def test_the_size_of_what_is_unsent_is_that_of_the_socket(pair):
    pair.shake_hands()
    pair.socket.unsent_bytes = 123
    assert pair.layer.get_write_buffer_size() == 123


@pytest.mark.parametrize("established", [True, False])
def test_a_connection_that_is_gone_can_be_asked_for_anything(pair, established):
    if established:
        pair.shake_hands()
    pair.layer.write(b"x")
    pair.socket.calls.append("close")
    pair.layer.connection_lost(None)
    pair.layer.write(b"x")
    pair.layer.write_eof()
    pair.layer.data_received(b"x")
    pair.layer.close()
    pair.layer.abort()
    assert pair.connection.events == ["lost"]
