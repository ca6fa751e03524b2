"""Deliveries of events: how many, how long, of which outcome; and a span for each attempt.

A delivery continues the trace of the request that caused its event. Names and attributes are those
of OpenTelemetry's conventions for messaging: the subscription is the destination, the id of the
event that of the message.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from threading import Lock
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from lochan.events.observers import TRACEPARENT
from lochan.events.subscribers import SubscriptionState, SubscriptionStatus
from lochan.model.events import Event
from lochan.process import after_fork
from lochan.telemetry.metrics import BOUNDS_S, Histogram, Labels, counters, histograms
from lochan.telemetry.traces import Traces

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SubscriptionStatuses = Callable[[], Iterable[tuple[str, SubscriptionStatus]]]
"""Returns the name and the status of each subscription."""

_DESTINATION: Final = ("subscription",)
_COUNTED: Final = {
    "delivered": "Events that a subscriber took.",
    "retried": "Attempts that followed a failed one.",
    "dead": "Events that a subscriber did not take in any attempt.",
    "dropped": "Changes that were dropped because a queue was full or a call took too long.",
    "trips": "How often a breaker opened or a call took too long.",
    "skipped": "Changes of which a filter accepts no event.",
    "rejected": "Events that a filter refused when they were made.",
}


class DeliveryMetrics:
    """What is counted of deliveries, and the state of each subscription at the moment."""

    def __init__(self, statuses: SubscriptionStatuses = tuple) -> None:
        self._statuses = statuses
        self._lock = Lock()
        after_fork(self, DeliveryMetrics._forked)
        self._attempts: Counter[Labels] = Counter()
        self._durations: defaultdict[Labels, Histogram] = defaultdict(partial(Histogram, BOUNDS_S))

    def _forked(self) -> None:
        """Another thread of the parent may have the lock."""
        self._lock = Lock()

    def count(self, subscription: str, type_name: str, outcome: str, duration_ns: int) -> None:
        """Counts an attempt that has ended."""
        with self._lock:
            self._attempts[(subscription, type_name, outcome)] += 1
            self._durations[(subscription, outcome)].add(duration_ns / 1e9)

    def families(self) -> Iterator[Metric]:
        """Yields everything in the form of the library for Prometheus."""
        with self._lock:
            yield counters(
                "lochan_event_attempts",
                "Calls of subscribers.",
                ("subscription", "type", "outcome"),
                dict(self._attempts),
            )
            yield histograms(
                "lochan_event_attempt_seconds",
                "Time of calls of subscribers.",
                ("subscription", "outcome"),
                self._durations,
            )
        yield from self._states()

    def _states(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        found = list(self._statuses())
        for name, text in _COUNTED.items():
            values: dict[Labels, float] = {
                (one,): float(getattr(status, name)) for one, status in found
            }
            yield counters(f"lochan_event_{name}", text, _DESTINATION, values)
        queue = GaugeMetricFamily(
            "lochan_event_queue", "Changes that wait for a subscriber.", labels=_DESTINATION
        )
        lag = GaugeMetricFamily(
            "lochan_event_lag_seconds", "For how long the oldest one waits.", labels=_DESTINATION
        )
        state = GaugeMetricFamily(
            "lochan_event_state",
            "1 for the state of a subscription.",
            labels=("subscription", "state"),
        )
        for one, status in found:
            queue.add_metric((one,), status.queued)
            lag.add_metric((one,), status.lag_ms / 1e3)
            for each in SubscriptionState:
                state.add_metric((one, each.value), float(each is status.state))
        yield from (queue, lag, state)


class ObservedDeliveries:
    """Sees deliveries for metrics and traces, if there are any (`DeliveryObserver`)."""

    def __init__(self, metrics: DeliveryMetrics | None, traces: Traces | None) -> None:
        self._metrics = metrics
        self._traces = traces

    def deliver(self, subscription: str, event: Event, call: Callable[[], bool]) -> bool:
        """Runs the delivery of an event."""
        traces = self._traces
        if traces is None:
            return call()
        attributes = _attributes(subscription, event)
        parent = traces.parent_of(event.operation)
        with traces.following(f"deliver {subscription}", parent, attributes) as span:
            is_delivered = call()
            if not is_delivered:
                traces.mark_failed(span)
            return is_delivered

    def attempt(
        self, subscription: str, event: Event, number: int, call: Callable[[], None]
    ) -> None:
        """Runs one call of a listener."""
        traces = self._traces
        block: Any = nullcontext()
        if traces is not None:
            attributes = {**_attributes(subscription, event), "lochan.event.attempt": number}
            attributes["messaging.operation.type"] = "send"
            block = traces.sending(f"send {subscription}", attributes)
        begin_ns = perf_counter_ns()
        outcome = "failed"
        try:
            with block:
                if traces is None:
                    call()
                else:
                    token = TRACEPARENT.set(traces.current())
                    try:
                        call()
                    finally:
                        TRACEPARENT.reset(token)
            outcome = "ok"
        finally:
            if self._metrics is not None:
                self._metrics.count(subscription, event.type, outcome, perf_counter_ns() - begin_ns)


def _attributes(subscription: str, event: Event) -> dict[str, str | int]:
    return {
        "messaging.system": "lochan",
        "messaging.operation.name": "send",
        "messaging.destination.name": subscription,
        "messaging.message.id": event.id,
        "messaging.message.conversation_id": event.operation,
        "lochan.event.type": event.type,
        "lochan.repository": event.repository,
        "lochan.reference": event.reference.name,
        "enduser.id": event.initiator,
    }
