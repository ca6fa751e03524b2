"""Counters of requests, store calls, sleeps and the server's own state, for Prometheus.

Counting is a few additions to plain numbers; the library for Prometheus' format is called only when
they are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from lochan.kv.observe import ObservedCall
from lochan.process import after_fork
from lochan.telemetry.observers import AnsweredRequest, missing_extra

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BOUNDS_S: Final = (
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)

CHAIN_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """How often a number fell below each bound, and the sum of all."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Counts a value."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """Returns cumulative counts with the bound of each as text, as Prometheus wants them."""
        texts = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        below = 0
        found = []
        for text, count in zip(texts, self._counts, strict=True):
            below += count
            found.append((text, float(below)))
        return found


Labels = tuple[str, ...]


class Metrics:
    """Everything that is counted; a watcher of requests, and an observer of stores and sleeps."""

    def __init__(self) -> None:
        self._lock = Lock()
        after_fork(self, Metrics._forked)
        self._requests: Counter[Labels] = Counter()
        self._durations: defaultdict[Labels, Histogram] = defaultdict(partial(Histogram, BOUNDS_S))
        self._calls: Counter[Labels] = Counter()
        self._call_durations: defaultdict[Labels, Histogram] = defaultdict(
            partial(Histogram, BOUNDS_S)
        )
        self._sleeps = 0
        self._slept_ms = 0.0

    def _forked(self) -> None:
        """Another thread of the parent may have the lock."""
        self._lock = Lock()

    def finished(self, done: AnsweredRequest) -> None:
        """Counts an answered request."""
        labels = (done.route, done.method, str(done.status), done.repository)
        with self._lock:
            self._requests[labels] += 1
            self._durations[(done.route,)].add(done.duration_ns / 1e9)

    def observe(self, call: ObservedCall) -> None:
        """Counts a store call."""
        labels = (call.operation, call.outcome)
        with self._lock:
            self._calls[labels] += 1
            self._call_durations[(call.operation,)].add(call.duration_ns / 1e9)

    def slept(self, duration_ms: float) -> None:
        """Counts a sleep between two attempts."""
        with self._lock:
            self._sleeps += 1
            self._slept_ms += duration_ms

    def families(self, readings: Mapping[str, float], chains: Mapping[int, int]) -> list[Metric]:
        """Returns everything in the library's own form."""
        from prometheus_client.core import CounterMetricFamily

        requests = ("route", "method", "status", "repository")
        with self._lock:
            found = [
                counters("lochan_requests", "Answered requests.", requests, self._requests),
                histograms(
                    "lochan_request_seconds", "Time to answer.", ("route",), self._durations
                ),
                counters(
                    "lochan_store_calls", "Store calls.", ("operation", "outcome"), self._calls
                ),
                histograms(
                    "lochan_store_call_seconds",
                    "Time of store calls.",
                    ("operation",),
                    self._call_durations,
                ),
                CounterMetricFamily(
                    "lochan_retry_sleeps", "Sleeps between attempts.", value=self._sleeps
                ),
                CounterMetricFamily(
                    "lochan_retry_sleep_seconds",
                    "Time slept between attempts.",
                    value=self._slept_ms / 1e3,
                ),
            ]
        found.append(_chain_lengths(chains))
        found += _readings(readings)
        return found


def counters(name: str, text: str, labels: Labels, counted: Mapping[Labels, float]) -> Metric:
    """Returns counters, one for each set of values of the labels."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counted.items():
        family.add_metric(values, count)
    return family


def histograms(name: str, text: str, labels: Labels, counted: Mapping[Labels, Histogram]) -> Metric:
    """Returns histograms, one for each set of values of the labels."""
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in counted.items():
        family.add_metric(values, histogram.buckets(), histogram.total)
    return family


def _chain_lengths(chains: Mapping[int, int]) -> Metric:
    histogram = Histogram(CHAIN_BOUNDS)
    for length, times in list(chains.items()):
        histogram.add(length, times)
    return histograms("lochan_chain_members", "Members published by one swap.", (), {(): histogram})


def _readings(readings: Mapping[str, float]) -> Iterator[Metric]:
    """Names that end with `_total` only grow; others go up and down."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, value in readings.items():
        text = name.replace("_", " ").capitalize() + "."
        if name.endswith("_total"):
            yield CounterMetricFamily(f"lochan_{name.removesuffix('_total')}", text, value=value)
        else:
            yield GaugeMetricFamily(f"lochan_{name}", text, value=value)


class Exposition:
    """Writes metrics in Prometheus' text format."""

    content_type: Final = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(
        self,
        metrics: Metrics,
        readings: Callable[[], Mapping[str, float]],
        chains: Callable[[], Mapping[int, int]],
        more: Callable[[], Iterable[Metric]] = tuple,
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry, generate_latest
        except ImportError as error:
            raise missing_extra("metrics", error) from error
        self._metrics = metrics
        self._readings = readings
        self._chains = chains
        self._more = more
        self._registry = CollectorRegistry()
        self._generate: Callable[[Any], bytes] = generate_latest
        self._registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Is called by the library for every reading."""
        return [*self._metrics.families(self._readings(), self._chains()), *self._more()]

    def describe(self) -> Iterable[Metric]:
        """Is called by the library once; nothing is known before it is counted."""
        return []

    def text(self) -> bytes:
        """Returns what `/metrics` serves."""
        return self._generate(self._registry)
