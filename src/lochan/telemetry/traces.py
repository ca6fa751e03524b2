"""Traces for OpenTelemetry: one span for a request, its children for store calls and sleeps.

A request that is not sampled has no mark, and nothing below it looks twice. The chain of several
requests is published once: its store calls belong to the first of them that is sampled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lochan.base.masks import mask_bytes
from lochan.kv.observe import ObservedCall
from lochan.telemetry.observers import AnsweredRequest, missing_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

_Result = TypeVar("_Result")

# The most that is kept for a collector that does not answer; what is beyond is dropped.
_QUEUE_SPANS_MAX: Final = 8_192

_FLUSH_TIMEOUT_MS: Final = 5_000


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
