"""Stopping: nobody who was answered loses anything, nobody waits for ever."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from lochan.base.errors import Invalid, Unavailable
from lochan.stores.memory.store import MemoryStore
from lochan.transport.exchange import Exchange, Response
from lochan.transport.group_flush import EXIT_FLUSH_FAILED
from lochan.transport.server import Options, Server
from tests.architecture.tree import ROOT
from tests.transport.world import (
    Client,
    KernelRepositories,
    Place,
    RunningServer,
    SmallFace,
    running,
)


class Standing:
    """A long handler that stands until it may go."""

    def __init__(self) -> None:
        self.reached = Event()
        self.go = Event()

    def handle(self, exchange: Exchange) -> Response:
        self.reached.set()
        assert self.go.wait(20)
        return Response(200, b'"done"')


def stop(server: RunningServer) -> Thread:
    """Tells the server to stop; the thread ends when it has."""
    loop = server.server._loop
    stopping = Event()

    def begin() -> None:
        task = loop.create_task(server.server.stop())
        task.add_done_callback(lambda _: stopping.set())

    loop.call_soon_threadsafe(begin)
    waiting = Thread(target=stopping.wait, args=(30,))
    waiting.start()
    while not server.on_loop(lambda: server.server.is_stopping):
        pass
    return waiting


def test_what_is_under_way_is_answered_and_idle_connections_are_closed():
    standing, face = Standing(), SmallFace()
    face.add("GET", b"stand", standing.handle, brief=False)
    with running(faces=[face], options=Options(port=0)) as server:
        busy, idle = Client(server), Client(server)
        assert idle.ask("GET", "/t/echo/x").status == 200
        busy.send(busy.request("GET", "/t/stand"))
        assert standing.reached.wait(20)
        stopped = stop(server)
        assert idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        standing.go.set()
        answer = busy.read()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        busy.socket.close()
        stopped.join(30)
        assert not stopped.is_alive()


def test_a_request_that_is_being_sent_is_served_as_the_last_of_its_connection():
    with running() as server:
        client = Client(server)
        assert client.ask("GET", "/t/echo/x").status == 200
        whole = client.request("POST", "/t/commit/main", b"[1]", "X-Request-Id: late")
        client.send(whole[:40])
        server.on_loop(lambda: None)
        server.on_loop(lambda: None)
        stopped = stop(server)
        client.send(whole[40:])
        answer = client.read()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        client.socket.close()
        stopped.join(30)
        assert server.repositories.opened["default"].log() == ["late"]


def test_whoever_does_not_finish_in_time_is_cut():
    standing, face = Standing(), SmallFace()
    face.add("GET", b"stand", standing.handle, brief=False)
    with running(faces=[face], options=Options(port=0, drain_s=0.2)) as server:
        client = Client(server)
        client.send(client.request("GET", "/t/stand"))
        assert standing.reached.wait(20)
        stopped = stop(server)
        assert client.is_closed()
        standing.go.set()
        stopped.join(30)
        assert not stopped.is_alive()


def test_a_server_that_stops_under_load_has_committed_exactly_what_it_acknowledged():
    """Or a little more: who was cut off has no answer, but nobody has a wrong one."""
    acknowledged: list[str] = []
    sent: list[str] = []
    enough = Event()

    def committing(number: int) -> None:
        try:
            with Client(server) as client:
                for count in range(10_000):
                    name = f"c{number}-{count}"
                    sent.append(name)
                    line = f"X-Request-Id: {name}"
                    answer = client.ask("POST", "/t/commit/main", b"[%d]" % number, line)
                    assert answer.status == 200
                    acknowledged.append(name)
                    if len(acknowledged) > 300:
                        enough.set()
                    if answer.headers.get("connection") == "close":
                        return
        except (AssertionError, OSError):
            # The connection ended before the answer: unknown to this client.
            return

    with running(options=Options(port=0)) as server:
        with ThreadPoolExecutor(8) as clients:
            for number in range(8):
                clients.submit(committing, number)
            assert enough.wait(60)
            stopped = stop(server)
        stopped.join(30)
        log = server.repositories.opened["default"].log()
    assert len(set(log)) == len(log), "nothing was applied twice"
    assert set(acknowledged) <= set(log) <= set(sent)
    # Each client had at most one request under way.
    assert len(log) - len(acknowledged) <= 8


def start_child(*words: str) -> tuple[subprocess.Popen[str], int]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.transport.child", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline().rpartition(":")[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_stops_the_process_cleanly(number):
    child, port = start_child("1000000")
    with child:
        with Client(Place(port)) as client:
            assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
            child.send_signal(number)
            assert client.is_closed()
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out, err) == (0, "1\n", "")


@pytest.mark.slow
def test_a_failed_flush_ends_the_process_and_nobody_is_told_success():
    child, port = start_child("2")
    with child:
        with Client(Place(port)) as client:
            # As many as the disk took are told success, and not one more.
            for number in range(2):
                assert client.ask("POST", "/t/commit/main", b"[%d]" % number).status == 200
            client.send(client.request("POST", "/t/commit/main", b"[3]"))
            assert client.is_closed()
        _, err = child.communicate(timeout=30)
        assert child.returncode == EXIT_FLUSH_FAILED
        assert "flush failed" in err
        assert "cause='OSError: [Errno 28] no space left" in err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "127.0.0.1.x"])
def test_other_addresses_than_loopback_are_refused(host):
    async def run() -> None:
        store = MemoryStore()
        Server(store, KernelRepositories(store), [], Options(host=host))

    with pytest.raises(Invalid, match="without authentication"):
        asyncio.run(run())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3"])
def test_loopback_is_served(host):
    with running(options=Options(host=host, port=0)) as server, Client(server) as client:
        assert client.ask("GET", "/t/echo/x").status == 200


def test_a_port_that_is_taken_is_said():
    async def run(port: int) -> None:
        store = MemoryStore()
        await Server(store, KernelRepositories(store), [], Options(port=port)).start()

    with (
        running() as server,
        pytest.raises(Unavailable, match="stop the process that has that port"),
    ):
        asyncio.run(run(server.port))
