"""A subscriber that keeps what it gets, and an embedded repository with one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lochan.embedded import Embedded, open_repository
from lochan.events.filters import EventFilter
from lochan.events.subscribers import DeliveryOptions, EventListener, Registrar, Subscription
from lochan.model.events import Event


class Collector(EventListener):
    """Keeps all events; registers itself."""

    def __init__(
        self, wanted: EventFilter | None = None, options: DeliveryOptions | None = None
    ) -> None:
        self.events: list[Event] = []
        self.subscription: Subscription | None = None
        self._wanted = wanted
        self._options = options

    def register(self, registrar: Registrar) -> None:
        self.subscription = registrar.subscribe(self, self._wanted, self._options)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


@contextmanager
def collected(
    collector: Collector, *more: Collector, who: str = "me", store: str = "memory:"
) -> Iterator[Embedded]:
    """Closing the repository delivers everything that is queued."""
    with open_repository(store, who=who, subscribers=[collector, *more]) as repository:
        yield repository
