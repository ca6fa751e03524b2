"""A transport between a client and the server: runs other writes first, or loses replies."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from lochan.client import Client
from lochan.iceberg import LochanCatalog


class FaultyTransport(httpx.BaseTransport):
    """Passes requests on; runs actions before writes, and loses replies to writes.

    `before` has the actions that run before the next writes reach the server, one for each;
    `losses` is the number of replies to writes that are lost after the server has answered.
    """

    def __init__(self) -> None:
        self._transport = httpx.HTTPTransport()
        self.before: list[Callable[[], object]] = []
        self.losses = 0
        self.writes = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if "idempotency-key" not in request.headers:
            return self._transport.handle_request(request)
        if self.before:
            self.before.pop(0)()
        self.writes += 1
        response = self._transport.handle_request(request)
        if not self.losses:
            return response
        self.losses -= 1
        response.read()
        response.close()
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._transport.close()


def catalog_through(address: str, warehouse: str, transport: FaultyTransport) -> LochanCatalog:
    """Returns a catalog whose requests go through the transport, without pauses."""
    client = Client(address, transport=transport, sleep=lambda _: None)
    return LochanCatalog.on(client, warehouse=warehouse)
