"""Metrics: what is counted is what happened, in a form that Prometheus reads."""

from __future__ import annotations

import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lochan.base.errors import Invalid
from lochan.kv.observe import ObservedStore
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock
from lochan.telemetry.metrics import Exposition, Metrics
from lochan.telemetry.observers import ObservedWaiting, Observers
from lochan.telemetry.traces import Traces
from lochan.testing.ports import RecordedWaiting
from lochan.transport.observers import Finished, RequestObservers
from lochan.transport.server import Options
from tests.transport.world import Client, running


def finished(route: str = "commit", status: int = 200, seconds: float = 0.003) -> Finished:
    return Finished("POST", b"/t", route, "default", status, 1, 2, int(seconds * 1e9), "id")


def samples(metrics: Metrics, readings=None, chains=None) -> dict[tuple, float]:
    exposition = Exposition(metrics, lambda: readings or {}, lambda: chains or {})
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition.text().decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_route_method_status_and_repository():
    metrics = Metrics()
    for status in (200, 200, 409):
        metrics.finished(finished(status=status))
    found = samples(metrics)
    labels = (("method", "POST"), ("repository", "default"), ("route", "commit"))
    assert found["lochan_requests_total", *labels, ("status", "200")] == 2
    assert found["lochan_requests_total", *labels, ("status", "409")] == 1


def test_durations_fall_into_the_buckets_below_which_they_lie():
    metrics = Metrics()
    for seconds in (0.000_05, 0.003, 0.005, 0.2, 100):
        metrics.finished(finished(seconds=seconds))
    found = samples(metrics)

    def below(bound: str) -> float:
        return found["lochan_request_seconds_bucket", ("le", bound), ("route", "commit")]

    assert [below(bound) for bound in ("0.0001", "0.0025", "0.005", "0.25", "10.0", "+Inf")] == [
        1, 1, 3, 4, 4, 5,
    ]  # fmt: skip
    assert found["lochan_request_seconds_count", ("route", "commit")] == 5
    assert found["lochan_request_seconds_sum", ("route", "commit")] == pytest.approx(100.20805)


def test_store_calls_are_counted_by_operation_and_outcome():
    metrics = Metrics()
    store = ObservedStore(MemoryStore(), Observers([metrics]), SystemClock())
    place = bytes(16) + b"m"
    from lochan.kv.store import ABSENT, Partition

    store.set_if(Partition(place), b"a", b"1", ABSENT)
    store.set_if(Partition(place), b"a", b"1", ABSENT)
    store.get(Partition(place), b"a")
    found = samples(metrics)

    def calls(operation: str, outcome: str) -> float:
        return found["lochan_store_calls_total", ("operation", operation), ("outcome", outcome)]

    assert (calls("set_if", "won"), calls("set_if", "lost"), calls("get", "ok")) == (1, 1, 1)
    assert found["lochan_store_call_seconds_count", ("operation", "set_if")] == 2


def test_sleeps_between_attempts_are_counted_and_still_slept():
    metrics, inner = Metrics(), RecordedWaiting()
    waiting = ObservedWaiting(inner, [metrics])
    waiting.sleep_ms(20)
    waiting.sleep_ms(30)
    found = samples(metrics)
    assert inner.sleeps_ms == [20, 30]
    assert found["lochan_retry_sleeps_total",] == 2
    assert found["lochan_retry_sleep_seconds_total",] == pytest.approx(0.05)


def test_lengths_of_chains_and_readings_are_shown():
    found = samples(Metrics(), {"lanes": 3, "flushes_total": 7}, {1: 10, 3: 2, 64: 1})
    assert found["lochan_chain_members_bucket", ("le", "1.0")] == 10
    assert found["lochan_chain_members_bucket", ("le", "4.0")] == 12
    assert found["lochan_chain_members_count",] == 13
    assert found["lochan_chain_members_sum",] == 80
    assert (found["lochan_lanes",], found["lochan_flushes_total",]) == (3, 7)


def test_a_server_tells_its_metrics_of_every_request():
    metrics = Metrics()
    observers = RequestObservers([metrics])
    with running(observers=observers, options=Options(port=0)) as server, Client(server) as client:
        client.ask("POST", "/t/commit/main", b"[1]")
        client.ask("GET", "/t/echo/x")
        client.ask("GET", "/t/nothing")
        client.ask("GET", "/r/nobody/t/echo/x")
    requests = {
        tuple(value for _, value in labels): count
        for (name, *labels), count in samples(metrics).items()
        if name == "lochan_requests_total"
    }
    assert requests == {
        ("POST", "default", "commit", "200"): 1,
        ("GET", "default", "echo", "200"): 1,
        # A name that no repository has is no label: clients must not be able to make new ones.
        ("GET", "", "echo", "404"): 1,
        ("GET", "", "server", "404"): 1,
    }


def test_a_missing_library_is_said_with_the_setting_that_needs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Invalid, match=r"metrics needs .* lochan\[telemetry\]"):
        Exposition(Metrics(), dict, dict)
    with pytest.raises(Invalid, match=r"trace_endpoint needs .* lochan\[telemetry\]"):
        Traces("http://localhost:1", 1.0)
