"""A write whose reply is lost is sent again and takes effect once; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.base.limits.client import CLIENT_ATTEMPTS_MAX
from lochan.client import Client, NewReference
from lochan.model.commits import Put
from tests.client.serving import StepByStep, serving
from tests.client.test_contract import ITEMS, ORDERS, put, table

# It waits between attempts as a client does.
pytestmark = pytest.mark.slow


class Losing(httpx.BaseTransport):
    """Passes requests on to the server and loses the first replies to those that write."""

    def __init__(self, losses: int, status: int | None = None) -> None:
        self._through = httpx.HTTPTransport()
        self._losses = losses
        self._status = status
        self.keys: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._through.handle_request(request)
        key = request.headers.get("idempotency-key")
        if key is not None:
            self.keys.append(key)
        if key is None or self._losses == 0:
            return response
        self._losses -= 1
        response.read()
        response.close()
        if self._status is not None:
            return httpx.Response(self._status, request=request)
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._through.close()


def losing_client(address: str, transport: Losing) -> tuple[Client, list[float]]:
    pauses: list[float] = []
    return Client(address, transport=transport, sleep=pauses.append), pauses


def prepare(client: Client) -> None:
    """`main` with two commits, `dev` ahead of it by one, `old` behind."""
    put(client, "main", ORDERS, 1)
    client.references.create("old")
    put(client, "main", ORDERS, 2)
    client.references.create("dev")
    put(client, "dev", ITEMS, 1)
    client.namespaces.create("main", ("space",))


@pytest.fixture
def prepared(address: str) -> Iterator[tuple[str, Client]]:
    """A server with a little history, and a client that loses nothing."""
    with Client(address) as client:
        prepare(client)
        yield address, client


def _before(client: Client) -> str:
    """The commit that changed the orders last."""
    return client.history.log("main", 2).items[1].meta.hash or ""


def head(client: Client, name: str = "main") -> str:
    return client.references.get(name).hash


WRITES: dict[str, Callable[[Any, Client], Any]] = {
    "commit": lambda one, _: one.commits.commit("main", "new", [Put(key=("n",), content=table())]),
    "merge": lambda one, _: one.merges.merge("main", "dev"),
    "transplant": lambda one, beside: one.merges.transplant("main", "dev", [head(beside, "dev")]),
    "cherry_pick": lambda one, beside: one.merges.cherry_pick("main", [head(beside, "dev")]),
    "revert": lambda one, beside: one.merges.revert("main", [_before(beside)]),
    "rebase": lambda one, _: one.merges.rebase("dev", "main"),
    "fast_forward": lambda one, _: one.merges.fast_forward("old", "main"),
    "force": lambda one, _: one.merges.force("main", "old"),
    "create": lambda one, _: one.references.create("new"),
    "create_many": lambda one, _: one.references.create_many([NewReference(name="new")]),
    "assign": lambda one, _: one.references.assign("main", "old"),
    "delete": lambda one, _: one.references.delete("old"),
    "namespace create": lambda one, _: one.namespaces.create("main", ("n",)),
    "namespace update": lambda one, _: one.namespaces.update("main", ("space",), {"a": "b"}),
    "namespace delete": lambda one, _: one.namespaces.delete("main", ("space",)),
    "settings": lambda one, _: one.settings.update({"type": "GARBAGE_COLLECTOR"}),
}


def state(client: Client) -> Any:
    """Everything that a write may have changed, and how often; hashes aside."""
    found: dict[str | None, Any] = {
        reference.name: (
            [
                (re.sub(r"[0-9a-f]{64}", "#", entry.meta.message), len(entry.operations or ()))
                for entry in client.history.iterate(reference.name or "", fetch_all=True)
            ],
            [move.kind for move in client.references.iterate_log(reference.name or "")],
        )
        for reference in client.references.iterate()
    }
    return found | {None: client.settings.get()}


@pytest.mark.parametrize("status", [None, 504], ids=["cut", "504"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_reply_is_lost_succeeds_and_takes_effect_once(prepared, name, status):
    address, beside = prepared
    transport = Losing(2, status)
    client, pauses = losing_client(address, transport)
    with client:
        WRITES[name](client, beside)
    assert len(transport.keys) == 3
    assert len(set(transport.keys)) == 1
    assert len(pauses) == 2
    with serving() as other, Client(other) as undisturbed:
        prepare(undisturbed)
        WRITES[name](undisturbed, undisturbed)
        assert state(beside) == state(undisturbed)


@pytest.mark.parametrize("name", ["commit", "merge", "create"])
def test_a_write_whose_replies_are_all_lost_is_unknown(prepared, name):
    address, beside = prepared
    client, pauses = losing_client(address, Losing(1_000))
    with client, pytest.raises(Unknown):
        WRITES[name](client, beside)
    assert len(pauses) == CLIENT_ATTEMPTS_MAX - 1


def test_every_call_has_a_key_of_its_own(prepared):
    address, _ = prepared
    transport = Losing(0)
    client, _ = losing_client(address, transport)
    with client:
        put(client, "main", ITEMS, 1)
        put(client, "main", ITEMS, 2)
    assert len(set(transport.keys)) == 2


def test_a_server_that_is_not_there_is_unavailable_and_nothing_happened():
    pauses: list[float] = []
    client = Client("http://127.0.0.1:9", sleep=pauses.append)
    with client, pytest.raises(Unavailable, match="no connection"):
        put(client, "main", ORDERS, 1)
    assert len(pauses) == CLIENT_ATTEMPTS_MAX - 1


def test_the_asynchronous_client_sends_again_too(prepared):
    address, beside = prepared

    class AsyncLosing(httpx.AsyncBaseTransport):
        lost = 0

        def __init__(self) -> None:
            self._through = httpx.AsyncHTTPTransport()

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await self._through.handle_async_request(request)
            if "idempotency-key" in request.headers and self.lost < 2:
                self.lost += 1
                await response.aread()
                await response.aclose()
                raise httpx.RemoteProtocolError("cut", request=request)
            return response

        async def aclose(self) -> None:
            await self._through.aclose()

    transport = AsyncLosing()
    pauses: list[float] = []

    async def note(pause_s: float) -> None:
        pauses.append(pause_s)

    client: Any = StepByStep(address, transport=transport, sleep=note)
    try:
        before = len(list(beside.history.iterate("main")))
        WRITES["commit"](client, beside)
    finally:
        client.close()
    assert transport.lost == 2
    assert len(pauses) == 2
    assert len(list(beside.history.iterate("main"))) == before + 1


def test_a_request_is_sent_again_after_the_pause_that_the_server_states(prepared):
    address, _ = prepared

    class Busy(httpx.BaseTransport):
        refusals = 2

        def __init__(self) -> None:
            self._through = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if self.refusals:
                self.refusals -= 1
                return httpx.Response(503, headers={"retry-after": "7"}, request=request)
            return self._through.handle_request(request)

        def close(self) -> None:
            self._through.close()

    pauses: list[float] = []
    with Client(address, transport=Busy(), sleep=pauses.append) as client:
        assert client.config().default_branch == "main"
    assert pauses == [7.0, 7.0]


def test_without_attempts_nothing_is_repeated(prepared):
    address, beside = prepared
    transport = Losing(1)
    client = Client(address, transport=transport, attempts_max=1)
    with client, pytest.raises(Unknown):
        WRITES["commit"](client, beside)
    assert len(transport.keys) == 1
