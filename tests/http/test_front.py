"""A front reads and writes HTTP for the server; it may end at any time, and so may the server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from threading import Event
from typing import Any

import psutil
import pytest

from lochan.http.exchange import Exchange, Response
from lochan.http.frames import Answer, Ask, Joint, Splitter, decode_from_front, encode
from lochan.http.server import Options
from tests.http.world import Client, Running, SmallFace, running

FRONT = Options(port=0, front=True)


def framed(*messages: Any) -> bytes:
    return b"".join(len(data).to_bytes(4, "big") + data for data in map(encode, messages))


def ask(number: int, body: bytes = b"") -> Ask:
    return Ask(
        number, "POST", b"/x", b"a=1", [(b"if-match", b'"h"')], body, "id", b"", b"gzip", b""
    )


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 64, 1_000, 10_000])
def test_frames_come_out_as_they_went_in_however_they_are_cut(piece):
    messages = [ask(n, b"b" * size) for n, size in enumerate((0, 1, 70, 300, 5_000, 0))]
    raw = framed(*messages)
    splitter = Splitter()
    found = []
    for at in range(0, len(raw), piece):
        found += [decode_from_front(frame) for frame in splitter.feed(raw[at : at + piece])]
    assert found == messages


def pid_of(server: Running) -> int:
    front = server.server.front
    assert front is not None
    assert front.pid is not None
    return front.pid


@pytest.mark.slow
def test_an_answer_of_many_megabytes_and_a_body_of_eight_pass_through():
    with running(options=FRONT) as server, Client(server) as client:
        assert client.ask("GET", "/t/big/4000000").json() == "word " * 4_000_000
        body = b"x" * (8 * 1_024 * 1_024)
        assert client.ask("POST", "/t/echo/x", body).json()["body"] == len(body)


@pytest.mark.slow
def test_the_server_knows_how_many_are_connected():
    with running(options=FRONT) as server:
        clients = [Client(server) for _ in range(3)]
        assert [each.ask("GET", "/t/echo/x").status for each in clients] == [200] * 3
        while server.on_loop(server.server.connections) != 3:
            pass
        clients[0].socket.close()
        while server.on_loop(server.server.connections) != 2:
            pass


@pytest.mark.slow
def test_a_front_that_dies_is_replaced_and_what_its_clients_waited_for_is_cancelled():
    face = SmallFace()
    reached, go = Event(), Event()

    def wait(exchange: Exchange) -> Response:
        reached.set()
        assert go.wait(20)
        return Response(200, b'"late"')

    face.add("GET", b"wait", wait, brief=False)
    with running(faces=[face], options=FRONT) as server:
        with Client(server) as client:
            client.send(client.request("GET", "/t/wait"))
            assert reached.wait(20)
            first = pid_of(server)
            os.kill(first, signal.SIGKILL)
            assert client.is_closed()
        go.set()
        # The listening socket was open all the time: who comes now waits for the next front.
        with Client(server) as client:
            assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
        assert pid_of(server) != first
        while server.on_loop(lambda: server.server.driver.under_way):
            pass


@pytest.mark.slow
def test_a_front_that_cannot_stay_alive_ends_the_server(monkeypatch):
    monkeypatch.setattr("lochan.http.behind.FRONT_STARTS_MAX", 2)
    with running(options=FRONT) as server:
        while not server.on_loop(server.server.failed.is_set):
            pid = server.on_loop(lambda: pid_of(server))
            os.kill(pid, signal.SIGKILL)
            # Reaped by the server before another one is started.
            while server.on_loop(lambda: pid_of(server)) == pid:
                if server.on_loop(server.server.failed.is_set):
                    break


@pytest.mark.slow
def test_a_front_ends_when_its_server_is_gone():
    with running(options=FRONT) as server:
        front = psutil.Process(pid_of(server))
        with Client(server) as client:
            assert client.ask("GET", "/t/echo/x").status == 200
    assert not front.is_running()


@pytest.mark.slow
def test_a_commit_of_a_client_that_said_its_last_is_taken_back_or_answered():
    """Whichever it is, the client learns it, and the branch agrees."""
    with running(options=FRONT) as server:
        told = {}
        for number in range(20):
            with Client(server) as client:
                line = f"X-Request-Id: c{number}"
                client.send(client.request("POST", "/t/commit/main", b"[%d]" % number, line))
                client.socket.shutdown(socket.SHUT_WR)
                told[f"c{number}"] = client.read().status
        log = server.repositories.opened["default"].log()
    assert set(told.values()) <= {200, 503}
    assert sorted(log) == sorted(name for name, status in told.items() if status == 200)


def test_a_joint_sends_more_than_the_socket_takes_at_once():
    async def talk() -> list[int]:
        loop = asyncio.get_running_loop()
        left, right = socket.socketpair()
        sizes: list[int] = []
        done = asyncio.Event()

        def received(frame: memoryview) -> None:
            sizes.append(len(frame))
            if len(sizes) == 6:
                done.set()

        reader = Joint(loop, right, received, lambda: None)
        writer = Joint(loop, left, lambda frame: None, lambda: None)
        for number in range(6):
            writer.put(Answer(number, 200, b"x" * 3_000_000, (), b"text/plain"))
        await asyncio.wait_for(done.wait(), 60)
        writer.close()
        reader.close()
        return sizes

    assert all(size > 3_000_000 for size in asyncio.run(talk()))


def test_a_fault_with_one_message_does_not_lose_those_behind_it(caplog):
    async def talk() -> list[int]:
        loop = asyncio.get_running_loop()
        left, right = socket.socketpair()
        seen: list[int] = []
        done = asyncio.Event()

        def received(frame: memoryview) -> None:
            number = decode_from_front(frame).number
            seen.append(number)
            if number == 1:
                raise RuntimeError("on purpose")
            if number == 2:
                done.set()

        reader = Joint(loop, right, received, lambda: None)
        writer = Joint(loop, left, lambda frame: None, lambda: None)
        for number in range(3):
            writer.put(ask(number))
        await asyncio.wait_for(done.wait(), 60)
        writer.close()
        reader.close()
        return seen

    assert asyncio.run(talk()) == [0, 1, 2]
    assert "on purpose" in caplog.text
