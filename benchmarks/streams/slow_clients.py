"""Part `slow`: clients that stall or trickle, and after how many seconds each is cut."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from benchmarks.http_load.processes import Served
from benchmarks.measure import emit
from benchmarks.streams.client import Reader, head_of
from lochan.base.limits.http import PROGRESS_BYTES_MIN

LATE_S = 5.0
"""By how much a cut may be later than the limit."""

STEADY_TIMES = 10
"""How many times the least rate a client reads that must not be cut."""

_MEGABYTE = 1 << 20
_ANSWER_BYTES = 1 << 30
_CHUNKS = "Transfer-Encoding: chunked"
_LENGTH = f"Content-Length: {_ANSWER_BYTES}"


class Cut(NamedTuple):
    """After how long a client was cut, and the status of the answer; 0 if there was none."""

    seconds: float
    status: int


def measure(server: Served, progress_s: float) -> None:
    """Runs all kinds at the same time; prints one line for each."""
    give_up_s = progress_s * 2 + 10

    def run(kind: str) -> Cut:
        return KINDS[kind](server.port, kind, give_up_s)

    with ThreadPoolExecutor(len(KINDS) + 1) as threads:
        steady = threads.submit(_read_steadily, server.port, progress_s)
        found = list(threads.map(run, KINDS))
    for kind, cut in zip(KINDS, found, strict=True):
        within = progress_s <= cut.seconds <= progress_s + LATE_S
        stored = "answer" not in kind and _is_stored(server.port, kind)
        emit(
            "stream_cut",
            client=kind,
            seconds=cut.seconds,
            status=cut.status,
            stored=stored,
            within_bar=within and not stored,
        )
    cut = steady.result()
    emit("stream_steady", seconds=cut.seconds, within_bar=cut.seconds >= 2 * progress_s)


def _connect(port: int, timeout_s: float) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout_s)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _begin(port: int, kind: str, give_up_s: float) -> socket.socket:
    client = _connect(port, give_up_s)
    client.sendall(head_of("PUT", f"/bytes/{kind}", _LENGTH))
    return client


def _stall(port: int, kind: str, give_up_s: float) -> Cut:
    """Sends the head only."""
    with _begin(port, kind, give_up_s) as client:
        return _wait(client, time.perf_counter(), give_up_s)


def _stall_later(port: int, kind: str, give_up_s: float) -> Cut:
    """Sends a megabyte and nothing more."""
    with _begin(port, kind, give_up_s) as client:
        client.sendall(bytes(_MEGABYTE))
        return _wait(client, time.perf_counter(), give_up_s)


def _trickle(port: int, kind: str, give_up_s: float) -> Cut:
    """Sends a byte each second."""
    with _connect(port, give_up_s) as client:
        client.sendall(head_of("PUT", f"/bytes/{kind}", _CHUNKS))
        began = time.perf_counter()

        def send_one() -> None:
            client.sendall(b"1\r\nx\r\n")

        return _wait(client, began, give_up_s, send_one)


def _stop_reading(port: int, kind: str, give_up_s: float) -> Cut:  # noqa: ARG001 - as all kinds
    """Reads a megabyte of an answer and nothing more."""
    with _connect(port, give_up_s) as client:
        client.sendall(head_of("GET", f"/zeros/{_ANSWER_BYTES}"))
        Reader(client).exactly(_MEGABYTE)
        return _wait_for_reset(client, time.perf_counter(), give_up_s)


def _read_slowly(port: int, kind: str, give_up_s: float) -> Cut:  # noqa: ARG001 - as all kinds
    """Reads a thousand bytes of an answer each second."""
    with _connect(port, give_up_s) as client:
        client.sendall(head_of("GET", f"/zeros/{_ANSWER_BYTES}"))
        Reader(client).exactly(_MEGABYTE)

        def read_some() -> None:
            client.recv(1_000)

        return _wait_for_reset(client, time.perf_counter(), give_up_s, read_some)


def _read_steadily(port: int, progress_s: float) -> Cut:
    """Reads an answer at some times the least rate."""
    piece = int(STEADY_TIMES * PROGRESS_BYTES_MIN / progress_s)
    with _connect(port, progress_s) as client:
        client.sendall(head_of("GET", f"/zeros/{_ANSWER_BYTES}"))
        reader = Reader(client)
        reader.exactly(_MEGABYTE)

        def read_some() -> None:
            reader.exactly(piece)

        return _wait_for_reset(client, time.perf_counter(), 2 * progress_s, read_some)


def _nothing() -> None:
    return None


def _wait(
    client: socket.socket,
    began: float,
    give_up_s: float,
    each_second: Callable[[], None] = _nothing,
) -> Cut:
    """Waits until the server answers, then until it hangs up."""
    while not select.select([client], [], [], 1)[0]:
        if time.perf_counter() - began > give_up_s:
            return Cut(give_up_s, 0)
        each_second()
    seconds = time.perf_counter() - began
    reader = Reader(client)
    head = reader.head()
    reader.exactly(head.length)
    if client.recv(1):
        raise RuntimeError("the server goes on after it has refused a body")
    return Cut(seconds, head.status)


def _wait_for_reset(
    client: socket.socket,
    began: float,
    give_up_s: float,
    each_second: Callable[[], None] = _nothing,
) -> Cut:
    """Waits until the server resets the connection, without reading what it has sent."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    while not poll.poll(1_000):
        if time.perf_counter() - began > give_up_s:
            return Cut(give_up_s, 0)
        each_second()
    return Cut(time.perf_counter() - began, 0)


def _is_stored(port: int, key: str) -> bool:
    with _connect(port, 10) as client:
        client.sendall(head_of("GET", f"/bytes/{key}"))
        return Reader(client).head().status != 404


KINDS: dict[str, Callable[[int, str, float], Cut]] = {
    "stalls-at-once": _stall,
    "stalls-after-1-mb": _stall_later,
    "trickles": _trickle,
    "stops-reading-an-answer": _stop_reading,
    "reads-an-answer-slowly": _read_slowly,
}
