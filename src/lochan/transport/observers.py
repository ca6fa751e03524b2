"""Observers of requests: metrics, traces, the access log. None by default, at no cost then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

_Result = TypeVar("_Result")


class Finished(msgspec.Struct, frozen=True):
    """A request that has been answered."""

    method: str
    path: bytes
    route: str
    repository: str
    status: int
    bytes_in: int
    bytes_out: int
    duration_ns: int
    request_id: str


class RequestObserver(Protocol):
    """Is called when a request has been answered."""

    def finished(self, done: Finished) -> None:
        """Records the request; must not raise and must be quick."""
        ...


class Tracer(Protocol):
    """Follows a request on its way through handlers, lanes and store calls."""

    def begin(self, method: str, route: str, traceparent: str | None) -> Any | None:
        """Starts a trace and returns its mark; None if this request is not sampled."""
        ...

    def within(self, mark: Any | None, call: Callable[[], _Result]) -> _Result:
        """Runs a call, in whatever thread, as a part of the trace."""
        ...

    def end(self, mark: Any, done: Finished) -> None:
        """Ends the trace."""
        ...


class RequestObservers:
    """All observers of a server, as the driver uses them."""

    def __init__(
        self, observers: Sequence[RequestObserver] = (), tracer: Tracer | None = None
    ) -> None:
        self.all = tuple(observers)
        self.tracer = tracer
        self.is_on = bool(self.all) or tracer is not None
