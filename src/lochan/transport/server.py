"""The running server: listens, serves, and stops without losing what is under way.

It has a main listener and may have others, each with its own faces, names and certificate; driver,
lanes, pools, flush, limits and clock are the same for all of them.

Stopping: 1. accept no new connection; 2. close idle connections, answer the requests under way,
each answer the last of its connection; 3. after 20 seconds cut the rest; 4. let lanes, threads and
the flusher end. A client that was answered has its commit on the disk; one that was cut has no
answer and must read the branch.

A forked process serves no client: it gives up the sockets, which would otherwise stay open with it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from lochan.base.errors import Unavailable
from lochan.base.limits.http import HTTP_BODY_BYTES_MAX
from lochan.base.limits.quotas import SHARED_REQUESTS_MAX
from lochan.base.limits.server import DRAIN_TIMEOUT_S, SWITCH_INTERVAL_S
from lochan.kv.store import Store
from lochan.process import after_fork
from lochan.transport.addresses import check_loopback
from lochan.transport.app import OwnHandler, RepositoryOpener
from lochan.transport.connection_registry import ConnectionRegistry, Timeouts
from lochan.transport.driver import Driver
from lochan.transport.driver_context import DriverContext
from lochan.transport.group_flush import GroupFlush
from lochan.transport.health import Health
from lochan.transport.lanes import Lanes
from lochan.transport.listener import Listener, ListenerOptions
from lochan.transport.long_share import LongShare
from lochan.transport.observers import RequestObservers
from lochan.transport.pool import Pool
from lochan.transport.quotas import QuotaLimits, Quotas
from lochan.transport.read_batches import ReadBatches
from lochan.transport.routes import Face
from lochan.transport.tls import Certificate
from lochan.transport.turns import Turns


class Options(msgspec.Struct, frozen=True):
    """How a server runs, and its main listener.

    `names` are further names that it answers to; `unix_socket` is the path of a Unix socket that
    serves the same. Without `allow_remote` it refuses addresses that other machines could reach.
    """

    host: str = "127.0.0.1"
    port: int = 19120
    names: tuple[str, ...] = ()
    certificate: Certificate | None = None
    unix_socket: str = ""
    brief_threads: int = 4
    publish_threads: int = 12
    long_threads: int = 4
    timeouts: Timeouts = Timeouts()
    drain_s: float = DRAIN_TIMEOUT_S
    show_traces: bool = False
    default_repository: str = "default"
    allow_remote: bool = False
    quotas: QuotaLimits = QuotaLimits()
    request_bytes_max: int = HTTP_BODY_BYTES_MAX


class PeriodicTask(msgspec.Struct, frozen=True):
    """Work that is repeated in a thread, some seconds after it ended last.

    Work that returns True has more to do, and is called again after a pause.
    """

    every_s: float
    work: Callable[[], object]
    pause_s: float = 1.0


class Server:
    """One server; made, started and stopped on one event loop."""

    def __init__(
        self,
        store: Store,
        repositories: RepositoryOpener,
        faces: Sequence[Face],
        options: Options,
        *,
        observers: RequestObservers | None = None,
        own: Mapping[bytes, OwnHandler] | None = None,
        periodic_tasks: Sequence[PeriodicTask] = (),
        listeners: Sequence[ListenerOptions] = (),
        reloads: Sequence[Callable[[], object]] = (),
    ) -> None:
        if not options.allow_remote:
            check_loopback(options.host)
        loop = self._loop = asyncio.get_running_loop()
        self.options = options
        observers = observers or RequestObservers()
        inline = store.capabilities.inline
        # A publish waits for a disk far away, and many may do so at once. Brief requests mostly
        # compute: more threads would only take the interpreter from each other.
        self.brief_pool = Pool(loop, "brief", options.brief_threads)
        self.publish_pool = Pool(loop, "publish", options.publish_threads)
        begin = self._begin_long if inline else lambda: None
        self.long_pool = Pool(loop, "long", options.long_threads, begin=begin)
        self.long_share = LongShare(loop, self.long_pool)
        self._pools = (self.brief_pool, self.publish_pool, self.long_pool)
        self.group_flush = GroupFlush(loop, store)
        self.chains: dict[int, int] = {}
        self.lanes = Lanes(
            loop,
            self.long_pool if inline else self.publish_pool,
            inline=inline,
            published=self._published,
            run_in_trace=None if observers.tracer is None else observers.tracer.within,
        )
        self.health = Health(store, self.brief_pool if not inline else None)
        self.driver = Driver(self._context(repositories, observers, inline=inline))
        served = {**self.health.routes(), **(own or {})}
        self.registry = ConnectionRegistry(loop, self.driver, options.timeouts)
        described = (*_main_listeners(options, faces, served), *listeners)
        self.listeners = [Listener(self.registry, each) for each in described]
        self.is_stopping = False
        self._periodic_tasks = periodic_tasks
        self._reloads = reloads
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._switch_interval_s = sys.getswitchinterval()

    def _context(
        self, repositories: RepositoryOpener, observers: RequestObservers, *, inline: bool
    ) -> DriverContext:
        loop, options = self._loop, self.options
        return DriverContext(
            loop=loop,
            repositories=repositories,
            default_repository=options.default_repository,
            inline=inline,
            brief_pool=self.brief_pool,
            long_pool=self.long_pool,
            lanes=self.lanes,
            read_batches=ReadBatches(loop, self.brief_pool),
            group_flush=self.group_flush,
            observers=observers,
            quotas=Quotas(_quota_limits(options.quotas, inline=inline), loop.time),
            turns=Turns(loop, self.lanes.publish_ready),
            request_bytes_max=options.request_bytes_max,
            show_traces=options.show_traces,
        )

    async def start(self) -> str:
        """Listens everywhere or nowhere, and returns the address of the main listener."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            for listener in self.listeners:
                listener.bind()
        except Unavailable:
            self._close_listeners()
            self.registry.close()
            raise
        after_fork(self, Server._forked)
        # Before the first connection: a client that is accepted is served.
        self.health.ready = True
        for listener in self.listeners:
            await listener.accept(self._loop)
        for number in range(len(self._periodic_tasks)):
            self._schedule(number)
        return self.listeners[0].address

    @property
    def certificates(self) -> list[Certificate]:
        """The certificates of all listeners, each once."""
        found = {id(each.certificate): each.certificate for each in self.listeners}
        return [each for each in found.values() if each is not None]

    @property
    def can_reload(self) -> bool:
        """Whether there is something to read again."""
        return bool(self.certificates or self._reloads)

    def reload(self) -> None:
        """Reads all certificates again, for handshakes from now on, and reopens logs."""
        for certificate in self.certificates:
            certificate.reload()
        for each in self._reloads:
            each()

    def connections(self) -> int:
        """Returns how many clients are connected."""
        return len(self.registry.connections)

    def cut(self) -> None:
        """Cuts all connections, whatever is under way."""
        self.registry.cut()

    async def stop(self) -> None:
        """Stops as described above; the caller closes the store."""
        self.health.ready = False
        self.is_stopping = True
        for timer in self._timers.values():
            timer.cancel()
        self._periodic_tasks = ()
        self._close_listeners()
        await self.registry.drain(self.options.drain_s)
        self.registry.close()
        # A request that was cut may still be in a lane or a thread: it writes everything or
        # nothing, and the store is closed only after it.
        for pool in self._pools:
            pool.stop()
        await self._loop.run_in_executor(None, self._join)
        for listener in self.listeners:
            await listener.wait_closed()
        self.long_share.stop()
        sys.setswitchinterval(self._switch_interval_s)

    def _begin_long(self) -> None:
        self.long_share.begin()

    def _close_listeners(self) -> None:
        for listener in self.listeners:
            listener.close()

    def _forked(self) -> None:
        listening = [each.descriptor for each in self.listeners]
        connected = [each.descriptor() for each in self.registry.connections]
        for each in (*listening, *connected):
            if each is not None:
                each.abandon()

    def _schedule(self, number: int, outcome: object = None) -> None:
        if number < len(self._periodic_tasks):
            task = self._periodic_tasks[number]
            wait_s = task.pause_s if outcome is True else task.every_s
            self._timers[number] = self._loop.call_later(wait_s, self._run_task, number)

    def _run_task(self, number: int) -> None:
        # A task that failed is tried again next time; no client waits for it.
        done = partial(self._schedule, number)
        self.long_pool.submit(self._periodic_tasks[number].work, done, must=True)

    def _join(self) -> None:
        for pool in self._pools:
            pool.join(self.options.drain_s)
        self.group_flush.stop()

    def _published(self, proposals: int) -> None:
        self.chains[proposals] = self.chains.get(proposals, 0) + 1
        self.group_flush.begin()


def _quota_limits(limits: QuotaLimits, *, inline: bool) -> QuotaLimits:
    """Returns the limits for a store; threads that wait for a database delay no other caller."""
    if not inline:
        return limits
    return msgspec.structs.replace(limits, shared_requests_max=SHARED_REQUESTS_MAX)


def _main_listeners(
    options: Options, faces: Sequence[Face], own: Mapping[bytes, OwnHandler]
) -> list[ListenerOptions]:
    """Returns the main listener and, if there is one, the Unix socket that serves the same."""
    main = ListenerOptions(
        faces=faces,
        own=own,
        host=options.host,
        port=options.port,
        names=options.names,
        certificate=options.certificate,
        allow_remote=options.allow_remote,
    )
    if not options.unix_socket:
        return [main]
    beside = msgspec.structs.replace(main, unix_socket=options.unix_socket, certificate=None)
    return [main, beside]
