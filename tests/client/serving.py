"""A whole server on loopback inside the test, and the asynchronous client, one call at a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from lochan.assembly import open_store
from lochan.client import AsyncClient
from lochan.client.methods import Group
from lochan.faces.nessie.face import nessie_faces
from lochan.kernel.repository import Ports
from lochan.service.policy import Call
from lochan.service.repositories import Repositories
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transport.server import Options, Server


@contextmanager
def serving(store_url: str = "memory:", *repositories: str) -> Iterator[str]:
    """Runs a server in a thread; yields its address."""
    ready, urls = Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        store = open_store(store_url)
        try:
            ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
            opened = Repositories(store, ports)
            for name in ("default", *repositories):
                opened.open_or_create(Call(), name)
            server = Server(store, opened, nessie_faces(opened, "default"), Options(port=0))
            urls.append(await server.start())
            ready.set()
            await stop.wait()
            await server.stop()
        finally:
            store.close()
            ready.set()

    thread = Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
        loop.close()


class StepByStep:
    """An asynchronous client whose every call is run to its end; iterators become lists."""

    def __init__(self, url: str, repository: str = "default", **more: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(url, repository, **more)
        for name in vars(self._client):
            group = getattr(self._client, name)
            if isinstance(group, Group) and group is not self._client:
                setattr(self, name, _Group(self, group))

    def config(self) -> Any:
        return self.settle(self._client.config())

    def close(self) -> None:
        self.settle(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def settle(self, result: Any) -> Any:
        if inspect.isawaitable(result):
            return self._loop.run_until_complete(_awaited(result))
        return iter(self._loop.run_until_complete(_collected(result)))


class _Group:
    def __init__(self, client: StepByStep, group: Any) -> None:
        self._client = client
        self._group = group

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._group, name)
        return lambda *given, **more: self._client.settle(method(*given, **more))


async def _awaited(result: Any) -> Any:
    return await result


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]
