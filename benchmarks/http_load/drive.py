"""Drives clients against a server for a while and summarises the replies.

Each client has one connection and one request under way. What is sent before the window opens or
answered after it has closed is not counted; so a look at the processes disturbs no figure.
"""

from __future__ import annotations

import asyncio
import gc
from array import array
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

import uvloop

from benchmarks.http_load.connection import Connection, Requests
from benchmarks.http_load.usage import Cores, between, look, resident_mb

_Result = TypeVar("_Result")

# A server that is stuck must not hold the run for ever.
_GRACE_S = 60


class Client:
    """The requests of one connection, one after the other; it may learn from their replies.

    `kind` names the request under way; `rate` is requests per second, 0 for as fast as answered.
    """

    kind = "call"
    rate = 0.0

    def request(self) -> bytes | None:
        """Returns the next request, or None when there is nothing more to do."""
        raise NotImplementedError

    def settle(self, status: int, body: bytes) -> None:
        """Learns from a reply."""


@dataclass
class Measured:
    """One window: the replies, their times, and the use of the processors."""

    seconds: float = 0.0
    times: dict[str, array[float]] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    conflicts: int = 0
    errors: int = 0
    sample: str = ""
    cores: Cores = field(default_factory=lambda: Cores(0, 0, 0, 0))
    resident_mb: float = 0.0

    @property
    def operations(self) -> int:
        return sum(self.done)

    def figures(self, kind: str | None = None) -> dict[str, Any]:
        """Returns rate and latencies, of one kind of request or of all."""
        chosen = [self.times[kind]] if kind else list(self.times.values())
        times = sorted(one for kept in chosen for one in kept)
        return {
            "ops_s": len(times) / self.seconds,
            "p50_ms": quantile(times, 0.5) * 1e3,
            "p99_ms": quantile(times, 0.99) * 1e3,
            "max_ms": quantile(times, 1) * 1e3,
        }

    def costs(self) -> dict[str, Any]:
        """Returns the errors and the processor time."""
        cores, operations = self.cores, max(1, self.operations)
        summary = {
            "operations": self.operations,
            "seconds": self.seconds,
            "conflicts": self.conflicts,
            "errors": self.errors,
            "server_cores": cores.server,
            "server_cpu_us_per_op": cores.server * cores.wall_s / operations * 1e6,
            "generator_cores": cores.generator,
            "other_cores": cores.other,
            "resident_mb": self.resident_mb,
        }
        return summary | ({"sample_error": self.sample} if self.sample else {})


def quantile(ordered: Sequence[float], share: float) -> float:
    """Returns the value below which a share of the values lies; 0 of none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class _Window:
    """The measured time, and the replies in it."""

    def __init__(self, seconds: float, pids: Sequence[int]) -> None:
        self.seconds = seconds
        self.pids = pids
        self.opened = self.closes = float("inf")
        self.last = 0.0
        self.measured = Measured()
        self._first = look(pids)

    def open(self) -> None:
        self._first = look(self.pids)
        self.opened = self.last = perf_counter()
        self.closes = self.opened + self.seconds

    def close(self, *, early: bool) -> Measured:
        """Counts; a window that closed early, for lack of work, ends with its last reply."""
        measured = self.measured
        measured.cores = between(self._first, look(self.pids))
        measured.seconds = max(1e-9, self.last - self.opened) if early else self.seconds
        measured.resident_mb = resident_mb(self.pids[:1])
        return measured


class _Worker:
    """A client at work on its connection."""

    def __init__(self, client: Client, window: _Window, number: int) -> None:
        self._client = client
        self._window = window
        self._number = number
        self._sent = 0.0
        self._due = 0.0
        self.connection: Connection | None = None
        self.finished = asyncio.get_running_loop().create_future()

    def next(self) -> None:
        client = self._client
        now = perf_counter()
        request = client.request() if now < self._window.closes else None
        if request is None:
            self._finish()
        elif client.rate:
            self._due = max(self._due + 1 / client.rate, now)
            loop = asyncio.get_running_loop()
            loop.call_later(self._due - now, self._send, request)
        else:
            self._send(request)

    def _send(self, request: bytes) -> None:
        if self.connection is not None:
            self._sent = perf_counter()
            self.connection.send(request)

    def replied(self, status: int, body: bytes) -> None:
        now = perf_counter()
        window, client = self._window, self._client
        kind = client.kind
        client.settle(status, body)
        if self._sent >= window.opened and now <= window.closes:
            measured = window.measured
            window.last = now
            if status < 300:
                measured.times.setdefault(kind, array("d")).append(now - self._sent)
                measured.done[self._number] += 1
            elif status == 409:
                measured.conflicts += 1
            else:
                self._fail(f"{status} {body[:300]!r}")
        self.next()

    def lost(self, error: Exception | None) -> None:
        self.connection = None
        if not self.finished.done():
            self._fail(f"connection lost: {error}")
            self._finish()

    def _fail(self, sample: str) -> None:
        self._window.measured.errors += 1
        self._window.measured.sample = self._window.measured.sample or sample

    def _finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)


async def drive(
    requests: Requests,
    clients: Sequence[Client],
    *,
    seconds: float,
    warm_s: float = 0.0,
    pids: Sequence[int] = (),
) -> Measured:
    """Lets all clients ask at once, first to warm up, then for the window."""
    window = _Window(seconds, pids)
    window.measured.done = [0] * len(clients)
    workers = [_Worker(client, window, number) for number, client in enumerate(clients)]
    for worker in workers:
        worker.connection = await requests.connect(worker.replied, worker.lost)
    gc.collect()
    gc.disable()
    try:
        if not warm_s:
            window.open()
        for worker in workers:
            worker.next()
        everyone = asyncio.gather(*(worker.finished for worker in workers))
        if warm_s:
            await asyncio.sleep(warm_s)
            window.open()
        await asyncio.wait_for(asyncio.shield(everyone), seconds + _GRACE_S)
        return window.close(early=perf_counter() < window.closes)
    finally:
        gc.enable()
        for worker in workers:
            worker.finished.cancel()
            if worker.connection is not None:
                worker.connection.close()


def run(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Runs on the same event loop as our server does."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())
