"""How fast a log of a path goes through a history in which few commits changed the path."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from benchmarks.files.lake import FileLake, Paths, new_lake, spent
from benchmarks.kernel import MAIN
from benchmarks.measure import emit, settle_heap
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.publish import Publisher

_PUTS = 3
_TOGETHER = 50
_FILES = 5_000


class _Puts:
    """A commit of some files."""

    incarnation = None

    def __init__(self, operations: Sequence[Operation], number: int) -> None:
        self._operations = operations
        self._number = number

    def plan(self, head: Head) -> Sequence[CommitPlan]:  # noqa: ARG002 - the same on every head
        headers = (("authors", ("a job of the benchmark",)),)
        return [CommitPlan(self._operations, f"nightly run {self._number}", headers)]


def run(commits: int) -> None:
    with new_lake() as lake:
        path = _history(lake, commits)
        for prefix in (False, True):
            again = FileLake(lake.store)
            _scan(again, path, commits, prefix=prefix, warm=False)
            _scan(again, path, commits, prefix=prefix, warm=True)


def _history(lake: FileLake, commits: int) -> str:
    """Commits three files at a time, of five thousand; returns a path that only the first has."""
    paths, pick = Paths(6), Random(6)
    records = paths.records(_FILES)
    rare = paths.records(1)
    lake.fill("main", rare)
    publisher = Publisher(lake.context, MAIN)
    for start in range(0, commits, _TOGETHER):
        publisher.publish(
            [
                _Puts(
                    [
                        Operation(key, element[:40] + pick.randbytes(8) + element[48:])
                        for key, element in sorted(pick.sample(records, _PUTS))
                    ],
                    start + at,
                )
                for at in range(_TOGETHER)
            ]
        )
    lake.store.flush(lake.store.epoch())
    return rare[0][0][1:].decode()


def _scan(lake: FileLake, path: str, commits: int, *, prefix: bool, warm: bool) -> None:
    settle_heap()
    paths, prefixes = ([], [path]) if prefix else ([path], [])
    begin, cpu = time.perf_counter(), time.thread_time()
    found = list(lake.client.files.iterate_log("main", paths=paths, prefixes=prefixes))
    seconds = spent(begin)
    emit(
        "files_log",
        commits=commits,
        by="prefix" if prefix else "path",
        in_memory=warm,
        found=len(found),
        seconds=seconds,
        cpu_s=time.thread_time() - cpu,
        commits_per_s=commits / seconds,
    )
