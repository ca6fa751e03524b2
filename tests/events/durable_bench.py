"""A store on which tests are the worker of durable subscriptions; nothing here is a test."""

from __future__ import annotations

import threading
from typing import Any

from lochan.access.policy import Call
from lochan.assembly.events import StoreRepositories
from lochan.embedded import Embedded
from lochan.events.durable import DurableDelivery
from lochan.events.filters import EventFilter
from lochan.events.hub import AnyDelivery, EventHub
from lochan.events.subscribers import DeliveryOptions, EventListener
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.commits import Put
from lochan.model.events import CommitMade, Event
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemRandom
from lochan.testing.ports import ManualClock
from tests.events.collector import Collector
from tests.service.bench import table

BEGIN_US = 1_700_000_000_000_000


class Advances:
    """Moves the clock instead of sleeping."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def sleep_ms(self, duration_ms: float) -> None:
        self.clock.advance_us(int(duration_ms * 1_000))


class DurableServer:
    """One server of a store: its hub, its repositories, and one repository that is used."""

    def __init__(self, store: Store | None = None, clock: ManualClock | None = None) -> None:
        self.store = store or MemoryStore()
        self.clock = clock or ManualClock(BEGIN_US)
        self.ports = Ports(self.clock, SystemRandom(), Advances(self.clock))
        self.started: list[AnyDelivery] = []
        self.hub = EventHub(self.ports, threading.Lock, self.started.append, sent_by="here")
        self.repositories = Repositories(self.store, self.ports, tuning=Tuning(observer=self.hub))
        self.hub.source = StoreRepositories(self.repositories)
        self.repository = self.open("default")

    def open(self, name: str) -> Embedded:
        return Embedded(self.store, self.repositories.open_or_create(Call(), name), "me")

    def subscribe(
        self, listener: EventListener, wanted: EventFilter | None = None, **options: Any
    ) -> DurableDelivery:
        chosen = DeliveryOptions(**{"cursor": "orders", **options})
        delivery = self.hub.subscribe(listener, wanted, chosen)
        assert isinstance(delivery, DurableDelivery)
        return delivery

    def commit(self, name: str, branch: str = "main") -> None:
        self.repository.commits.commit(branch, name, [Put(key=(name,), content=table(name))])


class Refusing(Collector):
    """Raises what it is given instead of taking events."""

    def __init__(self, failure: Exception | None) -> None:
        super().__init__()
        self.failure = failure
        self.asked: list[str] = []

    def on_event(self, event: Event) -> None:
        self.asked.append(event.id)
        if self.failure is not None:
            raise self.failure
        super().on_event(event)


def work(delivery: DurableDelivery, clock: ManualClock, *, pauses: int = 1) -> None:
    """Runs a worker through so many pauses: searches, attempts, looks at the lease."""
    for _ in range(pauses):
        while delivery.turn():
            pass
        clock.advance_us(int(delivery.pause_ms() * 1_000) + 1_000)
    while delivery.turn():
        pass


def messages(events: list[Event]) -> list[str]:
    return [one.meta.message for one in events if isinstance(one, CommitMade)]
