"""Part `uploads`: commits alone and beside many uploads at the slowest rate that is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import count
from math import ceil
from random import Random
from typing import Any

from benchmarks.http_load.connection import Replies, Requests
from benchmarks.http_load.drive import drive
from benchmarks.http_load.preparation import Preparation
from benchmarks.http_load.processes import Served
from benchmarks.http_load.rows import Committer
from benchmarks.measure import emit
from benchmarks.streams.client import head_of
from lochan.base.limits.http import PROGRESS_BYTES_MIN

P99_RISE_BAR = 2.0

_EVERY_S = 1.0
_WARM_S = 2.0
_GRACE_S = 30


class _Upload(asyncio.Protocol):
    """One body of known length, a piece of it each second."""

    def __init__(self, key: str, piece: bytes, pieces: int, delay_s: float) -> None:
        self._key = key
        self._piece = piece
        self._left = pieces
        self._delay_s = delay_s
        self._size = pieces * len(piece)
        self._replies = Replies()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[bool] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        head = head_of("PUT", f"/bytes/{self._key}", f"Content-Length: {self._size}")
        self._transport.write(head)
        self._due = self._loop.time() + self._delay_s
        self._timer = self._loop.call_at(self._due, self._send)

    def _send(self) -> None:
        self._transport.write(self._piece)
        self._left -= 1
        if self._left:
            self._due += _EVERY_S
            self._timer = self._loop.call_at(self._due, self._send)

    def data_received(self, data: bytes) -> None:
        found = self._replies.feed(data)
        if found is not None:
            self._end(found == (201, str(self._size).encode()))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it was cut
        self._end(False)

    def _end(self, whole: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.done():
            self.ended.set_result(whole and not self._left)
        self._transport.close()


async def measure(
    server: Served,
    *,
    uploads: int,
    committers: int,
    rounds: int,
    seconds: float,
    progress_s: float,
) -> None:
    """Alternates between commits alone and commits beside uploads."""
    # The least rate with a second to spare: a server looks at the clock now and then.
    piece = bytes(ceil(PROGRESS_BYTES_MIN * _EVERY_S / (progress_s - _EVERY_S)))
    preparation = Preparation(Requests(server.address), "streams")
    p99_ms: dict[int, list[float]] = {0: [], uploads: []}
    cut = 0
    for number in range(rounds):
        for beside in (0, uploads):
            pieces = int((seconds + _WARM_S) / _EVERY_S) + 4
            under_way = await _start(server.port, beside, piece, pieces, Random(number))
            clients = await _committers(preparation, committers)
            measured = await drive(
                preparation.requests, clients, seconds=seconds, warm_s=_WARM_S, pids=[server.pid]
            )
            done = await _finish(under_way)
            cut += beside - sum(done)
            figures = measured.figures()
            p99_ms[beside].append(figures["p99_ms"])
            emit(
                "stream_uploads",
                round=number + 1,
                uploads=beside,
                whole=sum(done),
                piece_bytes=len(piece),
                committers=committers,
                **figures,
                **measured.costs(),
            )
    _compare(p99_ms, uploads, cut)
    preparation.caller.close()


def _compare(p99_ms: dict[int, list[float]], uploads: int, cut: int) -> None:
    alone, beside = (sorted(p99_ms[number])[len(p99_ms[number]) // 2] for number in (0, uploads))
    emit(
        "stream_uploads_relative",
        uploads=uploads,
        cut=cut,
        p99_alone_ms=alone,
        p99_beside_ms=beside,
        p99_rise=beside / max(alone, 1e-9),
        within_bar=not cut and beside <= P99_RISE_BAR * alone,
    )


async def _committers(preparation: Preparation, committers: int) -> Sequence[Any]:
    branch = await preparation.branch("commits")
    numbers, prefix = count(), f"{preparation.name('k')}x"
    return [Committer(preparation.requests, branch, 1, prefix, numbers) for _ in range(committers)]


async def _start(
    port: int, uploads: int, piece: bytes, pieces: int, random: Random
) -> list[_Upload]:
    loop = asyncio.get_running_loop()
    started = []
    for number in range(uploads):
        build = partial(_Upload, f"slow-{number}", piece, pieces, random.random() * _EVERY_S)
        _, one = await loop.create_connection(build, "127.0.0.1", port)
        started.append(one)
    return started


async def _finish(under_way: Sequence[_Upload]) -> list[bool]:
    waiting = asyncio.gather(*(one.ended for one in under_way))
    return await asyncio.wait_for(waiting, _GRACE_S) if under_way else []
