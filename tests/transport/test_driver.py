"""Where handlers run, how they fail, and what the driver does around them."""

from __future__ import annotations

import gzip
from select import select
from threading import Event, current_thread

import msgspec
import pytest

from lochan.base.errors import Bug, Conflict, Invalid, NotFound, Unavailable, Unknown
from lochan.base.limits.http import GZIP_ANSWER_BYTES_MIN
from lochan.base.limits.server import BRIEF_BODY_BYTES_MAX
from lochan.kv.store import Capabilities
from lochan.stores.memory.store import MemoryStore
from lochan.transport.exchange import Exchange, Response
from lochan.transport.pool import Pool
from lochan.transport.server import Options
from tests.transport.world import Client, SmallFace, running


class BlockingStore(MemoryStore):
    """Says that its calls may block."""

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(super().capabilities, inline=False)


def say_thread(exchange: Exchange) -> Response:
    return Response(200, msgspec.json.encode(current_thread().name))


def deep(exchange: Exchange) -> Response:
    return Response(200, msgspec.json.encode(msgspec.json.decode(exchange.request.body)))


@pytest.fixture
def face():
    made = SmallFace()
    made.add("POST", b"brief", say_thread)
    made.add("POST", b"long", say_thread, brief=False)
    made.add("POST", b"asked", say_thread, lambda exchange: exchange.params["0"] == "brief")
    made.add("POST", b"deep", deep)
    return made


@pytest.mark.parametrize(
    ("target", "body", "thread"),
    [
        ("/t/brief", b"", "test server"),
        ("/t/brief", b"x" * (BRIEF_BODY_BYTES_MAX + 1), "lochan-long-1"),
        ("/t/long", b"", "lochan-long-1"),
        ("/t/asked/brief", b"", "test server"),
        ("/t/asked/long", b"", "lochan-long-1"),
    ],
)
def test_brief_handlers_run_on_the_loop_and_long_ones_in_threads(face, target, body, thread):
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("POST", target, body).json() == thread


@pytest.mark.parametrize(
    ("target", "thread"), [("/t/brief", "lochan-brief-1"), ("/t/long", "lochan-long-1")]
)
def test_on_a_store_that_may_block_nothing_runs_on_the_loop(face, target, thread):
    with running(BlockingStore(), [face]) as server, Client(server) as client:
        assert client.ask("POST", target).json() == thread
        assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
        assert client.ask("POST", "/t/try/main", b"[2]").status == 200
        assert len(server.repositories.opened["default"].log()) == 1


def test_another_repository_is_chosen_by_the_path_on_every_kind_of_store():
    for store in (MemoryStore(), BlockingStore()):
        with running(store, names=["other"]) as server, Client(server) as client:
            assert client.ask("GET", "/t/echo/x").json()["repository"] == "default"
            assert client.ask("GET", "/r/other/t/echo/x").json()["repository"] == "other"
            assert client.ask("GET", "/r/nobody/t/echo/x").status == 404
            assert client.ask("GET", "/r/other").status == 404
            assert client.ask("POST", "/r/other/t/commit/main", b"[1]").status == 200
            assert len(server.repositories.opened["other"].log()) == 1
            assert server.repositories.opened["default"].log() == []


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (NotFound("gone"), 404, False),
        (Conflict("moved"), 409, False),
        (Invalid("wrong"), 400, False),
        (Unavailable("away"), 503, True),
        (Unknown("who knows"), 504, False),
        (Bug("ours"), 500, False),
        (ValueError("secret"), 500, False),
        (KeyError("secret"), 500, False),
        (RecursionError(), 400, False),
    ],
)
@pytest.mark.parametrize("brief", [True, False])
def test_what_a_handler_raises_becomes_an_answer_and_the_server_lives_on(
    face, error, status, retry, brief, caplog
):
    def fail(exchange: Exchange) -> Response:
        raise error

    face.add("GET", b"fail", fail, brief)
    with running(faces=[face]) as server, Client(server) as client:
        answer = client.ask("GET", "/t/fail")
        assert answer.status == status
        assert ("retry-after" in answer.headers) == retry
        assert b"secret" not in answer.body
        assert b"Traceback" not in answer.body
        assert client.ask("GET", "/t/echo/x").status == 200
    # An operator finds in the log what a client must not see.
    assert bool(caplog.records) == (status >= 500)


def test_clients_see_stack_traces_only_if_the_operator_wants_it(face, caplog):
    def fail(exchange: Exchange) -> Response:
        raise ValueError("inside")

    face.add("GET", b"fail", fail)
    options = Options(port=0, show_traces=True)
    with running(faces=[face], options=options) as server, Client(server) as client:
        assert "ValueError: inside" in client.ask("GET", "/t/fail").json()["message"]


def test_json_that_is_nested_too_deeply_is_refused(face):
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("POST", "/t/deep", b"[" * 10 + b"]" * 10).status == 200
        assert client.ask("POST", "/t/deep", b"[" * 100_000 + b"]" * 100_000).status == 400


def test_whoever_finds_all_threads_and_the_queue_full_is_told_to_come_back(face):
    go = Event()

    def wait(exchange: Exchange) -> Response:
        assert go.wait(20)
        return Response(200)

    face.add("GET", b"wait", wait, brief=False)
    with running(faces=[face], options=Options(port=0, long_threads=2)) as server:
        server.server.long_pool._queue_max = 3
        clients = [Client(server) for _ in range(7)]
        for client in clients:
            client.send(client.request("GET", "/t/wait"))
        waiting = {client.socket: client for client in clients}
        while len(readable := select(waiting, [], [], 20)[0]) < 2:
            assert readable, "nobody was refused"
        refused = [waiting[each] for each in readable]
        assert len(refused) == 2
        for client in refused:
            answer = client.read()
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
        # Brief ones are served all the time.
        with Client(server) as client:
            assert client.ask("GET", "/t/echo/x").status == 200
        go.set()
        assert [each.read().status for each in clients if each not in refused] == [200] * 5


def test_a_pool_that_stops_ends_its_threads():
    with running() as server:
        pool: Pool = server.server.long_pool
        done = Event()
        server.on_loop(lambda: pool.submit(lambda: 1, lambda _: done.set()))
        assert done.wait(20)
    assert pool.join(20)


def test_packed_bodies_come_in_unpacked(face):
    face.add("POST", b"raw", lambda exchange: Response(200, exchange.request.body))
    with running(faces=[face]) as server, Client(server) as client:
        for size in (0, 10, 1_000_000):
            body = b"".join(b"%d," % number for number in range(size))
            packed = gzip.compress(body)
            answer = client.ask("POST", "/t/raw", packed, "Content-Encoding: gzip")
            assert answer.body == body


@pytest.mark.parametrize("words", [GZIP_ANSWER_BYTES_MIN, 1_000_000])
@pytest.mark.parametrize("accepted", ["gzip", "deflate, gzip;q=0.5", "*", "br, *;q=0.1"])
def test_long_answers_go_out_packed_if_the_client_takes_that(words, accepted):
    with running() as server, Client(server) as client:
        plain = client.ask("GET", f"/t/big/{words}")
        packed = client.ask("GET", f"/t/big/{words}", b"", f"Accept-Encoding: {accepted}")
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == "accept-encoding"
        assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize("accepted", ["br", "gzip;q=0", "gzip; q=0.0", "identity", "*;q=0"])
def test_nothing_is_packed_for_who_does_not_take_it(accepted):
    with running() as server, Client(server) as client:
        answer = client.ask("GET", "/t/big/5000", b"", f"Accept-Encoding: {accepted}")
        assert "content-encoding" not in answer.headers


def test_short_answers_are_not_packed():
    with running() as server, Client(server) as client:
        answer = client.ask("GET", "/t/echo/x", b"", "Accept-Encoding: gzip")
        assert "content-encoding" not in answer.headers


def test_a_header_that_would_split_the_answer_is_our_bug_and_not_sent(face, caplog):
    def split(exchange: Exchange) -> Response:
        return Response(200, b"{}", ((b"location", exchange.params["0"].encode()),))

    face.add("GET", b"split", split)
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("GET", "/t/split/fine").headers["location"] == "fine"
        answer = client.ask("GET", "/t/split/a%0D%0ASet-Cookie:%20b")
        assert answer.status == 500
        assert "set-cookie" not in answer.headers
        assert client.ask("GET", "/t/split/fine").status == 200
