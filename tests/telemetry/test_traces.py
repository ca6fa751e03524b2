"""Traces: sampled requests reach a collector with their store calls; others cost nothing."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lochan.kv.observe import ObservedStore
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock
from lochan.telemetry.observers import ObservedWaiting, Observers
from lochan.telemetry.traces import Traces
from lochan.testing.ports import RecordedWaiting
from lochan.transport.exchange import Exchange, Response
from lochan.transport.observers import RequestObservers
from tests.transport.world import Client, SmallFace, running

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class Collector:
    """Receives spans by OTLP over HTTP and keeps them."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.endpoint = ""

    def take(self, encoding: str | None, raw: bytes) -> None:
        if encoding == "gzip":
            raw = gzip.decompress(raw)
        elif encoding == "deflate":
            raw = zlib.decompress(raw)
        request = ExportTraceServiceRequest.FromString(raw)
        for resource in request.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert names["service.name"] == "lochan"
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(self.headers["Content-Encoding"], raw)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        collector.endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        yield collector
        server.shutdown()
        thread.join()


def serve(collector: Collector, share: float, *requests: tuple[str, str, str]) -> None:
    """Sends requests to a traced server, then lets everything reach the collector."""
    traces = Traces(collector.endpoint, share)
    store = ObservedStore(MemoryStore(), Observers([traces]), SystemClock())
    face = SmallFace()
    waiting = ObservedWaiting(RecordedWaiting(), [traces])

    def tired(exchange: Exchange) -> Response:
        waiting.sleep_ms(5)
        return Response(500)

    face.add("GET", b"tired", tired, brief=False)
    try:
        with (
            running(store, [face], observers=RequestObservers(tracer=traces)) as server,
            Client(server) as client,
        ):
            for method, target, parent in requests:
                lines = [f"traceparent: {parent}"] if parent else []
                client.ask(method, target, b"", *lines)
    finally:
        traces.close()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_sampled_request_reaches_the_collector_with_its_store_calls():
    with collecting() as collector:
        serve(collector, 1.0, ("POST", "/t/commit/main", ""))
    (request,) = collector.named("POST commit")
    said = attributes(request)
    assert said["http.request.method"] == "POST"
    assert said["url.path"] == "/t/commit/main"
    assert said["http.response.status_code"] == 200
    assert said["lochan.repository"] == "default"
    (apply,) = collector.named("store apply")
    assert apply.parent_span_id == request.span_id
    assert apply.trace_id == request.trace_id
    assert attributes(apply)["lochan.store.outcome"] == "won"
    assert request.start_time_unix_nano <= apply.start_time_unix_nano
    assert apply.end_time_unix_nano <= request.end_time_unix_nano


def test_sleeps_in_a_thread_are_children_too_and_failures_are_marked():
    with collecting() as collector:
        serve(collector, 1.0, ("GET", "/t/tired", ""))
    (request,) = collector.named("GET tired")
    (sleep,) = collector.named("retry sleep")
    assert sleep.parent_span_id == request.span_id
    assert request.status.code == 2


def test_the_callers_trace_goes_on_here():
    with collecting() as collector:
        serve(collector, 0.0, ("GET", "/t/echo/x", PARENT))
    (request,) = collector.named("GET echo")
    assert request.trace_id.hex() == PARENT[3:35]
    assert request.parent_span_id.hex() == PARENT[36:52]


def test_what_is_not_sampled_is_not_sent():
    with collecting() as collector:
        serve(
            collector,
            0.0,
            ("POST", "/t/commit/main", ""),
            ("GET", "/t/echo/x", UNSAMPLED),
            ("GET", "/t/echo/x", "nonsense"),
        )
    assert collector.spans == []


def test_a_caller_that_does_not_sample_is_respected():
    with collecting() as collector:
        serve(collector, 1.0, ("GET", "/t/echo/x", UNSAMPLED))
    assert collector.spans == []
