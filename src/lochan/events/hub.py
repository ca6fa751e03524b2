"""Takes every settled change of a process and passes it to the subscriptions, in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lochan.base.errors import Exhausted, Invalid
from lochan.base.limits.events import EVENT_SUBSCRIPTIONS_MAX
from lochan.base.ports import NewLock
from lochan.catalog.types import ContentTypes
from lochan.events.builder import EventBuilder
from lochan.events.changes import Change
from lochan.events.delivery import Delivery
from lochan.events.durable import DurableDelivery, RepositorySource
from lochan.events.filters import AnyFilter, BothFilters, CompiledFilter, EventFilter
from lochan.events.identity import BoundedListener, SubscriberIdentity, VisibleEvents
from lochan.events.observers import UNOBSERVED, DeliveryObserver
from lochan.events.order import ChangeOrder
from lochan.events.shared import SharedEvents
from lochan.events.subscribers import DeliveryOptions, EventListener
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import Ports
from lochan.kernel.settled import SettledChange

AnyDelivery = Delivery | DurableDelivery

Start = Callable[[AnyDelivery], None]
"""Starts the worker of a subscription."""

# It is a part of rows; the second subscription of a subscriber has a number behind a slash.
_CURSOR: Final = re.compile(r"[a-z0-9][a-z0-9_/-]{0,70}")


class EventHub:
    """The observer of all repositories of a process (`SettledObserver`), and the registrar."""

    def __init__(
        self,
        ports: Ports,
        new_lock: NewLock,
        start: Start,
        *,
        sent_by: str = "",
        types: ContentTypes | None = None,
        observer: DeliveryObserver = UNOBSERVED,
    ) -> None:
        self.ports = ports
        self._new_lock = new_lock
        self._start = start
        self._observer = observer
        self._builder = EventBuilder(types or ContentTypes(), sent_by)
        self._events = SharedEvents(self._builder, new_lock)
        self._lock = new_lock()
        self._order = ChangeOrder(new_lock, self._pass_on)
        # Replaced as a whole, so that writers read it without a lock.
        self.deliveries: tuple[AnyDelivery, ...] = ()
        self.source: RepositorySource | None = None
        """Where durable cursors find the repositories; set before the first one is subscribed."""

    def subscribe(
        self,
        listener: EventListener,
        filter: EventFilter | None = None,  # noqa: A002 - the name that the document gives it
        options: DeliveryOptions | None = None,
        *,
        name: str = "",
        narrowed: EventFilter | None = None,
        identity: SubscriberIdentity | None = None,
    ) -> AnyDelivery:
        """Delivers events to a listener from now on; Invalid if the filter cannot be used.

        `name` is how telemetry shows the subscription. `narrowed` is a second filter, that of an
        operator: an event has to be accepted by both. With a cursor in the options, delivery goes
        on where it ended last; the first time it begins with what happens from now on. With an
        `identity` the listener gets what that user may read.
        """
        own = CompiledFilter(filter or EventFilter())
        accepted: AnyFilter = own
        if narrowed is not None and narrowed != EventFilter():
            accepted = BothFilters(CompiledFilter(narrowed), own)
        if identity is not None:
            accepted = BothFilters(accepted, VisibleEvents(identity))
            listener = BoundedListener(listener, identity)
        delivery = self._delivery(listener, accepted, options or DeliveryOptions(), name)
        with self._lock:
            live = tuple([one for one in self.deliveries if not one.is_over])
            if len(live) >= EVENT_SUBSCRIPTIONS_MAX:
                text = f"there are {len(live)} subscriptions already, which is the limit"
                raise Exhausted(text, public=text)
            self.deliveries = (*live, delivery)
            self._events.is_shared = len(self.deliveries) > 1
        self._start(delivery)
        return delivery

    def _delivery(
        self, listener: EventListener, accepted: AnyFilter, options: DeliveryOptions, name: str
    ) -> AnyDelivery:
        ports, lock = self.ports, self._new_lock()
        if not options.cursor:
            return Delivery(
                listener,
                accepted,
                options,
                ports,
                self._events,
                lock,
                name=name,
                observer=self._observer,
            )
        if not _CURSOR.fullmatch(options.cursor):
            raise Invalid(f"a cursor cannot have the name {options.cursor!r}: use a-z, 0-9, _, -")
        if self.source is None:
            raise Invalid("delivery at least once needs a store: there is none here")
        durable = DurableDelivery(
            listener,
            accepted,
            options,
            ports,
            self._builder,
            lock,
            self.source,
            name=name or options.cursor,
            observer=self._observer,
        )
        durable.begin()
        return durable

    def begin(self, context: RepositoryContext, name: str) -> int:
        """Counts an operation on a reference; 0 if there is no subscription."""
        return self._order.begin((context.instance, name)) if self.deliveries else 0

    def end(self, context: RepositoryContext, name: str, number: int) -> None:
        """Ends an operation, whatever became of it."""
        if number:
            self._order.end((context.instance, name), number)

    def settle(self, context: RepositoryContext, change: SettledChange) -> None:
        """Takes a change that has taken effect."""
        if self.deliveries:
            self._order.add(Change(context, change, context.store.epoch()))

    def _pass_on(self, change: Change) -> None:
        for delivery in self.deliveries:
            delivery.offer(change)
