"""Lookups and pages: at few files and at very many, and after commits without changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from benchmarks.files.lake import FileLake, Paths, new_lake, spent
from benchmarks.measure import emit, settle_heap
from lochan.base.errors import NothingToCommit

_CALLS = 2_000
_FEW = 1_000
_PAGE = 100


def run(keys: int, unchanged: int) -> None:
    few = _at_size(_FEW, 0)
    many = _at_size(keys, unchanged)
    ratios = {f"{name.removesuffix('_us')}_ratio": many[name] / few[name] for name in few}
    emit("files_reads_growth", few=_FEW, many=keys, **ratios)


def _at_size(keys: int, unchanged: int) -> dict[str, float]:
    with new_lake() as lake:
        records = Paths(4).records(keys)
        lake.fill("main", records)
        known = [key[1:].decode() for key, _ in records]
        figures = _read(lake, known)
        emit("files_reads", keys=keys, page_entries=_PAGE, **figures)
        if unchanged:
            for _ in range(unchanged):
                _commit_nothing(lake, records[:1])
            after = _read(lake, known)
            emit("files_reads_unchanged", keys=keys, unchanged=unchanged, **after)
        return figures


def _commit_nothing(lake: FileLake, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Stages a file as it is, and commits: that is refused, and leaves no token."""
    lake.stage("main", records)
    with suppress(NothingToCommit):
        lake.client.files.commit("main", "no change")


def _read(lake: FileLake, known: Sequence[str]) -> dict[str, float]:
    """Reads the same random files twice: first from the store, then with their nodes in memory."""
    settle_heap()
    first, again = (_read_at_random(lake, known) for _ in range(2))
    return {f"{name}_first_us": value for name, value in first.items()} | {
        f"{name}_again_us": value for name, value in again.items()
    }


def _read_at_random(lake: FileLake, known: Sequence[str]) -> dict[str, float]:
    files, pick = lake.client.files, Random(5)
    return {
        "stat": _p50_us(lambda: files.stat("main", pick.choice(known))),
        "page": _p50_us(lambda: files.list("main", after=pick.choice(known), limit=_PAGE)),
    }


def _p50_us(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_CALLS):
        begin = time.perf_counter()
        call()
        times.append(spent(begin))
    return sorted(times)[_CALLS // 2] * 1e6
