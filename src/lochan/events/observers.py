"""What telemetry sees of deliveries, and the trace that an event belongs to.

The one who delivers runs each delivery, and each attempt in it, through an observer. While a
listener is called, `current_traceparent` returns the context of its attempt in the form of the W3C
header, so that a sink can pass it on; it is empty if the request that caused the event was not
sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol

from lochan.model.events import Event

TRACEPARENT: Final[ContextVar[str]] = ContextVar("lochan_traceparent", default="")


def current_traceparent() -> str:
    """Returns the trace context of the event that is handed over at the moment; empty for none."""
    return TRACEPARENT.get()


class DeliveryObserver(Protocol):
    """Sees deliveries; each method calls what it is given once and passes its outcome on."""

    def deliver(self, subscription: str, event: Event, call: Callable[[], bool]) -> bool:
        """Runs the delivery of an event, in one or several attempts; False is a dead letter."""
        ...

    def attempt(
        self, subscription: str, event: Event, number: int, call: Callable[[], None]
    ) -> None:
        """Runs one call of a listener; what it raises is passed on."""
        ...


class Unobserved:
    """The observer of a process without telemetry."""

    def deliver(
        self,
        subscription: str,  # noqa: ARG002
        event: Event,  # noqa: ARG002
        call: Callable[[], bool],
    ) -> bool:
        """Runs a delivery."""
        return call()

    def attempt(
        self,
        subscription: str,  # noqa: ARG002
        event: Event,  # noqa: ARG002
        number: int,  # noqa: ARG002
        call: Callable[[], None],
    ) -> None:
        """Runs an attempt."""
        call()


UNOBSERVED: Final = Unobserved()
