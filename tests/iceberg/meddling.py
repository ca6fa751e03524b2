"""A client between which and the server something happens: others write, or replies are lost."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from lochan.client import Client
from lochan.iceberg import LochanCatalog


class Meddling(httpx.BaseTransport):
    """Passes requests on; before each that writes it does what it was told, after it may lose it.

    `before` holds what is done before the next writes reach the server, one for each; `losses` is
    how many replies to writes are lost after the server has answered.
    """

    def __init__(self) -> None:
        self._through = httpx.HTTPTransport()
        self.before: list[Callable[[], object]] = []
        self.losses = 0
        self.writes = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if "idempotency-key" not in request.headers:
            return self._through.handle_request(request)
        if self.before:
            self.before.pop(0)()
        self.writes += 1
        response = self._through.handle_request(request)
        if not self.losses:
            return response
        self.losses -= 1
        response.read()
        response.close()
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._through.close()


def meddled(address: str, warehouse: str, transport: Meddling) -> LochanCatalog:
    """A catalog whose requests go through the transport; pauses are skipped."""
    client = Client(address, transport=transport, sleep=lambda _: None)
    return LochanCatalog.on(client, warehouse=warehouse)
