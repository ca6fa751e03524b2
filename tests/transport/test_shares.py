"""Shares of callers in a running server: requests, rates, streams, bodies, threads and turns."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event

import pytest

from lochan.access.policy import Principal
from lochan.base.limits.quotas import (
    TURN_FREE_REQUESTS_MAX,
)
from lochan.transport.exchange import Exchange, Response
from lochan.transport.pool import Pool
from lochan.transport.quotas import QuotaLimits
from lochan.transport.routes import Authentication
from lochan.transport.server import Options
from lochan.transport.turns import Turns
from tests.transport.byte_face import ByteFace
from tests.transport.test_driver import BlockingStore
from tests.transport.world import Client, SmallFace, running


def by_header() -> Authentication:
    def find(request, match):
        return Principal(request.headers.get("authorization") or "")

    return Authentication(find, find_known=find)


# In the server.


def test_over_their_number_the_requests_of_one_caller_wait_while_another_is_served():
    go = Event()
    entered: list[str] = []

    def wait(exchange: Exchange) -> Response:
        entered.append(exchange.caller.name)
        assert go.wait(20)
        return Response(200)

    face = SmallFace()
    face.authentication = by_header()
    face.add("GET", b"wait", wait, brief=False)
    options = Options(port=0, long_threads=8, quotas=QuotaLimits(principal_requests_max=2))
    with running(faces=[face], options=options) as server:
        noisy = [Client(server) for _ in range(5)]
        for client in noisy:
            client.send(client.request("GET", "/t/wait", b"", "Authorization: noisy"))
        while len(entered) < 2:
            pass
        with Client(server) as quiet:
            quiet.send(quiet.request("GET", "/t/wait", b"", "Authorization: quiet"))
            while len(entered) < 3:
                pass
            assert sorted(entered) == ["noisy", "noisy", "quiet"]
            # One that leaves while it waits is forgotten.
            noisy.pop().socket.close()
            go.set()
            assert quiet.read().status == 200
            assert [each.read().status for each in noisy] == [200] * 4
        while server.on_loop(lambda: server.server.driver.under_way):
            pass
        assert len(entered) in (5, 6)


def test_over_the_rate_a_caller_gets_429_with_the_time_to_wait():
    face = SmallFace()
    face.authentication = by_header()
    options = Options(port=0, quotas=QuotaLimits(principal_requests_per_s=0.01))
    with running(faces=[face], options=options) as server, Client(server) as client:
        assert client.ask("GET", "/t/echo/x", b"", "Authorization: a").status == 200
        answer = client.ask("POST", "/t/commit/main", b"[1]", "Authorization: a")
        assert (answer.status, answer.headers["retry-after"]) == (429, "100")
        assert answer.json()["errorCode"] == "TOO_MANY_REQUESTS"
        assert client.ask("GET", "/t/echo/x", b"", "Authorization: b").status == 200
        # Callers without a name have no quota.
        assert [client.ask("GET", "/t/echo/x").status for _ in range(5)] == [200] * 5
        assert server.repositories.opened["default"].log() == []


@pytest.mark.parametrize("blocking", [False, True])
def test_with_several_callers_everything_is_served_as_with_one(blocking):
    face = SmallFace()
    face.authentication = by_header()
    store = BlockingStore() if blocking else None
    with running(store, faces=[face]) as server:
        # More of each than are served without turns.
        many = 3 * (TURN_FREE_REQUESTS_MAX + 2)
        clients = [
            (Client(server), f"Authorization: caller {number % 3}") for number in range(many)
        ]
        for number in range(20):
            for client, line in clients:
                raw = client.request("POST", "/t/commit/main", b"[%d]" % number, line)
                client.send(raw + client.request("GET", "/t/log/main", b"", line))
            for client, _ in clients:
                assert [client.read().status, client.read().status] == [200, 200]
        assert len(server.repositories.opened["default"].log()) == 20 * many
        quotas = server.server.driver.context.quotas
        assert (
            server.on_loop(lambda: [each.is_idle for each in quotas._accounts.values()])
            == [True] * 3
        )
        assert quotas.is_shared
        for client, _ in clients:
            client.socket.close()


def test_a_caller_has_a_share_of_the_streams(monkeypatch):
    monkeypatch.setattr("lochan.transport.quotas.PRINCIPAL_STREAMS_MAX", 2)
    face = ByteFace()
    face.authentication = by_header()
    with running(faces=[face]) as server:
        followers = [Client(server) for _ in range(2)]
        for each in followers:
            each.send(each.request("GET", "/b-events", b"", "Authorization: a"))
        while len(face.followers) < 2:
            pass
        with Client(server) as client:
            answer = client.ask("GET", "/b-zeros/1", b"", "Authorization: a")
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            assert client.ask("GET", "/b-zeros/1", b"", "Authorization: b").status == 200
            assert client.ask("GET", "/b/none", b"", "Authorization: b").status == 404
            for each in followers:
                each.socket.close()
            while face.followers:
                pass
            assert client.ask("GET", "/b-zeros/1", b"", "Authorization: a").status == 200
        quotas = server.server.driver.context.quotas
        while server.on_loop(lambda: any(each.streams for each in quotas._accounts.values())):
            pass


def test_long_bodies_of_one_caller_wait_for_its_share_and_are_all_read(monkeypatch):
    monkeypatch.setattr("lochan.transport.quotas.PRINCIPAL_BODIES_BYTES_MAX", 1_000_000)
    face = SmallFace()
    face.authentication = by_header()
    with running(faces=[face]) as server:
        quotas = server.server.driver.context.quotas
        clients = [Client(server) for _ in range(4)]
        body = b"x" * 900_000

        def begun() -> int:
            accounts = quotas._accounts.values()
            return sum(len(each.bodies) + bool(each.body_bytes) for each in accounts)

        for number, client in enumerate(clients, 1):
            client.send(client.request("POST", "/t/echo/x", body, "Authorization: a")[:-800_000])
            while server.on_loop(begun) < number:
                pass
        assert server.on_loop(lambda: quotas._accounts["a"].body_bytes) == 900_000
        with Client(server) as quiet:
            assert quiet.ask("POST", "/t/echo/x", body, "Authorization: b").status == 200
        for client in clients:
            client.send(body[:800_000])
            assert client.read().json()["body"] == 900_000
        assert server.on_loop(lambda: quotas._accounts["a"].body_bytes) == 0
        for client in clients:
            client.socket.close()


# Threads and turns.


def test_owners_of_work_take_turns_for_a_thread_and_one_of_them_cannot_fill_the_queue():
    order: list[str] = []
    go, began, done = Event(), Event(), Event()

    async def run() -> None:
        pool = Pool(asyncio.get_running_loop(), "test", 1, queue_max=4)

        def first() -> None:
            began.set()
            assert go.wait(20)

        pool.submit(first, lambda _: None)
        assert began.wait(20)
        for owner in ("noisy", "noisy", "noisy", "noisy"):
            pool.submit(partial(order.append, owner), lambda _: None, owner=owner)
        with pytest.raises(Exception, match="wait for a thread already"):
            pool.submit(lambda: None, lambda _: None, owner="noisy")
        ended = asyncio.Event()
        pool.submit(lambda: order.append("quiet"), lambda _: None, owner="quiet")
        pool.submit(lambda: order.append("must"), lambda _: ended.set(), owner="noisy", must=True)
        go.set()
        await ended.wait()
        pool.stop()
        assert pool.join(20)
        done.set()

    asyncio.run(run())
    assert done.is_set()
    assert order == ["noisy", "quiet", "noisy", "noisy", "noisy", "must"]


def test_on_the_loop_callers_take_turns_and_others_are_looked_for_between():
    order: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        turns = Turns(loop, turn_s=0.0)
        ended = asyncio.Event()

        def noisy(number: int) -> None:
            order.append(f"noisy {number}")
            if number == 1:
                # What comes from the network in between has its turn next.
                turns.add("quiet", lambda: order.append("quiet"))
            if number == 4:
                ended.set()

        for number in range(5):
            turns.add("noisy", partial(noisy, number))
        await ended.wait()

    asyncio.run(run())
    assert order == ["noisy 0", "noisy 1", "quiet", "noisy 2", "noisy 3", "noisy 4"] or order == [
        "noisy 0",
        "noisy 1",
        "noisy 2",
        "quiet",
        "noisy 3",
        "noisy 4",
    ]
