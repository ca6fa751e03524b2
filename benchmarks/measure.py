"""How a number is taken and printed."""

from __future__ import annotations

import gc
import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


Line = dict[str, Any]
"""The fields of one JSON line."""


@dataclass(frozen=True)
class Effort:
    """How often things are repeated."""

    repeats: int = 5
    builds: int = 3
    calls: int = 5_000
    rounds: int = 3
    commits: int = 4_000

    @classmethod
    def quick(cls) -> Effort:
        return cls(repeats=1, builds=1, calls=20, rounds=1, commits=80)


def emit(name: str, **figures: Any) -> None:
    """Prints one JSON line."""
    shown = {
        key: round(value, 3) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    print(json.dumps({"benchmark": name, **shown}), flush=True)


def emit_machine() -> None:
    """Prints the kind of machine, and its speed now: shared machines change by the minute."""
    block = bytes(4_096)
    words = [b"%06d" % number for number in range(1_000)]
    emit(
        "machine",
        python=platform.python_version(),
        cores=os.cpu_count(),
        hash_4kb_us=per_call_us(lambda: sha256(block).digest(), 1_000),
        sort_1000_us=per_call_us(lambda: sorted(words, reverse=True), 100),
    )


def settle_heap() -> None:
    """Leaves all that is on the heap out of collections, for good: none shall look at it again."""
    gc.collect()
    gc.freeze()


def best_cpu_s(run: Callable[[], object], repeats: int = 5) -> float:
    """Returns the least CPU seconds of the calling thread that a run took."""
    settle_heap()
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best


def per_call_us(call: Callable[[], object], calls: int, repeats: int = 5) -> float:
    """Returns the CPU microseconds of one call."""

    def loop() -> None:
        for _ in range(calls):
            call()

    return best_cpu_s(loop, repeats) / calls * 1e6


def peak_heap_bytes(run: Callable[[], object]) -> int:
    """Returns by how much a run makes the Python heap grow at most."""
    gc.collect()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


class OtherCores:
    """How much of the machine other processes used meanwhile: 0.1 is a tenth of one core.

    Summed over the processes themselves: the machine's own counters stand still on some guests.
    """

    def __init__(self) -> None:
        self._before, self._at = _others_ns(), time.monotonic_ns()

    def used(self) -> float:
        before = self._before
        used = sum(ns - before.get(pid, 0) for pid, ns in _others_ns().items())
        return used / max(time.monotonic_ns() - self._at, 1)


def _others_ns() -> dict[str, int]:
    """Returns the CPU time of each process but this one."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[stat.parent.name] = (int(fields[11]) + int(fields[12])) * _TICK_NS
    found.pop(str(os.getpid()), None)
    return found
