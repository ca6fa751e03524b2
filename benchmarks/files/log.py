"""How fast a log of a path goes through a history in which few commits changed the path.

Each scan opens the store anew, so that neither the process nor RocksDB has anything in memory. The
system may still have the files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from benchmarks.files.lake import FileLake, Paths, spent
from benchmarks.kernel import MAIN
from benchmarks.measure import emit, settle_heap
from lochan.assembly import open_store
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
    with tempfile.TemporaryDirectory() as folder:
        url = f"rocksdb:{folder}/db"
        with _opened(url) as lake:
            path = _history(lake, commits)
        for packed in (False, True):
            for prefix in (False, True):
                with _opened(url) as lake:
                    for warm in (False, True):
                        _scan(lake, path, commits, packed=packed, prefix=prefix, warm=warm)
            if not packed:
                with _opened(url) as lake:
                    _pack(lake, path, commits)


@contextmanager
def _opened(url: str) -> Iterator[FileLake]:
    lake = FileLake(open_store(url))
    try:
        yield lake
    finally:
        lake.client.close()


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


def _pack(lake: FileLake, path: str, commits: int) -> None:
    """Builds all packs, of runs that a search has found without; from the store, not from memory.

    A search notes a bounded number of them, so there may be several rounds.
    """
    packs, cpu_s = lake.context.key_packs, 0.0
    while True:
        list(lake.client.files.iterate_log("main", paths=[path]))
        cpu = time.thread_time()
        is_any = packs.has_due
        while packs.build_due():
            pass
        cpu_s += time.thread_time() - cpu
        if not is_any:
            break
    lake.store.flush(lake.store.epoch())
    emit("files_log_packs", commits=commits, cpu_s=cpu_s, cpu_us_per_commit=cpu_s / commits * 1e6)


def _scan(
    lake: FileLake, path: str, commits: int, *, packed: bool, prefix: bool, warm: bool
) -> None:
    settle_heap()
    paths, prefixes = ([], [path]) if prefix else ([path], [])
    begin, cpu = time.perf_counter(), time.thread_time()
    found = list(lake.client.files.iterate_log("main", paths=paths, prefixes=prefixes))
    seconds = spent(begin)
    emit(
        "files_log",
        commits=commits,
        by="prefix" if prefix else "path",
        packed=packed,
        in_memory=warm,
        found=len(found),
        seconds=seconds,
        cpu_s=time.thread_time() - cpu,
        commits_per_s=commits / seconds,
    )
