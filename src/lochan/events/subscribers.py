"""What a package implements to get events: a subscriber, which registers listeners.

    class Printer(EventListener):
        def on_commit(self, event: CommitMade) -> None:
            print(event.reference.name, event.hash_after)

    class PrinterSubscriber:
        def register(self, registrar: Registrar) -> None:
            registrar.subscribe(Printer(), EventFilter(references=("main",)))

Only an operator activates delivery: subscribers come from installed packages and are named in the
settings, or are given to `open_repository`. No request registers one.

An entry point of the group `lochan.subscribers` names a `SubscriberFactory`. It gets the keys of
the table in the settings that are its own (`events/options.py` checks them), opens nothing, and
returns a `Subscriber`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from lochan.base.limits.events import (
    EVENT_AGE_S_MAX,
    EVENT_ATTEMPTS_MAX,
    EVENT_BREAKER_MS,
    EVENT_CALL_MS_MAX,
    EVENT_FAILURES_MAX,
    EVENT_POLL_MS,
    EVENT_QUEUE_MAX,
    EVENT_SLEEP_FIRST_MS,
    EVENT_SLEEP_MAX_MS,
)
from lochan.events.filters import EventFilter
from lochan.model import events
from lochan.model.events import Event


class EventListener:
    """Gets events, one at a time and in the order of each reference; a method for each type.

    Each defaults to `on_event`; so does a type that this class does not know. A method that raises
    is called again with the same event, a few times; `events/reactions.py` has exceptions that ask
    for a pause, or for no other call. It should return soon: one that takes longer
    than the limit trips its subscription; with delivery at most once events are dropped until it
    returns, with delivery at least once another server may deliver the same event.
    """

    def on_event(self, event: Event) -> None:
        """Gets every event that no other method gets."""

    def on_commit(self, event: events.CommitMade) -> None:
        """Gets COMMIT."""
        self.on_event(event)

    def on_merge(self, event: events.MergeMade) -> None:
        """Gets MERGE."""
        self.on_event(event)

    def on_transplant(self, event: events.TransplantMade) -> None:
        """Gets TRANSPLANT."""
        self.on_event(event)

    def on_reference_created(self, event: events.ReferenceCreated) -> None:
        """Gets REFERENCE_CREATED."""
        self.on_event(event)

    def on_reference_updated(self, event: events.ReferenceUpdated) -> None:
        """Gets REFERENCE_UPDATED."""
        self.on_event(event)

    def on_reference_deleted(self, event: events.ReferenceDeleted) -> None:
        """Gets REFERENCE_DELETED."""
        self.on_event(event)

    def on_content_stored(self, event: events.ContentStored) -> None:
        """Gets CONTENT_STORED."""
        self.on_event(event)

    def on_content_removed(self, event: events.ContentRemoved) -> None:
        """Gets CONTENT_REMOVED."""
        self.on_event(event)

    def on_file_stored(self, event: events.FileStored) -> None:
        """Gets FILE_STORED."""
        self.on_event(event)

    def on_file_removed(self, event: events.FileRemoved) -> None:
        """Gets FILE_REMOVED."""
        self.on_event(event)

    def on_gap(self, event: events.GapFound) -> None:
        """Gets GAP: changes that are not delivered, although delivery is at least once."""
        self.on_event(event)

    def close(self) -> None:
        """Is called once, after the last event."""


_METHODS: Final[Mapping[str, Callable[[EventListener, Any], None]]] = {
    events.COMMIT: lambda listener, event: listener.on_commit(event),
    events.MERGE: lambda listener, event: listener.on_merge(event),
    events.TRANSPLANT: lambda listener, event: listener.on_transplant(event),
    events.REFERENCE_CREATED: lambda listener, event: listener.on_reference_created(event),
    events.REFERENCE_UPDATED: lambda listener, event: listener.on_reference_updated(event),
    events.REFERENCE_DELETED: lambda listener, event: listener.on_reference_deleted(event),
    events.CONTENT_STORED: lambda listener, event: listener.on_content_stored(event),
    events.CONTENT_REMOVED: lambda listener, event: listener.on_content_removed(event),
    events.FILE_STORED: lambda listener, event: listener.on_file_stored(event),
    events.FILE_REMOVED: lambda listener, event: listener.on_file_removed(event),
    events.GAP: lambda listener, event: listener.on_gap(event),
}


def hand_over(listener: EventListener, event: Event) -> None:
    """Calls the method of a listener for an event; a type that is not known reaches `on_event`."""
    method = _METHODS.get(event.type)
    if method is None:
        listener.on_event(event)
    else:
        method(listener, event)


class DropPolicy(Enum):
    """What is dropped if the queue of a subscription is full."""

    NEWEST = "newest"
    OLDEST = "oldest"


class DeliveryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How events are delivered to one subscription.

    With `cursor`, the name of a durable cursor in the store, delivery is at least once
    (`events/durable.py`): `queue_max`, `drop` and `failures_max` have no meaning then. Without it
    `poll_ms` and `age_s_max` have none.
    """

    cursor: str = ""
    poll_ms: int = EVENT_POLL_MS
    age_s_max: int = EVENT_AGE_S_MAX
    queue_max: int = EVENT_QUEUE_MAX
    drop: DropPolicy = DropPolicy.NEWEST
    attempts_max: int = EVENT_ATTEMPTS_MAX
    sleep_first_ms: float = EVENT_SLEEP_FIRST_MS
    sleep_max_ms: float = EVENT_SLEEP_MAX_MS
    failures_max: int = EVENT_FAILURES_MAX
    breaker_ms: int = EVENT_BREAKER_MS
    call_ms_max: int = EVENT_CALL_MS_MAX


class SubscriptionState(Enum):
    """What a subscription does at the moment."""

    RUNNING = "running"
    FAILING = "failing"
    """The last attempt failed; it is tried again."""
    TRIPPED = "tripped"
    """The breaker is open, or a call takes too long."""
    STANDBY = "standby"
    """Another server has the lease and delivers."""
    CANCELLED = "cancelled"


class SubscriptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription at a moment: its state, and numbers since it began.

    `queued`, `dropped` and `skipped` count changes, the others events. Of a skipped change no event
    may be accepted by the filter; a rejected event is refused by it when it is made. `trips` is how
    often the breaker opened or a call took too long. `lag_ms` is for how long the oldest change
    waits. `last_error` is the name of the exception that was raised last, with the
    text of those that may be shown (`events/reactions.py`).
    """

    state: SubscriptionState
    queued: int
    lag_ms: int
    delivered: int
    retried: int
    dead: int
    dropped: int
    trips: int
    skipped: int
    rejected: int
    last_error: str = ""


class Subscription(Protocol):
    """What a subscriber gets for a listener."""

    def status(self) -> SubscriptionStatus:
        """Returns what became of it so far."""
        ...

    def cancel(self) -> None:
        """Ends it: what is queued is dropped, and no event follows the call that is under way.

        A durable cursor stays; the next subscription with its name goes on from there.
        """
        ...


class Registrar(Protocol):
    """Takes the listeners of a subscriber."""

    def subscribe(
        self,
        listener: EventListener,
        filter: EventFilter | None = None,  # noqa: A002 - the name that the document gives it
        options: DeliveryOptions | None = None,
    ) -> Subscription:
        """Delivers events to a listener from now on; Invalid if the filter cannot be used."""
        ...


class Subscriber(Protocol):
    """What registers listeners."""

    def register(self, registrar: Registrar) -> None:
        """Subscribes listeners; if it raises it is called again later."""
        ...


SubscriberFactory = Callable[[Mapping[str, Any]], Subscriber]
"""What an entry point of the group `lochan.subscribers` names; Invalid if an option is wrong."""
