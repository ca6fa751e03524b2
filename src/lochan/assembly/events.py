"""Runs subscriptions: a thread for each, stopped in time.

A subscriber that cannot be loaded or registered is reported in the log and tried again at
intervals; the server starts without it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lochan.assembly.subscribers import Registration
from lochan.base.errors import Invalid
from lochan.base.limits.events import EVENT_DRAIN_MS, EVENT_GATHER_MS, EVENT_REGISTER_EVERY_MS
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.events.delivery import Delivery
from lochan.events.durable import DurableDelivery, RepositorySource
from lochan.events.filters import EventFilter
from lochan.events.hub import AnyDelivery, EventHub
from lochan.events.identity import FindUser, SubscriberIdentity
from lochan.events.observers import UNOBSERVED, DeliveryObserver
from lochan.events.subscribers import DeliveryOptions, EventListener, SubscriptionState
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import Ports, list_repositories
from lochan.process import after_fork
from lochan.service.repositories import Repositories

_LOG: Final = logging.getLogger("lochan.events")


class EventRunner:
    """The hub of a process and its threads; `close` delivers what is queued and ends them."""

    def __init__(
        self, ports: Ports, sent_by: str = "", observer: DeliveryObserver = UNOBSERVED
    ) -> None:
        self._stopping = threading.Event()
        waiting = _InterruptibleWaiting(self._stopping)
        ports = Ports(ports.clock, ports.random, waiting)
        sent_by = sent_by or process_name()
        self.hub = EventHub(ports, threading.Lock, self._start, sent_by=sent_by, observer=observer)
        self._find_user: FindUser | None = None
        self._threads: list[tuple[AnyDelivery, threading.Thread]] = []
        self._registration: threading.Thread | None = None
        after_fork(self, EventRunner._forget)

    def _forget(self) -> None:
        """A forked process has no worker; its changes have no subscriber."""
        self.hub.deliveries = ()
        self._threads = []
        self._registration = None

    def register(
        self,
        wanted: Sequence[Registration],
        source: RepositorySource | None = None,
        find_user: FindUser | None = None,
    ) -> None:
        """Registers subscribers; those that fail are tried again until the runner is closed.

        Delivery at least once reads the repositories of `source`; `find_user` finds the users whose
        rights bound what subscribers get.
        """
        self.hub.source = source
        self._find_user = find_user
        failed = [one for one in wanted if not self._register(one)]
        if failed:
            self._registration = threading.Thread(
                target=self._register_later, args=(failed,), name="events-register", daemon=True
            )
            self._registration.start()

    def close(self, drain_ms: int = EVENT_DRAIN_MS) -> None:
        """Delivers what is queued for so long at most, then ends; no thread is waited for longer.

        A thread whose listener never returns is left: it holds nothing but its one event.
        """
        self._stopping.set()
        for delivery, _ in self._threads:
            delivery.stop()
        left_ms = drain_ms
        for delivery, thread in self._threads:
            begin_ns = self.now_ns()
            thread.join(max(left_ms, 0) / 1_000)
            left_ms -= (self.now_ns() - begin_ns) // 1_000_000
            delivery.close()
        if self._registration is not None:
            self._registration.join(max(left_ms, 0) / 1_000)

    def now_ns(self) -> int:
        """Returns the time for durations."""
        return self.hub.ports.clock.monotonic_ns()

    def _register(self, wanted: Registration) -> bool:
        """Registers one subscriber; what a failed one had subscribed is cancelled."""
        attempt = _Attempt(self.hub, wanted, self._find_user)
        if attempt.register():
            _LOG.info("subscriber registered name=%s", wanted.name)
            return True
        _LOG.warning("subscriber failed at start name=%s error=%s", wanted.name, attempt.error)
        return False

    def _register_later(self, failed: list[Registration]) -> None:
        while failed and not self._stopping.wait(EVENT_REGISTER_EVERY_MS / 1_000):
            failed = [one for one in failed if not self._register(one)]

    def _start(self, delivery: AnyDelivery) -> None:
        bell = threading.Event()
        # A bell that is set already costs the writer no lock.
        delivery.wake = lambda: None if bell.is_set() else bell.set()
        work: Callable[[], None]
        if isinstance(delivery, DurableDelivery):
            work = partial(_work_durably, delivery, bell, self._stopping)
        else:
            work = partial(_work, delivery, bell, self._stopping)
        thread = threading.Thread(target=work, name="events", daemon=True)
        self._threads.append((delivery, thread))
        thread.start()


class _Attempt:
    """A registrar for one attempt to register a subscriber."""

    def __init__(
        self, hub: EventHub, wanted: Registration, find_user: FindUser | None = None
    ) -> None:
        self._hub = hub
        self._wanted = wanted
        self._find_user = find_user
        self._made: list[AnyDelivery] = []
        self.error = ""

    def register(self) -> bool:
        """Returns whether the subscriber was registered."""
        try:
            self._wanted.load().register(self)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            for delivery in self._made:
                delivery.cancel()
            return False
        return True

    def subscribe(
        self,
        listener: EventListener,
        filter: EventFilter | None = None,  # noqa: A002 - the name that the document gives it
        options: DeliveryOptions | None = None,
    ) -> AnyDelivery:
        """Subscribes a listener, until the attempt fails."""
        # The second subscription of one subscriber needs another name than the first.
        wanted, number = self._wanted, len(self._made)
        name = f"{wanted.name}/{number + 1}" if number else wanted.name
        delivery = self._hub.subscribe(
            listener,
            filter,
            wanted.options(options, name),
            name=name,
            narrowed=wanted.filter,
            identity=self._identity(),
        )
        self._made.append(delivery)
        return delivery

    def _identity(self) -> SubscriberIdentity | None:
        if not self._wanted.identity:
            return None
        if self._find_user is None:
            raise Invalid("a subscriber has an identity only in a server, which has users")
        return SubscriberIdentity(self._wanted.identity, self._find_user)


class StoreRepositories:
    """The repositories of a store for durable cursors (`RepositorySource`)."""

    def __init__(self, repositories: Repositories) -> None:
        self.store = repositories.store
        self._repositories = repositories

    def names(self) -> Sequence[str]:
        """Returns the names of all repositories, read page by page."""
        found: list[str] = []
        start = ""
        while page := list_repositories(self.store, start, PAGE_ENTRIES_MAX):
            found += [name for name, _ in page]
            start = f"{found[-1]}\0"
        return found

    def open(self, name: str) -> RepositoryContext:
        """Returns a repository, the open one if there is one."""
        return self._repositories.look_into(name).context


class _InterruptibleWaiting:
    """Sleeps, but not longer than until the process stops."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns after that long, or when the process stops."""
        self._stopping.wait(duration_ms / 1_000)


def _work(delivery: Delivery, bell: threading.Event, stopping: threading.Event) -> None:
    """The worker of one subscription."""
    while not delivery.is_over:
        # Cleared before the queue is looked at: what comes later sets it again. `stop` and
        # `cancel` set it too, after what they changed.
        bell.clear()
        if not (delivery.queued or delivery.is_over):
            bell.wait()
        # To wake a thread for each change would cost the writers more than the deliveries; and what
        # is a little older is mostly durable, so that the worker causes no flush of its own.
        count = max(delivery.queued, 1)
        stopping.wait(EVENT_GATHER_MS / 1_000)
        for _ in range(count):
            if not delivery.turn():
                pause_ms = delivery.pause_ms()
                if pause_ms is not None and not stopping.is_set():
                    bell.wait(pause_ms / 1_000)
                break
    delivery.finish()


def _work_durably(
    delivery: DurableDelivery, bell: threading.Event, stopping: threading.Event
) -> None:
    """The worker of one subscription with a durable cursor; logs changes of its state."""
    state: SubscriptionState | None = None
    while not delivery.is_over:
        bell.clear()
        if delivery.turn():
            continue
        if delivery.state is not state:
            state = delivery.state
            error = delivery.status().last_error
            _LOG.info(
                "subscriber state name=%s state=%s error=%r", delivery.name, state.value, error
            )
        if bell.wait(delivery.pause_ms() / 1_000):
            # As above: many changes wake it once.
            stopping.wait(EVENT_GATHER_MS / 1_000)
    delivery.finish()


def process_name() -> str:
    """Returns how events name the process that sent them."""
    return f"{socket.gethostname()}/{os.getpid()}"
