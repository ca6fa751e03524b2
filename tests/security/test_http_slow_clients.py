"""Clients that send or read slowly, or never: the server does not wait for them for ever."""

from __future__ import annotations

import socket
from select import select
from threading import Event

import pytest

from lochan.transport.connection_registry import Timeouts
from lochan.transport.exchange import Exchange, Response
from lochan.transport.server import Options
from tests.transport.world import Client, SmallFace, running

# It waits for clients that are slow on purpose.
pytestmark = pytest.mark.slow

QUICK = Options(port=0, timeouts=Timeouts(header_s=0.2, progress_s=0.2, idle_s=0.2, linger_s=0.2))
HEAD = b"POST /t/echo/x HTTP/1.1\r\nHost: localhost\r\n"


def read_to_the_end(client: Client) -> None:
    while client.socket.recv(1_048_576):
        pass


@pytest.fixture(scope="module")
def server():
    with running(options=QUICK) as started:
        yield started


@pytest.mark.parametrize(
    "raw",
    [
        b"G",
        b"GET /t/echo",
        HEAD,
        HEAD + b"X: ",
        HEAD + b"Content-Length: 5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\n\r\nhell",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: ",
    ],
)
def test_a_request_that_stops_half_way_is_given_up(server, raw):
    with Client(server) as client:
        client.send(raw)
        answer = client.read()
        assert answer.status == 408
        assert client.is_closed()


@pytest.mark.parametrize("raw", [b"", b"\r\n\r\n"])
def test_a_connection_that_says_nothing_is_closed_without_a_word(server, raw):
    with Client(server) as client:
        client.send(raw)
        assert client.is_closed()


def test_a_connection_that_was_used_and_is_idle_is_closed_without_a_word(server):
    with Client(server) as client:
        assert client.ask("GET", "/t/echo/x").status == 200
        assert client.is_closed()


def test_a_client_that_does_not_read_is_cut(server):
    with Client(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        # The answers are a hundred megabytes; the server gives up after some buffers.
        client.send(client.request("GET", "/t/big/1000000") * 20)
        while server.on_loop(lambda: len(server.server.registry.connections)):
            pass
        with pytest.raises(ConnectionResetError):
            read_to_the_end(client)


def test_a_client_that_is_refused_may_go_on_sending_and_still_reads_why(server):
    with Client(server) as client:
        client.send(b"GET /t/echo/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"x" * 200_000)
        assert client.read().status == 400


def test_requests_under_way_are_not_hurried():
    face = SmallFace()
    with running(faces=[face], options=QUICK) as server, Client(server) as client:
        go = Event()

        def wait(exchange: Exchange) -> Response:
            assert go.wait(20)
            return Response(200)

        face.add("GET", b"wait", wait, brief=False)
        client.send(client.request("GET", "/t/wait"))
        # Several of the server's ticks pass meanwhile, and with them every deadline.
        ticks = server.on_loop(lambda: server.server.registry.now)
        while server.on_loop(lambda: server.server.registry.now) < ticks + 0.5:
            pass
        go.set()
        assert client.read().status == 200


def test_hundreds_of_silent_connections_do_not_keep_others_from_being_served():
    with running(options=Options(port=0)) as server:
        silent = [server.connect() for _ in range(500)]
        try:
            for each in silent:
                each.sendall(b"GET /t/echo/x HTTP/1.1\r\nHost:")
            with Client(server) as client:
                assert client.ask("GET", "/t/echo/x").status == 200
                assert client.ask("POST", "/t/commit/main").status == 200
        finally:
            for each in silent:
                each.close()


def test_a_slow_reader_of_the_last_answer_gets_all_of_it():
    timeouts = Timeouts(header_s=5, progress_s=20, idle_s=0.2, linger_s=0.1)
    with running(options=Options(port=0, timeouts=timeouts)) as server, Client(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.send(client.request("GET", "/t/big/2000000", b"", "Connection: close"))
        began = server.on_loop(lambda: server.server.registry.now)
        # The time to linger passes several times before the first byte is read.
        while server.on_loop(lambda: server.server.registry.now) < began + 0.5:
            pass
        answer = client.read()
        assert len(answer.json()) == 5 * 2_000_000
        assert client.is_closed()


def test_bodies_of_all_connections_together_are_bounded(monkeypatch):
    monkeypatch.setattr("lochan.transport.request_reader.HTTP_BODIES_BYTES_MAX", 1_000_000)
    with running() as server:
        holding = [Client(server) for _ in range(3)]
        for client in holding:
            client.send(client.request("POST", "/t/echo/x", bytes(400_000))[:-1])
        # Two fit, and are still being read; the third is turned away.
        refused = select([client.socket for client in holding], [], [], 20)[0]
        assert len(refused) == 1
        for client in holding:
            if client.socket in refused:
                assert client.read().status == 503
            else:
                client.send(bytes(1))
                assert client.read().json()["body"] == 400_000
        # What was answered or given up is forgotten.
        while server.on_loop(lambda: server.server.registry.held_bytes):
            pass
        with Client(server) as client:
            assert client.ask("POST", "/t/echo/x", bytes(900_000)).status == 200
