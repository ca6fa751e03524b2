"""What a connection promises a client that keeps to the protocol, however its bytes arrive."""

from __future__ import annotations

import asyncio
import re
import socket
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.transport.connection import origin_of
from lochan.transport.exchange import Exchange, Response
from lochan.transport.server import Options
from tests.transport.world import Client, SmallFace, running


@pytest.fixture(scope="module")
def server():
    options = Options(port=0, names=("catalog.test",))
    with running(options=options) as started:
        yield started


@pytest.fixture
def client(server):
    with Client(server) as connected:
        yield connected


CHUNKED = (
    b"POST /t/echo/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Trailer: z\r\n\r\n"
)
PLAIN = b"POST /t/echo/b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\nhello world"
EMPTY = b"GET /t/echo/c HTTP/1.1\r\nHost: localhost\r\n\r\n"


@given(cuts=st.lists(st.integers(0, len(CHUNKED + PLAIN + EMPTY)), max_size=12))
def test_requests_may_be_cut_anywhere(server, cuts):
    raw = CHUNKED + PLAIN + EMPTY
    with Client(server) as client:
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(raw)], strict=True):
            client.send(raw[start:end])
        answers = [client.read().json() for _ in range(3)]
    assert [answer["params"]["0"] for answer in answers] == ["a", "b", "c"]
    assert [answer["body"] for answer in answers] == [11, 11, 0]


def test_requests_may_come_byte_by_byte(client):
    for byte in CHUNKED:
        client.send(bytes((byte,)))
    assert client.read().json()["body"] == 11


def test_what_was_sent_ahead_is_answered_in_its_order(server):
    with Client(server) as client:
        client.send(b"".join(client.request("GET", f"/t/echo/{n}") for n in range(2_000)))
        assert [client.read().json()["params"]["0"] for _ in range(2_000)] == [
            str(n) for n in range(2_000)
        ]


def test_a_slow_request_keeps_its_place_before_quick_ones():
    face = SmallFace()
    go = Event()

    def wait(exchange: Exchange) -> Response:
        assert go.wait(20)
        return Response(200, b'"slow"')

    face.add("GET", b"wait", wait, brief=False)
    with running(faces=[face]) as server, Client(server) as client:
        client.send(client.request("GET", "/t/wait") + client.request("GET", "/t/echo/quick"))
        with Client(server) as other:
            assert other.ask("GET", "/t/echo/x").status == 200
        go.set()
        assert client.read().json() == "slow"
        assert client.read().json()["params"] == {"0": "quick"}


def test_who_asks_before_sending_a_body_is_told_to_go_on(client):
    head = client.request("POST", "/t/echo/x", b"hello", "Expect: 100-continue")[:-5]
    client.send(head)
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    client.send(b"hello")
    assert client.read().json()["body"] == 5


def test_who_asks_before_sending_waits_for_the_answers_that_come_first():
    face = SmallFace()
    go = Event()

    def wait(exchange: Exchange) -> Response:
        assert go.wait(20)
        return Response(200, b'"slow"')

    face.add("GET", b"wait", wait, brief=False)
    with running(faces=[face]) as server, Client(server) as client:
        polite = client.request("POST", "/t/echo/x", b"hello", "Expect: 100-continue")[:-5]
        client.send(client.request("GET", "/t/wait") + polite)
        go.set()
        assert client.read().json() == "slow"
        assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        client.send(b"hello")
        assert client.read().json()["body"] == 5


def test_who_asks_for_the_head_gets_the_head_of_the_same_answer(client):
    whole = client.ask("GET", "/t/log/main")
    head = client.ask("HEAD", "/t/log/main")
    assert head.status == 200
    assert head.headers["content-length"] == whole.headers["content-length"] != "0"
    assert client.ask("GET", "/t/echo/x").status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /t/echo/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /t/echo/x HTTP/1.0\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_connection_ends_when_the_client_says_so(client, raw):
    client.send(raw + EMPTY)
    answer = client.read()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert client.is_closed()


def test_a_client_that_has_said_everything_still_gets_its_answers(client):
    client.send(PLAIN + EMPTY)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read().json()["body"] == 11
    assert client.read().json()["params"] == {"0": "c"}
    assert client.is_closed()


def test_a_client_that_leaves_half_way_does_no_harm(server):
    for raw in (b"GET", PLAIN[:-3], CHUNKED[:-9], b""):
        with Client(server) as client:
            client.send(raw)
    with Client(server) as client:
        assert client.ask("GET", "/t/echo/x").status == 200


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "catalog.test", "LOCALHOST"])
def test_the_server_answers_to_its_names(client, name):
    client.send(f"GET /t/echo/x HTTP/1.1\r\nHost: {name}:1\r\n\r\n".encode())
    assert client.read().status == 200


def test_every_answer_has_an_id_and_no_two_the_same(client):
    ids = [client.ask("GET", "/t/echo/x").headers["x-request-id"] for _ in range(100)]
    assert len(set(ids)) == 100
    assert client.ask("GET", "/nothing").headers["x-request-id"] not in ids


def test_a_sane_id_of_the_client_is_kept_and_shown_to_handlers(client):
    answer = client.ask("GET", "/t/echo/x", b"", "X-Request-Id: abc-1.2_3:4")
    assert answer.headers["x-request-id"] == answer.json()["id"] == "abc-1.2_3:4"


@pytest.mark.parametrize("bad", ["", "a b", "a" * 65, "ä", "<script>", "a,b"])
def test_an_id_that_is_not_sane_is_replaced(client, bad):
    answer = client.ask("GET", "/t/echo/x", b"", f"X-Request-Id: {bad}")
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", answer.headers["x-request-id"])


def test_answers_carry_the_usual_headers(client):
    answer = client.ask("GET", "/t/echo/x")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", answer.headers["date"])


def test_values_of_path_and_query_are_decoded_once(client):
    answer = client.ask("GET", "/t/echo/a%2Fb%2520c?x=1&y=a+b%2B&x=%C3%A4&flag&=").json()
    assert answer["params"] == {"0": "a/b%20c"}
    assert answer["query"] == [["x", ["1", "ä"]], ["y", ["a b+"]], ["flag", [""]], ["", [""]]]


@pytest.mark.parametrize(
    ("method", "target", "status", "allow"),
    [
        ("GET", "/nothing", 404, None),
        ("GET", "/tt/echo/x", 404, None),
        ("GET", "/t/nothing", 404, None),
        ("GET", "/t", 404, None),
        ("PUT", "/t/echo/x", 405, "GET, POST"),
        ("OPTIONS", "/t/echo/x", 405, "GET, POST"),
        ("TRACE", "/t/echo/x", 405, "GET, POST"),
        ("QUERY", "/t/echo/x", 405, "GET, POST"),
        ("DELETE", "/health/live", 405, "GET, HEAD"),
    ],
)
def test_what_is_not_served_is_said_and_the_connection_lives_on(
    client, method, target, status, allow
):
    answer = client.ask(method, target)
    assert (answer.status, answer.headers.get("allow")) == (status, allow)
    assert client.ask("GET", "/t/echo/x").status == 200


def test_health_is_told_without_a_repository(client):
    assert client.ask("GET", "/health/live").json() == {"status": "UP"}
    assert client.ask("GET", "/health/ready").json() == {"status": "UP"}
    assert client.ask("HEAD", "/health/ready").status == 200


def test_a_store_that_does_not_answer_makes_the_server_unready_but_alive():
    with running() as server, Client(server) as client:
        assert client.ask("GET", "/health/ready").status == 200
        # Closed behind the server's back; replies that would need a flush end the process, so only
        # those that read nothing are asked for.
        server.server.health._store.close()
        down = client.ask("GET", "/health/ready")
        assert (down.status, down.json()["status"]) == (503, "DOWN")
        assert client.ask("GET", "/health/live").status == 200


def test_too_many_connections_are_turned_away(monkeypatch):
    monkeypatch.setattr("lochan.transport.connection.HTTP_CONNECTIONS_MAX", 3)
    with running() as server:
        clients = [Client(server) for _ in range(3)]
        assert [each.ask("GET", "/t/echo/x").status for each in clients] == [200] * 3
        with Client(server) as one_more:
            assert one_more.read().status == 503
            assert one_more.is_closed()
        assert clients[0].ask("GET", "/t/echo/x").status == 200


@pytest.mark.parametrize("words", [1, 13_106, 13_107, 13_108, 2_000_000])
def test_an_answer_of_any_size_arrives_whole_and_the_connection_lives_on(client, words):
    answer = client.ask("GET", f"/t/big/{words}")
    assert answer.json() == "word " * words
    assert client.ask("GET", "/t/echo/next").json()["params"] == {"0": "next"}


@pytest.mark.parametrize(
    ("peer", "family", "origin"),
    [
        (("10.1.2.3", 99), socket.AF_INET, "10.1.2.3"),
        (("::1", 99, 0, 0), socket.AF_INET6, "::1"),
        ("", socket.AF_UNIX, "unix"),
        (None, socket.AF_UNIX, "unix"),
        (None, socket.AF_INET, "unknown"),
    ],
)
def test_a_client_whose_address_is_not_known_is_not_taken_for_one_of_this_machine(
    peer, family, origin
):
    """One that has reset its connection was taken for one of the Unix socket."""
    with socket.socket(family) as opened:
        known = {"peername": peer, "socket": opened}
        assert origin_of(asyncio.BaseTransport(known)) == origin
