"""What others notice of a commit of very many files: threads that stage and look up files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from threading import Event, Thread

from benchmarks.files.lake import FileLake, Paths, new_lake, spent
from benchmarks.measure import emit, settle_heap

_PAUSE_S = 0.005
_ALONE_S = 3.0


def run(keys: int, staged: Sequence[int]) -> None:
    with new_lake() as lake:
        paths = Paths(2)
        committed = paths.records(keys)
        known = [key[1:].decode() for key, _ in committed[:10_000]]
        lake.fill("main", committed)
        del committed
        lake.client.references.create("other", "main")
        _measure(lake, known, lambda: time.sleep(_ALONE_S), keys=keys, staged=0)
        for count in staged:
            lake.stage("main", paths.records(count))
            settle_heap()
            _measure(
                lake,
                known,
                lambda: lake.client.files.commit("main", "very many files"),
                keys=keys,
                staged=count,
            )


class Caller:
    """A thread that does one thing again and again, with pauses, until it is stopped."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self.name = name
        self.times: list[float] = []
        self._call = call
        self._done = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_PAUSE_S):
            begin = time.perf_counter()
            self._call()
            self.times.append(spent(begin))

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.times)
        if not ordered:
            return {}
        count = len(ordered)
        return {
            f"{self.name}_calls": count,
            f"{self.name}_p50_ms": ordered[count // 2] * 1e3,
            f"{self.name}_p99_ms": ordered[min(count * 99 // 100, count - 1)] * 1e3,
            f"{self.name}_largest_ms": ordered[-1] * 1e3,
        }


def _measure(
    lake: FileLake, known: Sequence[str], work: Callable[[], object], *, keys: int, staged: int
) -> None:
    files, pick = lake.client.files, Random(3)

    def put(branch: str) -> Callable[[], object]:
        return lambda: files.put(branch, f"new/{pick.randbytes(8).hex()}", b"a small file")

    def stat(branch: str) -> Callable[[], object]:
        return lambda: files.stat(branch, pick.choice(known))

    callers = [
        Caller("put_same", put("main")),
        Caller("put_other", put("other")),
        Caller("stat_same", stat("main")),
        Caller("stat_other", stat("other")),
    ]
    begin = time.perf_counter()
    work()
    seconds = spent(begin)
    for caller in callers:
        caller.stop()
    figures = {name: value for one in callers for name, value in one.figures().items()}
    emit("files_beside", keys=keys, staged=staged, seconds=seconds, **figures)
