"""Part `followers`: how far followers of the stream are behind the answers of commits.

All followers and all committers are connections of this process, on the two cores that the server
has too. A commit counts with one lag for each follower: from the moment in which its answer was
read to the moment in which the follower has read its event; less than nothing counts as nothing.
"""

from __future__ import annotations

import asyncio
import gc
import re
from itertools import count
from math import ceil
from time import perf_counter
from urllib.request import urlopen

from benchmarks.http_load.connection import Connection, Requests
from benchmarks.http_load.drive import run
from benchmarks.http_load.preparation import (
    Preparation,
    commit_body,
    hash_after_commit,
    put,
)
from benchmarks.http_load.processes import Served
from benchmarks.http_load.testbed import Testbed
from benchmarks.http_load.usage import between, look, resident_mb
from benchmarks.measure import emit

SETTINGS = ((1_000, 10.0), (100, 100.0))
"""Followers, and commits per second."""

LAG_BAR_MS = 250.0

_COMMITTERS = 16
_CONNECTS = 50
_WARM_COMMITS = 20
_GRACE_S = 10.0
_COMMIT = b"event: COMMIT\n"
_HASH = b'"hashAfter":"'
_HASH_DIGITS = 64
_READS = re.compile(
    rb'^lochan_store_calls_total\{operation="(get|get_many|scan)".*\} ([0-9.e+]+)$', re.MULTILINE
)


class _Follower(asyncio.Protocol):
    """Notes when it has read the event of each commit."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._rest = b""
        self.begun = asyncio.get_running_loop().create_future()
        self.seen: dict[bytes, float] = {}
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        if not self.begun.done() and b"\nid: " in self._rest + data:
            self.begun.set_result(None)
        data = self._rest + data
        at = data.find(_COMMIT)
        while at >= 0:
            found = data.find(_HASH, at)
            end = found + len(_HASH) + _HASH_DIGITS
            if found < 0 or len(data) < end:
                self._rest = data[at:]
                return
            self.seen[data[end - _HASH_DIGITS : end]] = now
            at = data.find(_COMMIT, end)
        # A name that is cut is completed by the next bytes.
        self._rest = data[-len(_COMMIT) :]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(exc or ConnectionError("the stream was refused"))


class _Commits:
    """Commits at a rate, whatever the answers do; notes when each answer was read."""

    def __init__(self, requests: Requests, branch: tuple[str, str]) -> None:
        self._requests = requests
        self._name, self._at = branch
        self._numbers = count()
        self._free: asyncio.Queue[Connection] = asyncio.Queue()
        self.answered: dict[bytes, float] = {}
        self.refused = 0

    async def connect(self) -> None:
        for _ in range(_COMMITTERS):
            # Each connection has one request under way, so its reply belongs to that.
            own: list[Connection] = []

            def replied(status: int, body: bytes, own: list[Connection] = own) -> None:
                if status == 200:
                    self.answered[hash_after_commit(body).encode()] = perf_counter()
                else:
                    self.refused += 1
                self._free.put_nowait(own[0])

            own.append(await self._requests.connect(replied, lambda _: None))
            self._free.put_nowait(own[0])

    async def commit(self, commits: int, per_s: float) -> None:
        begin = perf_counter()
        for number in range(commits):
            await asyncio.sleep(max(0.0, begin + number / per_s - perf_counter()))
            connection = await self._free.get()
            one = next(self._numbers)
            body = commit_body([put(("ns", f"followed{one}"), one)])
            path = f"/trees/{self._name}@{self._at}/history/commit"
            connection.send(self._requests.post(path, body))


async def _measure(served: Served, followers: int, per_s: float, seconds: float) -> None:
    preparation = Preparation(Requests(served.address), f"f{followers}")
    branch = await preparation.branch("followed")
    streams = Requests(served.address, prefix="/events/v1")
    request = streams.get(f"?reference={branch[0]}")
    followed = await _connect(streams, request, followers)
    commits = _Commits(preparation.requests, branch)
    await commits.connect()
    await commits.commit(_WARM_COMMITS, per_s)
    await _until_seen(followed, commits.answered)
    commits.answered.clear()
    gc.collect()
    gc.freeze()
    reads, first = _reads(served), look([served.pid])
    await commits.commit(ceil(per_s * seconds), per_s)
    missing = await _until_seen(followed, commits.answered)
    used = between(first, look([served.pid]))
    made = len(commits.answered)
    read = _reads(served) - reads
    lags = sorted(
        max(0.0, follower.seen[one] - answered) * 1_000
        for one, answered in commits.answered.items()
        for follower in followed
        if one in follower.seen
    )
    for follower in followed:
        if follower.transport is not None:
            follower.transport.close()
    preparation.caller.close()
    emit(
        "event_followers",
        followers=followers,
        commits_per_s=per_s,
        commits=made,
        refused=commits.refused,
        missing=missing,
        lag_p50_ms=_percentile(lags, 0.5),
        lag_p99_ms=_percentile(lags, 0.99),
        lag_max_ms=lags[-1] if lags else None,
        store_reads_per_commit=read / max(made, 1),
        store_reads_per_event_received=read / max(2 * made * followers, 1),
        server_cores=used.server,
        own_cores=used.generator,
        other_cores=used.other,
        resident_mb=resident_mb([served.pid]),
        within_bar=not missing and bool(lags) and _percentile(lags, 0.99) <= LAG_BAR_MS,
    )


async def _connect(requests: Requests, request: bytes, followers: int) -> list[_Follower]:
    loop = asyncio.get_running_loop()
    found: list[_Follower] = []
    while len(found) < followers:
        some = min(_CONNECTS, followers - len(found))
        made = await asyncio.gather(
            *[
                loop.create_connection(lambda: _Follower(request), requests.host, requests.port)
                for _ in range(some)
            ]
        )
        some_followers = [protocol for _, protocol in made]
        await asyncio.gather(*[one.begun for one in some_followers])
        found += some_followers
    return found


async def _until_seen(followed: list[_Follower], answered: dict[bytes, float]) -> int:
    """Waits until all have seen all commits; returns how many were not seen in time."""
    ends = perf_counter() + _GRACE_S
    while True:
        missing = sum(one not in follower.seen for one in answered for follower in followed)
        if not missing or perf_counter() > ends:
            return missing
        await asyncio.sleep(0.1)


def _reads(served: Served) -> int:
    """Returns how often the server has read its store, by its metrics."""
    with urlopen(f"{served.address}/metrics") as page:
        return sum(int(float(number)) for _, number in _READS.findall(page.read()))


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def measure(*, seconds: float) -> None:
    """Runs each setting on a server of its own."""
    for followers, per_s in SETTINGS:
        with Testbed("rocksdb") as testbed:
            served = testbed.start("lochan", more=("--metrics",))
            run(lambda: _measure(served, followers, per_s, seconds))  # noqa: B023 - called at once
