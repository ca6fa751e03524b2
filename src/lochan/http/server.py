"""The running server: listens on loopback, serves, and stops without losing what is under way.

Stopping: 1. accept nobody new; 2. close idle connections, answer what is under way, each answer the
last of its connection; 3. after 20 seconds cut the rest; 4. let lanes, threads and the flusher end.
Who was answered has its commit on the disk; who was cut has no answer, and may ask.

A forked process serves nobody: it gives up the sockets, which would otherwise stay open with it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits import DRAIN_TIMEOUT_S, LISTEN_BACKLOG, SWITCH_INTERVAL_S
from lochan.http.app import App, OwnHandler, Repositories
from lochan.http.connection import Connection
from lochan.http.driver import Driver, DriverContext
from lochan.http.group_flush import GroupFlush
from lochan.http.health import Health
from lochan.http.hygiene import LOOPBACK_NAMES, Hosts
from lochan.http.lanes import Lanes
from lochan.http.listener import Listener, Timeouts
from lochan.http.observers import RequestObservers
from lochan.http.pool import Pool
from lochan.http.read_batches import ReadBatches
from lochan.http.routes import Face
from lochan.kv.store import Store
from lochan.process import Descriptor, after_fork


class Options(msgspec.Struct, frozen=True):
    """How a server runs; `names` are further names that it answers to."""

    host: str = "127.0.0.1"
    port: int = 19120
    names: tuple[str, ...] = ()
    brief_threads: int = 4
    publish_threads: int = 12
    long_threads: int = 4
    timeouts: Timeouts = Timeouts()
    drain_s: float = DRAIN_TIMEOUT_S
    show_traces: bool = False
    default_repository: str = "default"


class Chore(msgspec.Struct, frozen=True):
    """Work that is done again and again, in a thread, some seconds after it was last done.

    Work that returns True has more to do, and goes on after a pause.
    """

    every_s: float
    work: Callable[[], object]
    pause_s: float = 1.0


class Server:
    """One server; made, started and stopped on one event loop."""

    def __init__(
        self,
        store: Store,
        repositories: Repositories,
        faces: Sequence[Face],
        options: Options,
        *,
        watch: RequestObservers | None = None,
        own: Mapping[bytes, OwnHandler] | None = None,
        chores: Sequence[Chore] = (),
    ) -> None:
        check_loopback(options.host)
        loop = self._loop = asyncio.get_running_loop()
        self.options = options
        watch = watch or RequestObservers()
        inline = store.capabilities.inline
        # A publish waits for a disk far away, and many may do so at once. Brief requests mostly
        # compute: more threads would only take the interpreter from each other.
        self.brief_pool = Pool(loop, "brief", options.brief_threads)
        self.publish_pool = Pool(loop, "publish", options.publish_threads)
        self.long_pool = Pool(loop, "long", options.long_threads)
        self._pools = (self.brief_pool, self.publish_pool, self.long_pool)
        self.flushing = GroupFlush(loop, store)
        self.chains: dict[int, int] = {}
        self.lanes = Lanes(
            loop,
            self.long_pool if inline else self.publish_pool,
            inline=inline,
            published=self._published,
            within=None if watch.tracer is None else watch.tracer.within,
        )
        self.health = Health(store, self.brief_pool if not inline else None)
        served = {**self.health.routes(), **(own or {})}
        app = App(faces, repositories, served, options.default_repository)
        self.driver = Driver(
            DriverContext(
                loop=loop,
                app=app,
                inline=inline,
                brief_pool=self.brief_pool,
                long_pool=self.long_pool,
                lanes=self.lanes,
                readings=ReadBatches(loop, self.brief_pool),
                flushing=self.flushing,
                watch=watch,
                show_traces=options.show_traces,
            )
        )
        self.listening = Listener(loop, self.driver, Hosts(_names(options)), options.timeouts)
        self.is_stopping = False
        self._chores = chores
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None
        self._listener: Descriptor | None = None
        self._switch_interval_s = sys.getswitchinterval()

    async def start(self) -> str:
        """Listens, and returns the address under which it can be reached."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            listener = self._bind()
        except OSError as error:
            self.listening.close()
            raise Unavailable(
                f"cannot listen on {self.options.host}:{self.options.port}: {error.strerror}; "
                "stop whoever has that port, or choose another"
            ) from error
        host, port = listener.getsockname()[:2]
        self._listener = Descriptor(listener.fileno())
        after_fork(self, Server._forked)
        # Before anybody can ask: who is let in is served.
        self.health.ready = True
        self._server = await self._loop.create_server(
            lambda: Connection(self.listening), sock=listener, backlog=LISTEN_BACKLOG
        )
        for number in range(len(self._chores)):
            self._later(number)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _bind(self) -> socket.socket:
        host = "127.0.0.1" if self.options.host == "localhost" else self.options.host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server(
            (host, self.options.port), family=family, backlog=LISTEN_BACKLOG
        )
        listener.setblocking(False)
        return listener

    def connections(self) -> int:
        """Returns how many clients are connected."""
        return len(self.listening.connections)

    def cut(self) -> None:
        """Cuts all connections, whatever is under way."""
        self.listening.cut()

    async def stop(self) -> None:
        """Stops as described above; the caller closes the store."""
        self.health.ready = False
        self.is_stopping = True
        for timer in self._timers.values():
            timer.cancel()
        self._chores = ()
        if self._server is not None:
            self._server.close()
        await self.listening.drain(self.options.drain_s)
        self.listening.close()
        # Whoever was cut off may still be in a lane or a thread: what it writes is whole or not at
        # all, and the store is closed only after it.
        for pool in self._pools:
            pool.stop()
        await self._loop.run_in_executor(None, self._join)
        if self._server is not None:
            await self._server.wait_closed()
        sys.setswitchinterval(self._switch_interval_s)

    def _forked(self) -> None:
        sockets = [each.descriptor() for each in self.listening.connections]
        for each in (self._listener, *sockets):
            if each is not None:
                each.abandon()

    def _later(self, number: int, outcome: object = None) -> None:
        if number < len(self._chores):
            chore = self._chores[number]
            wait_s = chore.pause_s if outcome is True else chore.every_s
            self._timers[number] = self._loop.call_later(wait_s, self._do, number)

    def _do(self, number: int) -> None:
        # What failed is tried next time; a chore is nobody's request.
        done = partial(self._later, number)
        self.long_pool.submit(self._chores[number].work, done, must=True)

    def _join(self) -> None:
        for pool in self._pools:
            pool.join(self.options.drain_s)
        self.flushing.stop()

    def _published(self, proposals: int) -> None:
        self.chains[proposals] = self.chains.get(proposals, 0) + 1
        self.flushing.begin()


def check_loopback(host: str) -> None:
    """Refuses addresses that others could reach: there is no authentication yet."""
    if host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise Invalid(
            f"cannot serve on {host!r}: without authentication only this machine is served; "
            "use 127.0.0.1, ::1 or localhost"
        )


def _names(options: Options) -> frozenset[bytes]:
    own = options.host if ":" not in options.host else f"[{options.host.strip('[]')}]"
    return LOOPBACK_NAMES | {name.lower().encode() for name in (own, *options.names)}
