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
    stat, page = _at_size(_FEW, 0)
    stat_many, page_many = _at_size(keys, unchanged)
    emit(
        "files_reads_growth",
        few=_FEW,
        many=keys,
        stat_ratio=stat_many / stat,
        page_ratio=page_many / page,
    )


def _at_size(keys: int, unchanged: int) -> tuple[float, float]:
    with new_lake() as lake:
        records = Paths(4).records(keys)
        lake.fill("main", records)
        known = [key[1:].decode() for key, _ in records]
        stat, page = _read(lake, known, keys, "files_reads")
        if unchanged:
            for _ in range(unchanged):
                _commit_nothing(lake, records[:1])
            _read(lake, known, keys, "files_reads_unchanged", unchanged=unchanged)
        return stat, page


def _commit_nothing(lake: FileLake, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Stages a file as it is, and commits: that is refused, and leaves no token."""
    lake.stage("main", records)
    with suppress(NothingToCommit):
        lake.client.files.commit("main", "no change")


def _read(
    lake: FileLake, known: Sequence[str], keys: int, name: str, **more: int
) -> tuple[float, float]:
    files, pick = lake.client.files, Random(5)
    settle_heap()
    stat = _p50_us(lambda: files.stat("main", pick.choice(known)))
    page = _p50_us(lambda: files.list("main", after=pick.choice(known), limit=_PAGE))
    emit(name, keys=keys, **more, stat_p50_us=stat, page_entries=_PAGE, page_p50_us=page)
    return stat, page


def _p50_us(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_CALLS):
        begin = time.perf_counter()
        call()
        times.append(spent(begin))
    return sorted(times)[_CALLS // 2] * 1e6
