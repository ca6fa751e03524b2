"""The experiment with asymmetric committers: 1 put against 10 puts on one branch, equally fast?

Both commit as fast as they are answered. On a store that retries the larger commits lose; a queue
gives both the same number of commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from benchmarks.http_load.drive import drive
from benchmarks.http_load.preparation import Preparation
from benchmarks.http_load.rows import Committer

SMALL, LARGE = 1, 10


async def asymmetric(
    preparation: Preparation, pairs: int, *, seconds: float, warm_s: float, pids: Sequence[int]
) -> dict[str, Any]:
    """Runs pairs of a small and a large committer; returns how far each side came."""
    branch = await preparation.branch("asymmetric")
    numbers, prefix = count(), f"{preparation.name('k')}x"
    sizes = [SMALL, LARGE] * pairs
    clients = [Committer(preparation.requests, branch, size, prefix, numbers) for size in sizes]
    for client, size in zip(clients, sizes, strict=True):
        client.kind = "small" if size == SMALL else "large"
    measured = await drive(preparation.requests, clients, seconds=seconds, warm_s=warm_s, pids=pids)
    small, large = sum(measured.done[0::2]), sum(measured.done[1::2])
    latencies = {
        f"{kind}_p99_ms": measured.figures(kind)["p99_ms"]
        for kind in ("small", "large")
        if kind in measured.times
    }
    return {
        "pairs": pairs,
        "small_commits_s": small / measured.seconds,
        "large_commits_s": large / measured.seconds,
        "small_to_large": small / max(1, large),
        **latencies,
        **measured.costs(),
    }
