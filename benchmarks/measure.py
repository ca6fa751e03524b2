"""How a number is taken and printed."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def emit(name: str, **figures: Any) -> None:
    """Prints one JSON line."""
    shown = {
        key: round(value, 3) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    print(json.dumps({"benchmark": name, **shown}), flush=True)


def best_cpu_s(run: Callable[[], object], repeats: int = 5) -> float:
    """Returns the least CPU seconds of the calling thread that a run took."""
    gc.collect()
    gc.freeze()
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    gc.unfreeze()
    return best


def per_call_us(call: Callable[[], object], calls: int, repeats: int = 5) -> float:
    """Returns the CPU microseconds of one call."""

    def loop() -> None:
        for _ in range(calls):
            call()

    return best_cpu_s(loop, repeats) / calls * 1e6


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
