"""Small commits beside heavy work: how long do the many wait for the one?

Sixteen clients commit one put each to one branch and four read contents, first alone, then beside
one client that does one kind of heavy work again and again, on other branches of the same server:
an unbounded listing, commits of very many operations, merges of very many new keys. Commits and one
merge are then done on the very branch of the small ones, and both alone: beside 64 clients they
may take three times as long.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count
from time import perf_counter
from typing import Any

from benchmarks.http_load.drive import Client, Measured, drive, quantile
from benchmarks.http_load.preparation import Preparation, commit_body, put
from benchmarks.http_load.rows import Committer, RandomReader

COMMITTERS, READERS = 16, 4
KEYS = 100_000
OPERATIONS = 10_000

P99_BAR_MS = 50
"""The limit for small commits beside heavy work, on a machine without other load."""

# More than any window has time for.
_TARGETS = 24

Branch = tuple[str, str]

Times = list[tuple[float, float]]
"""When a commit was sent, and how long it took."""


class Sender(Client):
    """Sends requests that were made before the clock started, each once."""

    kind = "heavy"

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = iter(requests)

    def request(self) -> bytes | None:
        return next(self._requests, None)


class Timed(Committer):
    """Commits one put at a time; also counts replies after the window has closed.

    A commit behind heavy work may wait longer than the window is open: to leave it out would
    make the worst case look best.
    """

    kind = "commit"

    def __init__(
        self, preparation: Preparation, branch: Branch, prefix: str, numbers: count, times: Times
    ) -> None:
        super().__init__(preparation.requests, branch, 1, prefix, numbers)
        self._times = times
        self._sent = 0.0

    def request(self) -> bytes:
        self._sent = perf_counter()
        return super().request()

    def settle(self, status: int, body: bytes) -> None:
        super().settle(status, body)
        self._times.append((self._sent, perf_counter() - self._sent))


class Heavy:
    """The experiment on one server."""

    def __init__(
        self, preparation: Preparation, keys: int, operations: int, committers: int = COMMITTERS
    ) -> None:
        self._preparation = preparation
        self._keys = keys
        self._operations = operations
        self._committers = committers

    async def measure(
        self, kinds: Sequence[str], *, seconds: float, warm_s: float, pids: Sequence[int]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yields the figures of the small commits, alone and beside each kind of heavy work."""
        await self._preparation.filled(self._keys)
        for kind in kinds:
            prepare = KINDS[kind]
            branch = await self._preparation.branch("small")
            times: Times = []
            small = [] if kind in ALONE else await self._small(branch, times)
            clients = [*small, *await prepare(self, branch)]
            requests = self._preparation.requests
            # One merge into the busy branch is all there is: it must fall into the window.
            warm = 0.0 if prepare is Heavy.merge_same else warm_s
            began = perf_counter() + warm
            measured = await drive(requests, clients, seconds=seconds, warm_s=warm, pids=pids)
            # A request that was sent before the window and answered in it counts, too.
            took = sorted(one for sent, one in times if sent + one >= began)
            figures = _figures(measured, took)
            yield {"beside": kind, "committers": len(small), **figures, **measured.costs()}

    async def _small(self, branch: Branch, times: Times) -> list[Client]:
        preparation, numbers = self._preparation, count()
        prefix = f"{preparation.name('k')}x"
        made: list[Client] = []
        for _ in range(self._committers):
            made.append(Timed(preparation, branch, prefix, numbers, times))
        name, _ = await preparation.filled(self._keys)
        step = max(1, self._keys // 1_000)
        paths = [f"/trees/{name}/contents/ns.t{n}" for n in range(0, self._keys, step)]
        for seed in range(READERS):
            made.append(RandomReader([preparation.requests.get(path) for path in paths], seed))
            made[-1].kind = "read"
        return made

    async def alone(self, _: Branch) -> list[Client]:
        return []

    async def listing(self, _: Branch) -> list[Client]:
        name, _at = await self._preparation.filled(self._keys)
        lister = RandomReader([self._preparation.requests.get(f"/trees/{name}/entries")])
        lister.kind = "heavy"
        return [lister]

    async def commit(self, _: Branch) -> list[Client]:
        targets = [await self._preparation.branch("heavy") for _ in range(_TARGETS)]
        return [Sender([self._commit(target, 0) for target in targets])]

    async def commit_same(self, branch: Branch) -> list[Client]:
        firsts = range(0, self._operations * _TARGETS, self._operations)
        return [Sender([self._commit(branch, first) for first in firsts])]

    async def merge(self, _: Branch) -> list[Client]:
        targets = []
        for number in range(_TARGETS):
            # Its own commit, or the merge would be nothing but a new place of the branch.
            own = put(["ns", f"own{number}"], number)
            target = await self._preparation.branch("target")
            targets.append(await self._preparation.commit(target, [own]))
        return [Sender([await self._merge(target) for target in targets])]

    async def merge_same(self, branch: Branch) -> list[Client]:
        return [Sender([await self._merge(branch)])]

    def _commit(self, target: Branch, first: int) -> bytes:
        numbers = range(first, first + self._operations)
        body = commit_body([put(["ns", f"h{n}"], n) for n in numbers])
        return self._preparation.requests.post(
            f"/trees/{target[0]}@{target[1]}/history/commit", body
        )

    async def _merge(self, target: Branch) -> bytes:
        name, at = await self._preparation.filled(self._keys)
        body = json.dumps({"fromRefName": name, "fromHash": at, "message": "merged"}).encode()
        return self._preparation.requests.post(
            f"/trees/{target[0]}@{target[1]}/history/merge", body
        )


KINDS: dict[str, Callable[[Heavy, Branch], Awaitable[list[Client]]]] = {
    "nothing": Heavy.alone,
    "listing": Heavy.listing,
    "commits elsewhere": Heavy.commit,
    "merges elsewhere": Heavy.merge,
    "commits into the same branch": Heavy.commit_same,
    "one merge into the same branch": Heavy.merge_same,
    "commits without the small ones": Heavy.commit_same,
    "one merge without the small ones": Heavy.merge_same,
}

ALONE = ("commits without the small ones", "one merge without the small ones")
"""Heavy work on a branch to which no other client commits."""


def _figures(measured: Measured, took: Sequence[float]) -> dict[str, Any]:
    summary: dict[str, Any] = {"commits": len(took)}
    if took:
        summary |= {
            "commit_p50_ms": quantile(took, 0.5) * 1e3,
            "commit_p99_ms": quantile(took, 0.99) * 1e3,
            "commit_max_ms": quantile(took, 1) * 1e3,
        }
    for kind in ("read", "heavy"):
        if kind in measured.times:
            summary |= {f"{kind}_{name}": value for name, value in measured.figures(kind).items()}
    if took:
        summary["within_bar"] = summary["commit_p99_ms"] <= P99_BAR_MS
    return summary
