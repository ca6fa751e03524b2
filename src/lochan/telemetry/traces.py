"""Traces for OpenTelemetry: one span for a request, its children for store calls and sleeps.

A request that is not sampled has no mark, and nothing below it looks twice. The chain of several
requests is published once: its store calls belong to the first of them that is sampled.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lochan.base.limits.events import EVENT_TRACES_MAX
from lochan.base.masks import mask_bytes
from lochan.base.ports import Random
from lochan.kv.observe import ObservedCall
from lochan.process import after_fork
from lochan.telemetry.observers import AnsweredRequest, missing_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

_Result = TypeVar("_Result")

# The most that is kept for a collector that does not answer; what is beyond is dropped.
_QUEUE_SPANS_MAX: Final = 8_192

_FLUSH_TIMEOUT_MS: Final = 5_000

_OPERATION_BYTES: Final = 16


class Traces:
    """Follows requests; also an observer of store calls and sleeps."""

    def __init__(self, endpoint: str, share: float, exporter: SpanExporter | None = None) -> None:
        try:
            from opentelemetry import context, trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise missing_extra("trace_endpoint", error) from error
        self._context = context
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(share),
            resource=Resource.create({"service.name": "lochan"}),
            shutdown_on_exit=False,
        )
        exporter = exporter or OTLPSpanExporter(endpoint=endpoint)
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=_QUEUE_SPANS_MAX)
        )
        self._tracer = self._provider.get_tracer("lochan")
        self._lock = Lock()
        self._operations: OrderedDict[str, str] = OrderedDict()
        after_fork(self, Traces._forked)

    def _forked(self) -> None:
        """Another thread of the parent may have the lock."""
        self._lock = Lock()

    def begin(self, method: str, route: str, traceparent: str | None) -> Span | None:
        """Starts the span of a request; None if it is not sampled."""
        above = None
        if traceparent is not None:
            above = self._propagator.extract({"traceparent": traceparent})
        span = self._tracer.start_span(
            f"{method} {route}", context=above, kind=self._trace.SpanKind.SERVER
        )
        return span if span.is_recording() else None

    def within(self, mark: Any | None, call: Callable[[], _Result]) -> _Result:
        """Runs a call so that store calls in it become children of the span."""
        if mark is None:
            return call()
        token = self._context.attach(self._trace.set_span_in_context(mark))
        try:
            return call()
        finally:
            self._context.detach(token)

    def end(self, mark: Any, done: AnsweredRequest) -> None:
        """Ends the span of a request."""
        mark.set_attributes(
            {
                "http.request.method": done.method,
                "url.path": mask_bytes(done.path).decode("ascii", "backslashreplace"),
                "http.response.status_code": done.status,
                "lochan.repository": done.repository,
                "lochan.request_id": done.request_id,
            }
        )
        if done.status >= 500:
            mark.set_status(self._trace.StatusCode.ERROR)
        mark.end()

    def observe(self, call: ObservedCall) -> None:
        """Adds a store call that has ended, if it belongs to a sampled request."""
        if self._is_followed():
            self._add(
                f"store {call.operation}",
                call.duration_ns,
                {
                    "lochan.store.keys": call.keys,
                    "lochan.store.bytes_in": call.bytes_in,
                    "lochan.store.bytes_out": call.bytes_out,
                    "lochan.store.outcome": call.outcome,
                },
            )

    def slept(self, duration_ms: float) -> None:
        """Adds a sleep between two attempts, if it belongs to a sampled request."""
        if self._is_followed():
            self._add("retry sleep", int(duration_ms * 1e6), {})

    def current(self) -> str:
        """Returns the context of the span that is current, as the header `traceparent` has it."""
        carrier: dict[str, str] = {}
        if self._is_followed():
            self._propagator.inject(carrier)
        return carrier.get("traceparent", "")

    def remember(self, operation: str) -> None:
        """Notes to which trace an operation belongs, if its request is sampled."""
        traceparent = self.current()
        if not traceparent:
            return
        with self._lock:
            self._operations[operation] = traceparent
            if len(self._operations) > EVENT_TRACES_MAX:
                self._operations.popitem(last=False)

    def parent_of(self, operation: str) -> str:
        """Returns the trace context of the request that made an operation; empty if unknown."""
        with self._lock:
            return self._operations.get(operation, "")

    @contextmanager
    def following(
        self, name: str, traceparent: str, attributes: Mapping[str, str | int]
    ) -> Iterator[Span]:
        """Within the block a span is current that belongs to a request which may have ended."""
        above = self._propagator.extract({"traceparent": traceparent} if traceparent else {})
        with self._tracer.start_as_current_span(
            name, context=above, kind=self._trace.SpanKind.INTERNAL, attributes=attributes
        ) as span:
            yield span

    @contextmanager
    def sending(self, name: str, attributes: Mapping[str, str | int]) -> Iterator[Span]:
        """Within the block a span is current that sends a message; an exception marks it."""
        with self._tracer.start_as_current_span(
            name,
            kind=self._trace.SpanKind.PRODUCER,
            attributes=attributes,
            # The message of an exception may contain what it was called with.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                self.mark_failed(span)
                raise

    def mark_failed(self, span: Span) -> None:
        """Marks a span whose work had no success."""
        span.set_status(self._trace.StatusCode.ERROR)

    def close(self) -> None:
        """Sends what is left."""
        self._provider.force_flush(_FLUSH_TIMEOUT_MS)
        self._provider.shutdown()

    def _is_followed(self) -> bool:
        return self._trace.get_current_span().is_recording()

    def _add(self, name: str, duration_ns: int, attributes: dict[str, str | int]) -> None:
        now_ns = time.time_ns()
        span = self._tracer.start_span(name, start_time=now_ns - duration_ns, attributes=attributes)
        span.end(now_ns)


class TracedRandom:
    """A Random that notes to which trace each operation belongs.

    The ids of operations are drawn while their requests are handled, and are the only values of
    their length that events contain.
    """

    def __init__(self, random: Random, traces: Traces) -> None:
        self._random = random
        self._traces = traces

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes."""
        made = self._random.random_bytes(count)
        if count == _OPERATION_BYTES:
            self._traces.remember(made.hex())
        return made

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return self._random.between(low, high)
