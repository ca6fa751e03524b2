"""How fast this machine is now: a plain loop of Python, and a loop of synchronised writes.

Both are what a server of files is made of. They are printed with every run, because shared machines
change from day to day.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from benchmarks.http_load.drive import quantile

_STEPS = 2_000_000
_WRITES = 300
_RECORD = b"r" * 4_096


def calibrate(folder: Path) -> dict[str, Any]:
    """Returns steps of a loop per second, and the times of synchronised writes of 4 KB."""
    began = thread_time()
    total = 0
    for number in range(_STEPS):
        total += number & 7
    loop_s = thread_time() - began
    times = sorted(_synchronised(folder / "calibration"))
    return {
        "python_steps_s": _STEPS / loop_s,
        "synchronised_writes_s": len(times) / sum(times),
        "synchronised_p50_ms": quantile(times, 0.5) * 1e3,
        "synchronised_p99_ms": quantile(times, 0.99) * 1e3,
    }


def _synchronised(path: Path) -> list[float]:
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_WRITES):
            began = perf_counter()
            file.write(_RECORD)
            os.fdatasync(file.fileno())
            times.append(perf_counter() - began)
    path.unlink()
    return times
