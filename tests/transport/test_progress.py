"""How long a connection waits for a body, by a clock that the test moves: progress counts."""

from __future__ import annotations

import socket
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from lochan.base.limits.http import (
    HTTP_BODY_BYTES_MAX,
    HTTP_PROGRESS_TIMEOUT_S,
    HTTP_TRAILER_BYTES_MAX,
    PROGRESS_BYTES_MIN,
)
from lochan.transport.connection import Connection
from lochan.transport.connection_registry import ConnectionRegistry, Timeouts
from lochan.transport.exchange import Request, Response
from lochan.transport.listener import Listener, ListenerOptions
from lochan.transport.progress import held_by_kernel
from lochan.transport.quotas import QuotaLimits, Quotas
from lochan.transport.routes import Match
from tests.transport.world import SmallFace

HEAD = b"POST /x HTTP/1.1\r\nHost: localhost\r\n"
LONG = HEAD + b"Content-Length: 100000\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class Loop:
    """As much of an event loop as the clock of connections asks for."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Any) -> Any:
        return None


class Transport:
    """Keeps what a connection writes, and whether it was closed."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = False

    def write(self, data: bytes) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.ended = True

    abort = close

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return None


class Bodies:
    """A driver that notes the bodies of requests."""

    def __init__(self, loop: Loop) -> None:
        self.lengths: list[int] = []
        self.context = SimpleNamespace(
            quotas=Quotas(QuotaLimits(), loop.time), request_bytes_max=HTTP_BODY_BYTES_MAX
        )

    def run(self, request: Any, framing: Any, found: Any, reply: Any) -> Any:
        self.lengths.append(len(request.body))
        reply(Response(200))


class AnyPath(SmallFace):
    """A face with one route for everything; what is refused has no body."""

    def owns(self, request: Request) -> bool:
        return True

    def match(self, request: Request) -> Match:
        return Match(self.routes["POST", b"echo"], {})


class World:
    """One connection, and the clock that watches it."""

    def __init__(self) -> None:
        self.loop, self.transport = Loop(), Transport()
        self.driver = Bodies(self.loop)
        self.registry = ConnectionRegistry(
            self.loop,  # type: ignore[arg-type]
            self.driver,  # type: ignore[arg-type]
            Timeouts(),
        )
        self.connection = Connection(Listener(self.registry, ListenerOptions(faces=[AnyPath()])))
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def pass_time(self, seconds: float) -> None:
        self.loop.now_s += seconds
        self.registry.tick()

    @property
    def status(self) -> int | None:
        return int(self.transport.written[9:12]) if self.transport.written else None


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(
    "begun",
    [
        LONG,
        LONG + b"some",
        CHUNKED,
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\nX: y",
    ],
)
def test_a_body_without_progress_for_30_seconds_is_given_up(world, begun):
    assert HTTP_PROGRESS_TIMEOUT_S == 30
    world.connection.data_received(begun)
    world.pass_time(HTTP_PROGRESS_TIMEOUT_S - 1)
    assert not world.transport.written
    world.pass_time(2)
    assert world.status == 408
    assert world.transport.ended


def test_no_body_is_given_up_early_because_it_began_between_two_ticks(world):
    world.loop.now_s += 0.49
    world.connection.data_received(LONG)
    world.pass_time(HTTP_PROGRESS_TIMEOUT_S - 0.01)
    assert not world.transport.written
    world.pass_time(0.01)
    assert world.status == 408


def test_no_answer_is_cut_early_because_it_paused_between_two_ticks(world):
    world.loop.now_s += 0.49
    world.connection.pause_writing()
    world.pass_time(HTTP_PROGRESS_TIMEOUT_S - 0.01)
    assert not world.transport.ended
    world.pass_time(0.01)
    assert world.transport.ended


def test_an_answer_that_leaves_the_kernel_steadily_makes_progress(world, monkeypatch):
    # The kernel takes nothing more from us for minutes, as it has taken megabytes before.
    held = [3_000_000]
    monkeypatch.setattr("lochan.transport.connection.held_by_kernel", lambda _: held[0])
    world.connection.pause_writing()
    for _ in range(200):
        held[0] -= PROGRESS_BYTES_MIN // 29
        world.pass_time(1)
    assert not world.transport.ended
    for _ in range(31):
        world.pass_time(1)
    assert world.transport.ended


def test_the_kernel_shows_what_the_other_side_has_not_taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver:
        assert held_by_kernel(sender) == 0
        sender.setblocking(False)
        sent = 0
        with suppress(BlockingIOError):
            while True:
                sent += sender.send(bytes(65_536))
        assert 0 < held_by_kernel(sender) < sent
        while sent:
            sent -= len(receiver.recv(65_536))
        while held_by_kernel(sender):
            pass
    assert held_by_kernel(sender) == 0
    assert held_by_kernel(None) == 0


def test_an_upload_of_the_least_progress_goes_on_for_ever(world):
    piece = b"%x\r\n%b\r\n" % (PROGRESS_BYTES_MIN // 29, b"x" * (PROGRESS_BYTES_MIN // 29))
    world.connection.data_received(CHUNKED)
    for _ in range(3_000):
        world.connection.data_received(piece)
        world.pass_time(1)
    assert not world.transport.written
    world.connection.data_received(b"0\r\n\r\n")
    assert world.status == 200
    assert world.driver.lengths == [3_000 * (PROGRESS_BYTES_MIN // 29)]


def test_an_upload_that_trickles_is_given_up_after_30_seconds(world):
    world.connection.data_received(CHUNKED)
    for _ in range(29):
        world.connection.data_received(b"1\r\nx\r\n")
        world.pass_time(1)
    assert not world.transport.written
    world.pass_time(1)
    assert world.status == 408


def test_a_fast_upload_that_stops_is_given_up_30_seconds_later(world):
    world.connection.data_received(CHUNKED)
    for _ in range(100):
        world.connection.data_received(b"10000\r\n" + bytes(65_536) + b"\r\n")
        world.pass_time(1)
    assert not world.transport.written
    world.pass_time(28)
    assert not world.transport.written
    for _ in range(4):
        world.pass_time(1)
    assert world.status == 408


def test_what_is_no_byte_of_the_body_is_no_progress(world):
    world.connection.data_received(CHUNKED + b"5\r\nhello\r\n0\r\n")
    for number in range(60):
        world.connection.data_received(b"X-%d: y\r\n" % number)
        world.pass_time(1)
    assert world.status == 408


LINE = b"X: " + b"y" * 1_000 + b"\r\n"


@pytest.mark.parametrize("piece_bytes", [97, 1_000, 65_536, 2_000_000])
@pytest.mark.parametrize(
    "trailers",
    [b"X: " + b"y" * 1_000_000 + b"\r\n\r\n", LINE * 66 + b"\r\n", b"X: " + b"y" * 140_000],
    ids=["one", "many", "unfinished"],
)
def test_trailers_are_bounded(world, trailers, piece_bytes):
    raw = CHUNKED + b"5\r\nhello\r\n0\r\n" + trailers
    for at in range(0, len(raw), piece_bytes):
        world.connection.data_received(raw[at : at + piece_bytes])
    if piece_bytes > len(raw) and not raw.endswith(b"\n"):
        # One read has brought all of it, and a body before it.
        world.connection.data_received(b"y" * HTTP_TRAILER_BYTES_MAX + b"y")
    assert world.status == 431
    assert world.driver.lengths == []


def test_a_chunk_extension_is_bounded_too(world):
    world.connection.data_received(CHUNKED + b"5;")
    for _ in range(200):
        world.connection.data_received(b"x" * 1_000)
    assert world.status is not None
    assert world.status >= 400


def test_trailers_within_the_bound_are_read_over(world):
    world.connection.data_received(CHUNKED + b"5\r\nhello\r\n0\r\n" + LINE * 60 + b"\r\n")
    assert world.status == 200
    assert world.driver.lengths == [5]


def test_many_requests_on_one_connection_have_a_bound_each(world):
    for _ in range(50):
        world.connection.data_received(CHUNKED + b"5\r\nhello\r\n0\r\n" + LINE * 30 + b"\r\n")
    assert world.driver.lengths == [5] * 50


def test_what_came_before_a_request_does_not_count_against_its_headers(world):
    world.connection.data_received(LONG)
    world.connection.data_received(bytes(100_000) + LONG[:20])
    world.connection.data_received(LONG[20:] + bytes(100_000))
    assert world.driver.lengths == [100_000] * 2


def test_requests_sent_ahead_of_the_last_answer_are_dropped(world):
    # The server is stopping, so the first answer is the last one of the connection.
    world.registry.stopping = True
    ahead = b"POST /t/echo/b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
    world.connection.data_received(ahead * 3)
    assert world.driver.lengths == [5]
    assert world.transport.ended
    world.connection.data_received(ahead * 3)
    assert world.driver.lengths == [5]
    assert world.registry.held_bytes == 0
    assert not world.connection._received
