"""A client that is forgotten, as caches do, leaves no connection open."""

from __future__ import annotations

import gc
import warnings

import httpx

from lochan.client import Client


def test_a_client_that_is_no_longer_referenced_closes_its_connections(address):
    closed: list[bool] = []

    class Watching(httpx.HTTPTransport):
        def close(self) -> None:
            closed.append(True)
            super().close()

    client = Client(address, transport=Watching())
    assert client.config().default_branch == "main"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del client
        gc.collect()
    assert closed == [True]
