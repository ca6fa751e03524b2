"""A whole server on loopback inside the test, and the asynchronous client, one call at a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import msgspec

from lochan.access.policy import Call, OpenPolicy, Principal
from lochan.access.rights import OPEN_RIGHTS
from lochan.assembly import open_store
from lochan.assembly.access import ServerAccess, open_access
from lochan.assembly.places import Places
from lochan.base.errors import Unauthenticated
from lochan.client import AsyncClient
from lochan.client.methods import Group
from lochan.faces.access.face import AccessFace
from lochan.faces.files.face import FilesFace
from lochan.faces.nessie.face import nessie_faces
from lochan.faces.s3.face import S3Face
from lochan.faces.store.face import StoreFace
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.persist.retry import RetryPolicy
from lochan.service.repositories import Repositories
from lochan.service.stores import StoreControl
from lochan.settings import Settings
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transport.exchange import Request
from lochan.transport.listener import ListenerOptions
from lochan.transport.routes import Authentication, Face, Match
from lochan.transport.server import Options, Server

DOMAINS = ("localhost", "s3.test")
"""The domains of the S3 gateway."""


class Guard:
    """Lets requests with the known headers pass, and records the header of every request."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)
        self.seen: list[str | None] = []

    def authenticate(self, request: Request, match: Match) -> Principal:
        given = request.headers.get("authorization")
        self.seen.append(given)
        if given not in self.known:
            raise Unauthenticated("valid credentials are needed")
        return Principal("ada")


class Recorder:
    """Records the header `Authorization` of every request that a server authenticates."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        # The paths of requests without the header.
        self.anonymous: set[bytes] = set()

    def around(self, authentication: Authentication) -> Authentication:
        def find_known(request: Request, match: Match) -> Principal | None:
            given = request.headers.get("authorization")
            self.seen.append(given)
            if given is None:
                self.anonymous.add(request.path)
            return authentication.find_known(request, match)

        return msgspec.structs.replace(authentication, find_known=find_known)


@contextmanager
def serving(
    store_url: str = "memory:",
    *repositories: str,
    guard: Guard | None = None,
    recorder: Recorder | None = None,
    blocks: Path | None = None,
    imports: Sequence[str] = (),
    gateways: list[str] | None = None,
    wrap: Callable[[Store], Store] | None = None,
) -> Iterator[str]:
    """Runs a server in a thread; yields its address.

    It knows its callers once access was set up, or from the beginning by a guard. The bytes of
    files are below `blocks`, by default in a folder that is removed. The address of its S3 gateway
    is added to `gateways`, if there is such a list. `wrap` returns what is used as the store.
    """
    with TemporaryDirectory(prefix="lochan-blocks-") as temporary:
        folder = blocks or temporary

        def opened() -> Store:
            store = open_store(store_url)
            return store if wrap is None else wrap(store)

        yield from _serve(opened, repositories, guard, recorder, folder, imports, gateways)


def _faces(
    opened: Repositories, access: ServerAccess, authentication: Authentication
) -> list[Face]:
    return [
        *nessie_faces(opened, "default", authentication),
        FilesFace("default", authentication),
        AccessFace(access.control, authentication),
        StoreFace(StoreControl(opened, access.policy), authentication),
    ]


def _serve(
    open_one: Callable[[], Store],
    repositories: Sequence[str],
    guard: Guard | None,
    recorder: Recorder | None,
    blocks: Path | str,
    imports: Sequence[str],
    gateways: list[str] | None,
) -> Iterator[str]:
    ready, urls = Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        store = open_one()
        places = Places(Path(blocks), imports=imports)
        try:
            ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
            access = open_access(Settings(store="memory:"), store, ports, RetryPolicy(), None)
            opened = Repositories(
                store,
                ports,
                policy=OpenPolicy() if guard else access.policy,
                files=places.support(),
            )
            for name in ("default", *repositories):
                opened.open_or_create(Call(rights=OPEN_RIGHTS), name)
            authentication = Authentication(guard.authenticate) if guard else access.authentication
            if recorder is not None:
                authentication = recorder.around(authentication)
            faces = _faces(opened, access, authentication)
            gateway = S3Face(opened, access.signed_authentication, DOMAINS)
            listener = ListenerOptions(faces=[gateway], domains=DOMAINS)
            listeners = [] if gateways is None else [listener]
            server = Server(store, opened, faces, Options(port=0), listeners=listeners)
            urls.append(await server.start())
            if gateways is not None:
                gateways.append(server.listeners[1].address)
            ready.set()
            await stop.wait()
            await server.stop()
        finally:
            places.close()
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
