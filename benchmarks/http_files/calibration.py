"""How fast this machine is now: a plain loop of Python, hashes, and a loop of synchronised writes.

All are what a server of files is made of. They are printed with every run, because shared machines
change from day to day.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from benchmarks.http_load.drive import quantile

_STEPS = 2_000_000
_WRITES = 300
_RECORD = b"r" * 4_096
_HASHES = 2_000
_HASHED = b"h" * 10_000


def calibrate(folder: Path) -> dict[str, Any]:
    """Returns steps of a loop per second, the time of a hash, those of writes of 4 KB."""
    began = thread_time()
    total = 0
    for number in range(_STEPS):
        total += number & 7
    loop_s = thread_time() - began
    began = thread_time()
    for _ in range(_HASHES):
        sha256(_HASHED).digest()
    hash_s = thread_time() - began
    times = sorted(_synchronised(folder / "calibration"))
    return {
        "python_steps_s": _STEPS / loop_s,
        "sha256_10kb_us": hash_s / _HASHES * 1e6,
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
