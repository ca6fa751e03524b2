"""Telemetry of deliveries: every attempt is counted, and continues the trace of its request."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Semaphore
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from lochan.assembly.events import EventRunner
from lochan.embedded.repository import _ports
from lochan.events.filters import EventFilter
from lochan.events.observers import current_traceparent
from lochan.events.subscribers import DeliveryOptions, EventListener, SubscriptionState
from lochan.kernel.repository import Ports
from lochan.model.events import Event
from lochan.telemetry.deliveries import DeliveryMetrics, ObservedDeliveries
from lochan.telemetry.metrics import Exposition, Metrics
from lochan.telemetry.traces import TracedRandom, Traces
from tests.events.served import commit_over_http, served

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
QUICK = DeliveryOptions(attempts_max=3, sleep_first_ms=1, sleep_max_ms=1)


class Fussy(EventListener):
    """Raises at the first attempts of each event."""

    def __init__(self, failures: int) -> None:
        self.parents: list[tuple[str, str]] = []
        self.taken = Semaphore(0)
        self._failures = failures
        self._tried: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        self._tried[event.id] = self._tried.get(event.id, 0) + 1
        if self._tried[event.id] <= self._failures:
            raise RuntimeError("secret text of a receiver")
        self.parents.append((event.type, current_traceparent()))
        self.taken.release()


class Watched:
    """A server with traces and metrics, and a runner of subscriptions."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.traces = Traces("", 1.0, self.exporter)
        self.metrics = DeliveryMetrics(self._statuses)
        ports = _ports()
        random = TracedRandom(ports.random, self.traces)
        self.ports = Ports(ports.clock, random, ports.waiting)
        observer = ObservedDeliveries(self.metrics, self.traces)
        self.runner = EventRunner(self.ports, "here", observer)

    def _statuses(self) -> list[tuple[str, Any]]:
        return [(one.name, one.status()) for one in self.runner.hub.deliveries]

    def samples(self) -> dict[tuple, float]:
        more = Exposition(Metrics(), dict, dict, self.metrics.families)
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(more.text().decode())
            for sample in family.samples
            if sample.name.startswith("lochan_event")
        }


def test_a_delivery_continues_the_trace_of_its_request_and_every_attempt_is_a_span():
    watched = Watched()
    fussy = Fussy(failures=1)
    wanted = EventFilter(types=("COMMIT", "CONTENT_STORED"))
    watched.runner.hub.subscribe(fussy, wanted, QUICK, name="fussy")
    with served(watched.runner, watched.ports, tracer=watched.traces) as address:
        commit_over_http(address, "k", traceparent=PARENT)
        commit_over_http(address, "other")
        # A runner that is closed tries nothing again.
        assert all(fussy.taken.acquire(timeout=60) for _ in range(4))
    watched.runner.close()
    watched.traces.close()
    assert [name for name, _ in fussy.parents] == ["COMMIT", "CONTENT_STORED"] * 2
    spans: list[Any] = list(watched.exporter.get_finished_spans())
    sends = [span for span in spans if span.name == "send fussy"]
    delivers = {span.context.span_id: span for span in spans if span.name == "deliver fussy"}
    assert (len(sends), len(delivers)) == (8, 4)
    request, _ = [span for span in spans if span.name.startswith("POST ")]
    trace_id = request.context.trace_id
    assert f"{trace_id:032x}" == PARENT.split("-")[1]
    mine = [span for span in sends if span.context.trace_id == trace_id]
    assert [span.attributes["lochan.event.attempt"] for span in mine] == [1, 2, 1, 2]
    assert [span.attributes.get("error.type") for span in mine] == ["RuntimeError", None] * 2
    for span in mine:
        deliver = delivers[span.parent.span_id]
        assert deliver.parent.span_id == request.context.span_id
        assert span.kind.name == "PRODUCER"
        assert span.attributes["messaging.destination.name"] == "fussy"
        assert span.attributes["messaging.message.id"] == deliver.attributes["messaging.message.id"]
        assert not span.events
    # The listener passes on the context of its own attempt.
    assert [parent for _, parent in fussy.parents[:2]] == [
        f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01" for span in mine[1::2]
    ]
    other = {span.context.trace_id for span in sends} - {trace_id}
    assert len(other) == 1
    assert "secret text" not in repr([span.to_json() for span in spans])


def test_attempts_queues_and_failures_are_counted():
    watched = Watched()
    options = DeliveryOptions(attempts_max=2, sleep_first_ms=1, sleep_max_ms=1, failures_max=1)
    hub = watched.runner.hub
    hub.subscribe(Fussy(failures=9), EventFilter(types=("COMMIT",)), options, name="dead")
    hub.subscribe(Fussy(failures=0), EventFilter(types=("COMMIT",)), QUICK, name="fine")
    hub.subscribe(Fussy(failures=0), EventFilter(references=("none",)), QUICK, name="other")
    with served(watched.runner, watched.ports) as address:
        commit_over_http(address, "k")
    watched.runner.close()
    found = watched.samples()

    def of(name: str, **labels: str) -> float:
        return found[(name, *sorted(labels.items()))]

    assert of("lochan_event_attempts_total", subscription="fine", type="COMMIT", outcome="ok") == 1
    failed = {"subscription": "dead", "type": "COMMIT", "outcome": "failed"}
    assert of("lochan_event_attempts_total", **failed) >= 1
    assert of("lochan_event_dead_total", subscription="dead") == 1
    assert of("lochan_event_trips_total", subscription="dead") == 1
    assert of("lochan_event_delivered_total", subscription="fine") == 1
    assert of("lochan_event_skipped_total", subscription="other") == 2
    assert of("lochan_event_attempt_seconds_count", subscription="fine", outcome="ok") == 1
    assert of("lochan_event_queue", subscription="fine") == 0
    assert of("lochan_event_lag_seconds", subscription="fine") == 0
    assert of("lochan_event_state", subscription="fine", state="cancelled") == 1


def test_the_page_lists_every_metric_and_every_attribute():
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    section = page.partition("## Telemetry\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(lochan_[a-z_]+)` \| (.*?) \|", section, re.MULTILINE)
    listed = {name: set(re.findall("`([a-z]+)`", labels)) for name, labels in table}
    watched = Watched()
    watched.runner.hub.subscribe(Fussy(failures=1), None, QUICK, name="one")
    with served(watched.runner, watched.ports, tracer=watched.traces) as address:
        commit_over_http(address, "k", traceparent=PARENT)
    watched.runner.close()
    watched.traces.close()
    found: dict[str, set[str]] = {}
    for name, *labels in watched.samples():
        name = re.sub("_(bucket|count|sum|created)$", "", name)
        found.setdefault(name, set()).update({label for label, _ in labels} - {"le"})
    assert listed == found
    assert set(re.findall("`([a-z]+)`", section.partition("its state:")[2][:80])) == {
        state.value for state in SubscriptionState
    }
    spans: list[Any] = list(watched.exporter.get_finished_spans())
    used = {
        name
        for span in spans
        if span.name in ("deliver one", "send one")
        for name in span.attributes
    }
    dotted = re.findall(r"`((?:messaging|lochan|enduser|error)\.[a-z_.]+)`", section)
    assert set(dotted) == used | {"error.type"}


def test_without_a_sampled_request_there_is_no_context():
    fussy = Fussy(failures=0)
    runner = EventRunner(_ports())
    runner.hub.subscribe(fussy, EventFilter(types=("COMMIT",)))
    with served(runner, _ports()) as address:
        commit_over_http(address, "k", traceparent=PARENT)
    runner.close()
    assert fussy.parents == [("COMMIT", "")]
