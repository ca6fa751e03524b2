"""Who sends a request is found out before anything is done for it, on every listener."""

from __future__ import annotations

import gzip
from threading import Event, current_thread

import msgspec
import pytest

from lochan.access.policy import Principal
from lochan.base.errors import Denied, Unauthenticated, Unavailable
from lochan.base.limits.http import HTTP_BODY_BYTES_MAX
from lochan.base.limits.quotas import OPEN_BODY_BYTES_MAX
from lochan.transport.exchange import Exchange, Response
from lochan.transport.listener import ListenerOptions
from lochan.transport.routes import Authentication, Route
from lochan.transport.server import Options
from tests.transport.byte_face import ByteFace
from tests.transport.certificates import CertificateFiles
from tests.transport.test_driver import BlockingStore
from tests.transport.world import Client, KernelRepositories, SmallFace, running

BAD = "Authorization: Bearer bad"
GOOD = "Authorization: Bearer good"
CHALLENGE = 'Bearer realm="lochan", Basic realm="lochan"'
REFUSED = "no valid credentials"


class Gate:
    """Knows one token; `known` is what it remembers, `threads` where it read the store."""

    def __init__(self) -> None:
        self.known: dict[str | None, Principal] = {}
        self.threads: list[str] = []
        self.looked = 0
        self.wait = Event()
        self.wait.set()

    def find_known(self, request, match):
        self.looked += 1
        return self.known.get(request.headers.get("authorization"))

    def authenticate(self, request, match):
        self.threads.append(current_thread().name)
        assert self.wait.wait(20)
        text = request.headers.get("authorization")
        if text == "Bearer away":
            raise Unavailable("the store is away")
        if text != "Bearer good":
            raise Unauthenticated(REFUSED)
        return Principal("ada", ("writers",), "token:t1")

    def authentication(self, **more) -> Authentication:
        return Authentication(self.authenticate, find_known=self.find_known, **more)


def whoami(exchange: Exchange) -> Response:
    caller = exchange.caller
    said = [caller.name, *caller.roles, caller.credential, exchange.request.origin]
    return Response(200, msgspec.json.encode(said))


def guarded(gate: Gate, **more) -> SmallFace:
    face = SmallFace()
    face.add("GET", b"me", whoami)
    face.add("POST", b"me", whoami)
    face.routes["POST", b"login"] = Route("login", whoami, is_open=True)
    face.authentication = gate.authentication(**more)
    return face


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture(params=["inline", "blocking"])
def served(request, gate):
    store = BlockingStore() if request.param == "blocking" else None
    with running(store, faces=[guarded(gate)]) as server:
        yield server


@pytest.fixture
def client(served):
    with Client(served) as connected:
        yield connected


def held(server) -> int:
    return server.on_loop(lambda: server.server.registry.held_bytes)


def test_a_handler_gets_the_caller_and_its_origin(client):
    assert client.ask("GET", "/t/me", b"", GOOD).json() == [
        "ada",
        "writers",
        "token:t1",
        "127.0.0.1",
    ]
    assert client.ask("POST", "/t/me", b"{}", GOOD).json()[0] == "ada"


@pytest.mark.parametrize("lines", [[], [BAD], ["Authorization: Basic Og=="]])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_a_request_without_valid_credentials_gets_401_and_may_try_again(client, method, lines):
    answer = client.ask(method, "/t/me", b"", *lines)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, CHALLENGE)
    if method != "HEAD":
        assert answer.json()["message"] == REFUSED
    assert client.ask("GET", "/t/me", b"", GOOD).status == 200


def test_two_headers_with_credentials_are_refused(client):
    assert client.ask("GET", "/t/me", b"", GOOD, GOOD).status == 400


def test_a_store_that_does_not_answer_is_no_refusal(client):
    answer = client.ask("GET", "/t/me", b"", "Authorization: Bearer away")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_a_caller_that_may_not_do_something_gets_403_without_a_challenge(gate):
    def deny(exchange: Exchange) -> Response:
        raise Denied("not this")

    face = guarded(gate)
    face.add("GET", b"deny", deny)
    with running(faces=[face]) as server, Client(server) as client:
        answer = client.ask("GET", "/t/deny", b"", GOOD)
        assert answer.status == 403
        assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize(
    ("store", "more", "threads"),
    [
        (None, {}, ["test server"]),
        ("blocking", {}, ["lochan-brief-1"]),
        ("blocking", {"reads_store": False}, ["test server"]),
        (None, {"waits": True}, ["lochan-brief-1"]),
    ],
)
def test_what_may_wait_runs_in_a_thread(gate, store, more, threads):
    opened = BlockingStore() if store else None
    with running(opened, faces=[guarded(gate, **more)]) as server, Client(server) as client:
        assert client.ask("GET", "/t/me", b"", GOOD).status == 200
    assert gate.threads == threads


def test_a_known_caller_is_served_from_memory(client, gate):
    gate.known["Bearer good"] = Principal("known")
    assert client.ask("GET", "/t/me", b"", GOOD).json()[0] == "known"
    assert client.ask("POST", "/t/me", b"{}", GOOD).json()[0] == "known"
    assert (gate.threads, gate.looked) == ([], 2)


@pytest.mark.parametrize(
    "line", ["Forwarded: for=10.1.2.3", "X-Forwarded-For: 10.1.2.3", "X-Real-IP: 10.1.2.3"]
)
def test_the_origin_is_the_address_of_the_connection_whatever_headers_state(client, line):
    forwarded = ["X-Forwarded-Proto: https", "X-Forwarded-Host: other.example"]
    assert client.ask("GET", "/t/me", b"", GOOD, line, *forwarded).json()[-1] == "127.0.0.1"


# Bodies of clients that are not known.


def long_post(client: Client, *lines: str) -> bytes:
    """The head of a request with the longest body that there may be, and a part of the body."""
    head = client.request("POST", "/t/me", b"x", *lines)[:-1]
    announced = f"Content-Length: {HTTP_BODY_BYTES_MAX}".encode()
    return head.replace(b"Content-Length: 1", announced)


@pytest.mark.parametrize("more", [b"", b"x" * 100_000])
def test_a_long_body_of_a_client_that_is_not_known_is_not_read(client, served, more):
    client.send(long_post(client, BAD) + more)
    answer = client.read()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, CHALLENGE)
    assert answer.headers["connection"] == "close"
    assert client.is_closed()
    assert held(served) == 0


def test_a_client_that_waits_for_a_100_never_gets_it_without_valid_credentials(client):
    client.send(long_post(client, "Expect: 100-continue"))
    answer = client.read()
    assert (answer.status, answer.headers["connection"]) == (401, "close")


def test_a_client_with_valid_credentials_gets_its_100(client):
    head = client.request("POST", "/t/me", b"12345", GOOD, "Expect: 100-continue")[:-5]
    client.send(head)
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    client.send(b"12345")
    assert client.read().json()[0] == "ada"


def test_a_long_body_is_read_when_it_is_known_who_sends_it(client, gate):
    client.send(client.request("POST", "/t/echo/x", b"x" * 3_000_000, GOOD))
    assert client.read().json()["body"] == 3_000_000


def test_while_it_is_not_known_who_sends_a_body_no_more_of_it_is_read(gate):
    gate.wait.clear()
    with running(BlockingStore(), faces=[guarded(gate)]) as server, Client(server) as client:
        client.send(long_post(client, BAD))
        while not gate.threads:
            pass
        client.socket.setblocking(False)
        sent = idle = 0
        while idle < 200:
            try:
                sent += client.socket.send(b"x" * 65_536)
                idle = 0
            except BlockingIOError:
                idle += 1
                server.on_loop(int)
        assert held(server) <= 262_144
        client.socket.setblocking(True)
        gate.wait.set()
        assert client.read().status == 401


def test_the_answers_keep_their_order_when_a_body_is_refused(client):
    client.send(client.request("GET", "/t/echo/1", b"", GOOD) + long_post(client))
    assert [client.read().status, client.read().status] == [200, 401]
    assert client.is_closed()


def test_a_client_that_leaves_while_it_is_checked_leaves_nothing_behind(gate):
    gate.wait.clear()
    with running(BlockingStore(), faces=[guarded(gate)]) as server:
        with Client(server) as client:
            client.send(long_post(client, GOOD) + b"x" * 1_000)
            while not gate.threads:
                pass
        # While nothing is read from a connection, its end is not noticed either.
        gate.wait.set()
        while server.on_loop(server.server.connections):
            pass
        with Client(server) as client:
            assert client.ask("POST", "/t/me", b"{}", GOOD).status == 200
        quotas = server.server.driver.context.quotas
        assert server.on_loop(lambda: [each.body_bytes for each in quotas._accounts.values()]) == [
            0
        ]
        assert held(server) == 0


def test_a_packed_body_is_not_unpacked_for_a_client_that_is_not_known(client):
    bomb = gzip.compress(bytes(HTTP_BODY_BYTES_MAX))
    packed = "Content-Encoding: gzip"
    assert client.ask("POST", "/t/me", bomb, packed).status == 401
    assert client.ask("POST", "/t/me", b"no gzip", packed).status == 401
    assert client.ask("POST", "/t/me", b"no gzip", packed, GOOD).status == 400


@pytest.mark.parametrize("target", ["/nowhere", "/t/nowhere"])
def test_the_body_of_a_refused_request_is_not_kept(client, served, target):
    head = client.request("POST", target, b"x")[:-1]
    client.send(head.replace(b"Content-Length: 1", b"Content-Length: 2000000"))
    for _ in range(19):
        client.send(b"x" * 100_000)
        assert held(served) == 0
    client.send(b"x" * 100_000)
    assert client.read().status == 404
    assert client.ask("GET", "/t/me", b"", GOOD).status == 200


def test_a_stream_of_a_client_that_is_not_known_is_refused_before_its_body(gate):
    face = ByteFace()
    face.authentication = gate.authentication()
    with running(faces=[face]) as server:
        with Client(server) as client:
            client.send(client.request("PUT", "/b/x", b"12345", "Expect: 100-continue")[:-5])
            answer = client.read()
            assert (answer.status, answer.headers["www-authenticate"]) == (401, CHALLENGE)
            assert client.is_closed()
        with Client(server) as client:
            assert client.ask("PUT", "/b/x", b"12345", GOOD).status == 201
            assert client.ask("GET", "/b/x").status == 401
    assert face.stored == {b"x": b"12345"}


def test_an_open_route_needs_no_credentials_and_takes_a_short_body(client, gate):
    assert client.ask("POST", "/t/login", b"{}").json()[0] == ""
    assert gate.looked == 0
    answer = client.ask("POST", "/t/login", b"x" * (OPEN_BODY_BYTES_MAX + 1))
    assert (answer.status, answer.headers["connection"]) == (413, "close")


def test_a_body_over_the_limit_of_the_operator_is_refused():
    options = Options(port=0, request_bytes_max=10_000)
    with running(options=options) as server, Client(server) as client:
        assert client.ask("POST", "/t/echo/x", b"x" * 10_000).status == 200
        packed = gzip.compress(b"x" * 10_001)
        assert client.ask("POST", "/t/echo/x", packed, "Content-Encoding: gzip").status == 413
        assert client.ask("POST", "/t/echo/x", b"x" * 10_001).status == 413


# Listeners.


def test_every_listener_asks_for_credentials(gate, tmp_path):
    files = CertificateFiles(tmp_path)
    certificate = files.load()
    face = guarded(gate)
    options = Options(port=0, certificate=certificate, unix_socket=str(tmp_path / "socket"))
    second = ListenerOptions(faces=[face], certificate=certificate)
    origins = []
    with running(faces=[face], options=options, listeners=[second], trust=files.trust()) as server:
        for place in (server, *server.places):
            with Client(place) as client:
                assert client.ask("GET", "/t/me").status == 401
                origins.append(client.ask("GET", "/t/me", b"", GOOD).json()[-1])
                assert client.ask("GET", "/health/live").status in (200, 404)
    assert origins == ["127.0.0.1", "unix", "127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("catalog.example", 200),
        ("catalog.example:443", 200),
        ("CATALOG.example", 200),
        ("10.1.2.3:19120", 200),
        ("[2001:db8::1]:19120", 200),
        ("localhost", 200),
        ("evil.example", 421),
        ("1.2.3.4.evil.example", 421),
        ("10.1.2.300", 421),
    ],
)
def test_a_server_on_all_addresses_answers_to_its_names_and_to_addresses(gate, host, status):
    options = Options(host="0.0.0.0", port=0, names=("catalog.example",), allow_remote=True)
    with running(faces=[guarded(gate)], options=options) as server:
        server.host = "127.0.0.1"
        with Client(server) as client:
            client.send(f"GET /t/me HTTP/1.1\r\nHost: {host}\r\n{GOOD}\r\n\r\n".encode())
            assert client.read().status == status
        with Client(server) as client:
            origin = f"Origin: https://{host}"
            answer = client.ask("GET", "/t/me", b"", GOOD, origin)
            assert answer.status == (200 if status == 200 else 403)


def test_a_server_on_one_address_of_others_answers_to_its_names_only(gate):
    options = Options(port=0, names=("catalog.example",), allow_remote=True)
    with running(faces=[guarded(gate)], options=options) as server, Client(server) as client:
        client.send(b"GET /t/me HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n")
        assert client.read().status == 421


def test_a_repository_is_opened_for_known_callers_only(gate):
    opened = []

    class Watched(KernelRepositories):
        def open(self, name):
            opened.append(name)
            return super().open(name)

    store = BlockingStore()
    repositories = Watched(store, "other")
    started = running(store, [guarded(gate)], repositories=repositories)
    with started as server, Client(server) as client:
        assert client.ask("GET", "/r/other/t/me").status == 401
        assert client.ask("GET", "/r/absent/t/me").status == 401
        assert opened == []
        assert client.ask("GET", "/r/other/t/me", b"", GOOD).status == 200
        assert client.ask("GET", "/r/absent/t/me", b"", GOOD).status == 404
    assert opened == ["other", "absent"]


def test_callers_that_log_in_take_turns_by_their_addresses(gate, monkeypatch):
    """All of them had one turn together, so one machine could keep others from logging in."""
    owners = []
    with running(BlockingStore(), faces=[guarded(gate)]) as server, Client(server) as client:
        pool = server.server.brief_pool
        submit = pool.submit

        def watched(work, done, *, owner="", must=False):
            owners.append(owner)
            submit(work, done, owner=owner, must=must)

        monkeypatch.setattr(pool, "submit", watched)
        assert client.ask("POST", "/t/login", b"{}").status == 200
    assert owners[-1] == "127.0.0.1"
