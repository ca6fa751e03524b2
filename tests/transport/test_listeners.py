"""Several listeners of one server: apart in what they serve, together in everything else."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress

import pytest

from lochan.assembly.serve import file_listeners, options_of
from lochan.base.errors import Invalid, Unavailable
from lochan.settings import Settings, read_settings
from lochan.stores.memory.store import MemoryStore
from lochan.testing.forks import ForkedChild
from lochan.transport.listener import ListenerOptions
from lochan.transport.server import Options, Server
from tests.transport.byte_face import ByteFace
from tests.transport.certificates import CertificateFiles
from tests.transport.test_fork import sockets
from tests.transport.world import Client, KernelRepositories, Place, SmallFace, running


@pytest.fixture
def path(tmp_path):
    return tmp_path / "socket"


def start_and_stop(*listeners: ListenerOptions, options: Options | None = None) -> None:
    async def run() -> None:
        store = MemoryStore()
        faces = [SmallFace()]
        server = Server(
            store, KernelRepositories(store), faces, options or Options(port=0), listeners=listeners
        )
        try:
            await server.start()
        finally:
            await server.stop()

    asyncio.run(run())


def status_for(place: Place, host: str) -> int:
    with Client(place) as client:
        client.send(f"GET /t/echo/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return client.read().status


def test_each_listener_has_its_own_faces_and_its_own_names():
    face = ByteFace()
    beside = ListenerOptions(faces=[face], names=("files.test",))
    options = Options(port=0, names=("catalog.test",))
    with running(options=options, listeners=[beside]) as server:
        (files,) = server.places
        with Client(server) as client, Client(files) as other:
            assert client.ask("GET", "/t/echo/x").status == 200
            assert client.ask("PUT", "/b/key", b"some").status == 404
            assert client.ask("GET", "/health/ready").status == 200
            assert other.ask("PUT", "/b/key", b"some").status == 201
            assert other.ask("GET", "/t/echo/x").status == 404
            assert other.ask("GET", "/health/ready").status == 404
        assert [status_for(server, each) for each in ("catalog.test", "files.test")] == [200, 421]
        assert [status_for(files, each) for each in ("catalog.test", "files.test")] == [421, 404]
        assert [status_for(each, "localhost") for each in (server, files)] == [200, 404]


def test_a_listener_without_a_face_answers_404_and_obeys_the_rules():
    with running(listeners=[ListenerOptions()]) as server, Client(server.places[0]) as client:
        for method, target in (("GET", "/"), ("PUT", "/bucket/key"), ("GET", "/health/live")):
            answer = client.ask(method, target)
            assert (answer.status, answer.json()["status"]) == (404, 404)
        assert client.ask("GET", "/a/../b").status == 400
        client.send(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert client.read().status == 421
        assert client.is_closed()


def test_connections_and_bodies_of_all_listeners_share_their_limits(monkeypatch, path):
    monkeypatch.setattr("lochan.transport.connection.HTTP_CONNECTIONS_MAX", 3)
    options = Options(port=0, unix_socket=str(path))
    with running(options=options, listeners=[ListenerOptions()]) as server:
        clients = [Client(place) for place in (server, *server.places)]
        assert [each.ask("GET", "/t/echo/x").status for each in clients] == [200, 200, 404]
        assert server.on_loop(server.server.connections) == 3
        for place in (server, *server.places):
            with Client(place) as late:
                assert late.read().status == 503
                assert late.is_closed()
        server.on_loop(server.server.cut)
        assert all(each.is_closed() for each in clients)


def test_a_server_that_stops_closes_all_listeners_and_connections(path):
    options = Options(port=0, unix_socket=str(path))
    with running(options=options, listeners=[ListenerOptions()]) as server:
        places = (server, *server.places)
        clients = [Client(place) for place in places]
        assert [each.ask("GET", "/t/echo/x").status for each in clients] == [200, 200, 404]
        for place in places:
            place.sockets.clear()
    for client, place in zip(clients, places, strict=True):
        assert client.is_closed()
        client.socket.close()
        with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            place.connect()
    assert not path.exists()


def test_a_unix_socket_serves_what_the_port_serves_to_its_owner_only(path):
    options = Options(port=0, names=("catalog.test",), unix_socket=str(path))
    with running(options=options) as server:
        (place,) = server.places
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with Client(place) as client:
            assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
            assert client.ask("GET", "/health/ready").status == 200
        names = ("localhost", "127.0.0.1", "catalog.test", "evil.example")
        assert [status_for(place, each) for each in names] == [200, 200, 200, 421]


def test_the_file_of_a_server_that_died_is_replaced(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    with running(options=Options(port=0, unix_socket=str(path))) as server:
        assert status_for(server.places[0], "localhost") == 200


def test_the_socket_of_a_live_server_is_refused_and_stays(path):
    options = Options(port=0, unix_socket=str(path))
    with running(options=options) as server:
        with pytest.raises(Unavailable, match="a server listens there already"):
            start_and_stop(options=options)
        assert status_for(server.places[0], "localhost") == 200


@pytest.mark.parametrize("name", ["file", "missing/socket", "x" * 120])
def test_a_path_that_cannot_be_a_socket_is_refused_and_kept(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Unavailable, match="cannot listen on"):
        start_and_stop(options=Options(port=0, unix_socket=str(tmp_path / name)))
    assert (tmp_path / "file").read_text() == "mine"


def test_the_socket_of_a_successor_is_not_removed(path):
    with running(options=Options(port=0, unix_socket=str(path))):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
    assert path.exists()


def test_a_server_listens_everywhere_or_nowhere(path):
    with running() as other:
        options = Options(port=0, unix_socket=str(path))
        with pytest.raises(Unavailable, match="stop the process that has that port"):
            start_and_stop(ListenerOptions(port=other.port), options=options)
        assert not path.exists()


def test_a_further_listener_is_on_this_machine_only():
    with pytest.raises(Invalid, match="without authentication"):
        start_and_stop(ListenerOptions(host="0.0.0.0"))


def test_a_server_reads_again_what_can_be_read_again(tmp_path):
    reopened: list[str] = []
    with running(reloads=[lambda: reopened.append("log")]) as server:
        assert server.server.can_reload
        server.on_loop(server.server.reload)
    assert reopened == ["log"]
    with running() as server:
        assert not server.server.can_reload


def test_the_port_for_files_is_off_unless_it_is_chosen(tmp_path):
    files = CertificateFiles(tmp_path)
    assert file_listeners(Settings(), options_of(Settings())) == []
    settings = Settings(
        files_port=19121,
        host_names=("files.test",),
        tls_certificate=str(files.certificate),
        tls_key=str(files.key),
    )
    options = options_of(settings)
    (found,) = file_listeners(settings, options)
    assert (found.port, found.names, found.faces) == (19121, ("files.test",), ())
    assert found.certificate is options.certificate is not None
    with pytest.raises(Invalid, match="two different ports"):
        read_settings({"port": 19121, "files_port": 19121})


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_forked_process_keeps_no_socket_of_any_listener(path, tmp_path):
    files = CertificateFiles(tmp_path)
    options = Options(port=0, unix_socket=str(path), certificate=files.load())
    before = sockets()
    with running(options=options, listeners=[ListenerOptions()], trust=files.trust()) as server:
        clients = [Client(place) for place in (server, *server.places)]
        # One more, whose handshake has not begun.
        clients.append(Client(Place(server.port)))
        assert [each.ask("GET", "/t/echo/x").status for each in clients[:3]] == [200, 200, 404]
        own = {f"socket:[{os.fstat(each.socket.fileno()).st_ino}]" for each in clients}
        served = server.server
        numbers = [each.descriptor for each in served.listeners]
        numbers += server.on_loop(
            lambda: [each.descriptor() for each in served.registry.connections]
        )
        owned = {f"socket:[{os.fstat(each.number).st_ino}]" for each in numbers if each}
        assert len(owned) == 3 + 4
        assert owned <= sockets() - before - own
        kept = ForkedChild(lambda: sorted(sockets())).result()
        assert owned & set(kept) == set()
        assert [each.ask("GET", "/t/echo/x").status for each in clients[:3]] == [200, 200, 404]
        assert path.exists()
        for each in clients:
            with suppress(OSError):
                each.socket.close()
