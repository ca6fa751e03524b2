"""Streamed bodies in both directions: whole or an error, never faster than the other side."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import contextmanager
from functools import partial
from hashlib import sha256

import pytest

from lochan.access.policy import Principal
from lochan.base.errors import Denied, Invalid, TooLarge
from lochan.base.limits.http import HTTP_WRITE_BUFFER_HIGH, STREAM_BUFFER_BYTES
from lochan.transport.body_streams import BodyStream
from lochan.transport.connection import Connection
from lochan.transport.exchange import Exchange, Response
from lochan.transport.routes import Authentication, Route
from lochan.transport.server import Options
from tests.stateful.byte_wire import Answers, Wire
from tests.transport.byte_face import ByteFace
from tests.transport.world import CUT, Client, SmallFace, echo, running

BODY = bytes(range(256)) * 700


@pytest.fixture(scope="module")
def face():
    return ByteFace(bytes_max=1 << 20)


@pytest.fixture(scope="module")
def server(face):
    with running(faces=[face, SmallFace()], options=Options(port=0)) as started:
        yield started


@pytest.fixture
def client(server):
    with Client(server) as connected:
        yield connected


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


def put_chunks(client: Client, key: str, raw: bytes) -> bytes:
    return client.request("PUT", f"/b/{key}", b"", "Transfer-Encoding: chunked") + raw


def read_chunks(client: Client) -> bytes:
    """Reads a body in chunks to its end."""
    parts = []
    while size := int(client._until(b"\r\n"), 16):
        parts.append(client._exactly(size))
        assert client._exactly(2) == b"\r\n"
    assert client._exactly(2) == b"\r\n"
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 7, 65_535, 65_536, 65_537, len(BODY)])
def test_a_body_in_chunks_or_with_a_length_is_stored_whole(client, face, size):
    client.send(put_chunks(client, f"chunks-{size}", chunked(BODY[: size * 40], size)))
    assert client.read().status == 201
    assert face.stored[b"chunks-%d" % size] == BODY[: size * 40]
    assert client.ask("PUT", f"/b/whole-{size}", BODY[:size]).status == 201
    assert client.ask("GET", f"/b/whole-{size}").body == BODY[:size]


def test_an_empty_body_is_stored(client, face):
    assert client.ask("PUT", "/b/empty", b"", "Content-Length: 0").status == 201
    assert face.stored[b"empty"] == b""


@pytest.mark.parametrize("key", ["../x", "a//b", "./.", "%2F%2e%2e", "a%00b", "~^*@"])
def test_a_key_may_hold_what_other_faces_refuse(client, face, key):
    assert client.ask("PUT", f"/b/{key}", b"some").status == 201
    assert face.stored[key.encode()] == b"some"
    assert client.ask("GET", f"/b/{key}").body == b"some"


@contextmanager
def broken_off(server, face, raw: bytes):
    """Sends bytes, closes, and waits until the server has noticed."""
    face.failures.clear()
    before = dict(face.stored)
    with Client(server) as client:
        client.send(raw)
        client.socket.shutdown(socket.SHUT_WR)
        yield client
    assert face.stored == before


def test_a_body_that_is_cut_at_any_byte_is_an_error_and_nothing_is_stored(server, face, client):
    for whole in (
        client.request("PUT", "/b/cut", b"0123456789"),
        put_chunks(client, "cut", chunked(b"0123456789", 4)),
    ):
        head = whole.index(b"\r\n\r\n") + 4
        for cut in range(1, len(whole)):
            with broken_off(server, face, whole[:cut]) as broken:
                while broken.socket.recv(65_536):
                    pass
            assert len(face.failures) == (cut >= head), cut
            assert all(type(error) is Invalid for error in face.failures)


@pytest.mark.parametrize(
    "raw",
    [b"x\r\n", b"4\r\n01234\r\n", b"4\r\n0123\r\n\r\n", b"-1\r\n", b"4\r\n0123x\r\n0\r\n\r\n"],
)
def test_a_broken_chunk_is_an_error_and_nothing_is_stored(server, face, client, raw):
    good = b"4\r\n0123\r\n"
    with broken_off(server, face, put_chunks(client, "broken", good + raw)) as broken:
        assert broken.read().status == 400
        assert broken.is_closed()
    assert len(face.failures) == 1


def test_a_body_over_its_limit_is_refused_by_the_face(server, face):
    with Client(server) as client:
        answer = client.ask("PUT", "/b/large", bytes((1 << 20) + 1))
        assert (answer.status, answer.body[:8]) == (413, b"refused:")
    face.failures.clear()
    with Client(server) as client:
        client.send(put_chunks(client, "large", chunked(bytes((1 << 20) + 1), 65_536)))
        answer = client.read()
        assert (answer.status, answer.body[:8]) == (413, b"problem:")
        assert client.is_closed()
    assert [type(error) for error in face.failures] == [TooLarge]
    assert b"large" not in face.stored


def test_a_client_that_waits_is_asked_for_the_body_when_the_handler_reads(client):
    head = client.request("PUT", "/b/asked", b"hello", "Expect: 100-continue")[:-5]
    client.send(head)
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    client.send(b"hello")
    assert client.read().status == 201


def test_a_body_that_is_not_wanted_is_never_asked_for(client):
    client.send(client.request("PUT", "/b-early/x", b"hello", "Expect: 100-continue")[:-5])
    answer = client.read()
    assert (answer.status, answer.headers["connection"]) == (403, "close")
    assert client.is_closed()


def test_requests_of_one_connection_are_answered_in_order(client, face):
    face.stored.pop(b"first", None)
    client.send(
        client.request("GET", "/t/echo/0")
        + client.request("PUT", "/b/first", b"one")
        + put_chunks(client, "second", chunked(b"two", 1))
        + client.request("GET", "/b/first")
        + client.request("POST", "/t/echo/1", b"x")
        + client.request("GET", "/b/second")
    )
    answers = [client.read() for _ in range(6)]
    assert [answer.status for answer in answers] == [200, 201, 201, 200, 200, 200]
    assert (answers[3].body, answers[5].body) == (b"one", b"two")


def connections_of(server, name) -> list[Connection]:
    """The server's side of a client's connection."""
    found = server.server.registry.connections
    return [each for each in found if each._transport.get_extra_info("peername") == name]


def test_a_body_that_comes_while_an_answer_waits_for_its_client_is_stored_whole(server, face):
    with Client(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.send(client.request("GET", "/t/big/4000000"))
        name = client.socket.getsockname()
        while not (found := server.on_loop(lambda: connections_of(server, name))):
            pass
        (ours,) = found
        while server.on_loop(lambda: ours._may_write):
            pass
        client.send(client.request("PUT", "/b/behind", BODY[:1_000]))
        while not server.on_loop(lambda: bool(ours._received)):
            pass
        assert [client.read().status, client.read().status] == [200, 201]
        assert face.stored[b"behind"] == BODY[:1_000]


def test_a_client_is_asked_for_a_body_in_the_turn_of_its_request(client, face):
    asks = client.request("PUT", "/b/asks", b"hello", "Expect: 100-continue")[:-5]
    client.send(client.request("PUT", "/b/before", b"one") + asks)
    assert client.read().status == 201
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    client.send(b"hello")
    assert client.read().status == 201


@pytest.fixture
def gated(server, face):
    """Adds a handler that waits for an event, and refuses without reading."""
    gate = server.on_loop(asyncio.Event)

    async def wait(exchange):
        await gate.wait()
        raise Denied("not read")

    face.routes[b"b-gate"] = Route("gate", wait, streams=True, body_bytes_max=1 << 20)
    yield gate
    server.on_loop(gate.set)
    del face.routes[b"b-gate"]


def test_a_connection_reads_on_after_a_body_that_filled_its_buffer_was_not_read(server, gated):
    last = STREAM_BUFFER_BYTES - 10
    with Client(server) as client:
        raw = client.request("PUT", "/b-gate/x", bytes(STREAM_BUFFER_BYTES + 10))
        client.send(raw[:-20])
        while server.on_loop(lambda: max(buffered(server))) < last:
            pass
        client.send(raw[-20:])
        while server.on_loop(lambda: max(buffered(server))):
            pass
        server.on_loop(gated.set)
        answer = client.read()
        assert (answer.status, answer.headers.get("connection")) == (403, None)
        assert client.ask("GET", "/t/echo/next").status == 200


def test_a_request_whose_client_left_is_not_counted_as_under_way(server, gated):
    driver = server.server.driver
    before = server.on_loop(lambda: driver.under_way)
    with Client(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.send(client.request("GET", "/b-gate/x"))
        while not server.on_loop(lambda: driver.streams):
            pass
    while server.on_loop(lambda: driver.streams):
        pass
    assert server.on_loop(lambda: driver.under_way) == before


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("path", ["/b-zeros/100000", "/b/none", "/b-events"])
def test_a_client_that_leaves_at_any_turn_of_the_loop_frees_its_slot(server, client, path, turns):
    assert client.ask("GET", "/t/echo/first").status == 200
    driver, loop = server.server.driver, asyncio.get_running_loop
    before = server.on_loop(lambda: driver.under_way)

    def leave(wire: Wire, left: int) -> None:
        if left:
            loop().call_soon(leave, wire, left - 1)
        else:
            wire.lose()

    def come_and_leave() -> None:
        wire = Wire(Answers(["GET"]))
        wire.connect(Connection(server.server.listeners[0]))
        wire.deliver(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert driver.streams
        leave(wire, turns)

    server.on_loop(come_and_leave)
    while server.on_loop(lambda: driver.streams):
        pass
    assert server.on_loop(lambda: driver.under_way) == before


def test_a_handler_that_does_not_read_makes_the_client_wait(server, face):
    with Client(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        client.send(client.request("PUT", "/b/held", b"x" * 900_000)[:-900_000])
        stopped = hold(server, face)
        client.socket.setblocking(False)
        sent = send_what_fits(server, client, b"x" * 900_000)
        assert server.on_loop(lambda: max(buffered(server))) <= STREAM_BUFFER_BYTES + 262_144
        client.socket.setblocking(True)
        stopped()
        client.send(b"x" * (900_000 - sent))
        assert client.read().status == 201
    assert len(face.stored[b"held"]) == 900_000


def hold(server, face):
    """Makes readers of bodies wait; returns what lets them go on."""
    read = BodyStream.read
    gate = server.on_loop(asyncio.Event)

    async def waiting(self):
        await gate.wait()
        return await read(self)

    setattr(BodyStream, "read", waiting)  # noqa: B010 - a method of all streams

    def release() -> None:
        setattr(BodyStream, "read", read)  # noqa: B010
        server.on_loop(gate.set)

    return release


def buffered(server) -> list[int]:
    streams = [each._stream for each in server.server.registry.connections]
    return [0, *[each.buffered_bytes for each in streams if each is not None]]


def write_buffers(connections) -> list[int]:
    return [each._transport.get_write_buffer_size() for each in connections]


def send_what_fits(server, client: Client, body: bytes) -> int:
    """Sends until the kernel takes nothing for a while."""
    sent = idle = 0
    while sent < len(body) and idle < 500:
        try:
            sent += client.socket.send(body[sent : sent + 65_536])
            idle = 0
        except (BlockingIOError, ssl.SSLWantWriteError):
            idle += 1
            # The server takes a turn meanwhile.
            server.on_loop(int)
    return sent


@pytest.mark.parametrize("count", [0, 1, 65_536, 1_000_000])
def test_an_answer_in_parts_has_a_length_or_chunks(client, count):
    answer = client.ask("GET", f"/b-zeros/{count}")
    assert (answer.body, answer.headers["content-length"]) == (bytes(count), str(count))
    client.send(client.request("GET", f"/b-zeros/{count}?chunked=1"))
    answer = client.read()
    assert answer.headers["transfer-encoding"] == "chunked"
    assert read_chunks(client) == bytes(count)
    assert client.ask("GET", "/t/echo/next").status == 200


def test_an_old_client_gets_the_end_of_the_connection_instead_of_chunks(server):
    with Client(server) as client:
        client.send(b"GET /b-zeros/100000?chunked=1 HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = client.read()
        assert answer.headers["connection"] == "close"
        assert "transfer-encoding" not in answer.headers
        got = client._rest
        while piece := client.socket.recv(65_536):
            got += piece
        assert got == bytes(100_000)


def test_a_head_request_gets_the_length_and_no_part_is_made(server, client):
    answer = client.ask("HEAD", "/b-zeros/123456789012")
    assert answer.headers["content-length"] == "123456789012"
    assert client.ask("GET", "/t/echo/next").status == 200
    assert server.on_loop(lambda: server.server.driver.streams) == 0


def test_an_answer_whose_source_breaks_is_cut_and_never_looks_whole(server):
    with Client(server) as client, pytest.raises((AssertionError, *CUT)):
        client.ask("GET", "/b-broken/x")
    while server.on_loop(lambda: server.server.driver.streams):
        pass


def test_a_client_that_reads_slowly_bounds_what_is_made_for_it(server):
    with Client(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.send(client.request("GET", "/b-zeros/300000000"))
        got = len(client._until(b"\r\n\r\n"))
        sizes = []
        for _ in range(50):
            got += len(client.socket.recv(65_536))
            connections = server.server.registry.connections
            sizes += server.on_loop(partial(write_buffers, connections))
        assert max(sizes) <= HTTP_WRITE_BUFFER_HIGH + 2 * 65_536
    while server.on_loop(lambda: server.server.driver.streams):
        pass


CONDITIONS = [
    ([], 200, 0, 100),
    (["Range: bytes=10-19"], 206, 10, 20),
    (["Range: bytes=90-"], 206, 90, 100),
    (["Range: bytes=-10"], 206, 90, 100),
    (["Range: bytes=-1000"], 206, 0, 100),
    (["Range: bytes=0-1000"], 206, 0, 100),
    # The end of a file, as the SDK of AWS for Java 1 and programs with numbers of 64 bits name it.
    (["Range: bytes=90-9223372036854775806"], 206, 90, 100),
    (["Range: bytes=90-18446744073709551615"], 206, 90, 100),
    (["Range: bytes=18446744073709551615-"], 416, 0, 0),
    (["Range: bytes=100-"], 416, 0, 0),
    (["Range: bytes=-0"], 416, 0, 0),
    (["Range: bytes=5-2"], 200, 0, 100),
    (["Range: bytes=0-1,5-6"], 200, 0, 100),
    (["Range: items=0-1"], 200, 0, 100),
    (["Range: bytes=0-9", 'If-Range: "TAG"'], 206, 0, 10),
    (["Range: bytes=0-9", 'If-Range: "other"'], 200, 0, 100),
    (['If-None-Match: "TAG"'], 304, 0, 0),
    (['If-None-Match: W/"TAG", "x"'], 304, 0, 0),
    (["If-None-Match: *"], 304, 0, 0),
    (['If-None-Match: "x"'], 200, 0, 100),
    (['If-Match: "TAG"'], 200, 0, 100),
    (['If-Match: "x"'], 412, 0, 0),
    (['If-Match: W/"TAG"'], 412, 0, 0),
]


@pytest.mark.parametrize(("lines", "status", "start", "stop"), CONDITIONS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_conditions_and_ranges(client, face, method, lines, status, start, stop):
    raw = bytes(range(100))
    face.stored[b"hundred"] = raw
    tag = sha256(raw).hexdigest()[:16]
    answer = client.ask(method, "/b/hundred", b"", *[line.replace("TAG", tag) for line in lines])
    assert answer.status == status
    assert answer.headers["etag"] == f'"{tag}"'
    if status in (200, 206):
        assert answer.headers["content-length"] == str(stop - start)
        assert answer.body == (b"" if method == "HEAD" else raw[start:stop])
    shown = {206: f"bytes {start}-{stop - 1}/100", 416: "bytes */100"}.get(status)
    assert answer.headers.get("content-range") == shown
    assert client.ask("GET", "/t/echo/next").status == 200


def test_every_follower_gets_every_message_in_order():
    face = ByteFace()
    with running(faces=[face]) as server, Client(server) as publisher:
        followers = [Client(server) for _ in range(200)]
        for each in followers:
            each.send(each.request("GET", "/b-events"))
        while len(face.followers) < len(followers):
            pass
        for number in range(50):
            assert publisher.ask("POST", "/b-publish", b"%d" % number).status == 200
        for each in followers:
            assert each.read(head_only=True).headers["content-type"] == "text/event-stream"
            got = b""
            while not got.endswith(b"data: 49\n\n"):
                got += each._exactly(int(each._until(b"\r\n"), 16))
                assert each._exactly(2) == b"\r\n"
            expected = b": hello\n\n" + b"".join(b"data: %d\n\n" % n for n in range(50))
            assert got == expected
            each.socket.close()
        while face.followers:
            pass
        assert server.on_loop(lambda: server.server.driver.streams) == 0


def test_a_server_that_stops_ends_streams_without_an_end():
    face = ByteFace()
    with running(faces=[face]) as server:
        client = Client(server)
        client.send(client.request("GET", "/b-events"))
        client.read(head_only=True)
        assert client._exactly(int(client._until(b"\r\n"), 16) + 2) == b": hello\n\n\r\n"
        server.sockets.clear()
    assert client._until(b"\r\n\r\n") == b"0"
    client.socket.close()


def test_streams_are_bounded_and_the_next_is_refused(monkeypatch):
    monkeypatch.setattr("lochan.transport.driver.STREAMS_MAX", 2)
    face = ByteFace()
    with running(faces=[face]) as server:
        first, second, third = (Client(server) for _ in range(3))
        for each in (first, second):
            each.send(each.request("GET", "/b-events"))
        while len(face.followers) < 2:
            pass
        answer = third.ask("GET", "/b-zeros/1")
        assert (answer.status, answer.headers.get("connection")) == (503, None)
        first.socket.close()
        while len(face.followers) == 2:
            pass
        with Client(server) as fourth:
            assert fourth.ask("GET", "/b-zeros/1").status == 200


@pytest.mark.parametrize("reads_store", [True, False])
def test_a_face_finds_out_who_calls_before_the_handler_runs(reads_store):
    face = SmallFace()
    seen = []

    def authenticate(request, match):
        if request.headers.get("authorization") != "Bearer good":
            raise Denied("who are you?")
        return Principal("somebody", ("reader",))

    face.authentication = Authentication(authenticate, reads_store)

    def noting(exchange: Exchange) -> Response:
        seen.append(exchange.caller)
        return echo(exchange)

    face.add("GET", b"echo", noting)
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("GET", "/t/echo/x").status == 403
        assert client.ask("GET", "/t/echo/x", b"", "Authorization: Bearer good").status == 200
    assert seen == [Principal("somebody", ("reader",))]
