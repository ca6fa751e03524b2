"""One commit of very many staged files."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.files.lake import FileLake, Paths, PeakMemory, new_lake, spent
from benchmarks.measure import OtherCores, emit, settle_heap

LAYOUTS = ["interleaved", "appended"]


def run(keys: int, staged: Sequence[int], layouts: Sequence[str]) -> None:
    """Each commit is on a branch of its own, which begins with so many committed files."""
    with new_lake() as lake:
        paths = Paths(1)
        begin = time.perf_counter()
        lake.stage("main", paths.records(keys))
        staging_s = spent(begin)
        _commit(lake, "main", keys=0, staged=keys, layout="first", staging_s=staging_s)
        for count in staged:
            for layout in layouts:
                branch = f"{layout}-{count}"
                lake.client.references.create(branch, "main")
                records = paths.records(count, layout)
                begin = time.perf_counter()
                lake.stage(branch, records)
                del records
                staging_s = spent(begin)
                _commit(lake, branch, keys=keys, staged=count, layout=layout, staging_s=staging_s)


def _commit(
    lake: FileLake, branch: str, *, keys: int, staged: int, layout: str, staging_s: float
) -> None:
    settle_heap()
    written = lake.store.epoch()
    others = OtherCores()
    with PeakMemory() as memory:
        begin, cpu = time.perf_counter(), time.thread_time()
        lake.client.files.commit(branch, "very many files")
        seconds, cpu_s = spent(begin), time.thread_time() - cpu
    emit(
        "files_commit",
        keys=keys,
        staged=staged,
        layout=layout,
        seconds=seconds,
        cpu_s=cpu_s,
        us_per_file=seconds / staged * 1e6,
        staging_s=staging_s,
        writes=lake.store.epoch() - written,
        memory_mb=memory.peak_mb - memory.before_mb,
        resident_mb=memory.peak_mb,
        other_cores=others.used(),
    )
