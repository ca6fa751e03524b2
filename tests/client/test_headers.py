"""The caller's own headers go with every request."""

from __future__ import annotations

import httpx
import pytest

from lochan.client import Client
from tests.client.serving import StepByStep
from tests.client.test_contract import ORDERS, put


@pytest.mark.parametrize("kind", ["blocking", "asynchronous"])
def test_headers_are_sent_with_reads_and_writes(address, kind):
    seen: list[str | None] = []

    class Watching(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(request.headers.get("x-team"))
            return super().handle_request(request)

    class AsyncWatching(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(request.headers.get("x-team"))
            return await super().handle_async_request(request)

    headers = {"x-team": "blue"}
    client: Client | StepByStep
    if kind == "blocking":
        client = Client(address, headers=headers, transport=Watching())
    else:
        client = StepByStep(address, headers=headers, transport=AsyncWatching())
    try:
        client.config()
        put(client, "main", ORDERS, 1)
    finally:
        client.close()
    assert len(seen) >= 3
    assert set(seen) == {"blue"}
