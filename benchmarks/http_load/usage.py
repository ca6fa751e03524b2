"""Processor time of a window: the server, the generator, and all other processes.

Summed over the processes themselves, because the machine's own counters stand still on some guests.
The time of a process that has ended is in the account of the parent that waited for it.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Snapshot(NamedTuple):
    """CPU seconds since the beginning of time, and the time of the look."""

    at: float
    server_s: float
    own_s: float
    all_s: float


class Cores(NamedTuple):
    """How many cores each used on average: 0.1 is a tenth of one core."""

    wall_s: float
    server: float
    generator: float
    other: float


class _Process(NamedTuple):
    parent: int
    own_s: float
    waited_s: float


def look(server: Iterable[int]) -> Snapshot:
    """Returns the accounts of the server (with the children of its processes) and of us."""
    processes = _processes()
    used = resource.getrusage(resource.RUSAGE_SELF)
    total = sum(one.own_s + one.waited_s for one in processes.values())
    tree = _tree(processes, server)
    theirs = sum(processes[pid].own_s + processes[pid].waited_s for pid in tree)
    return Snapshot(time.perf_counter(), theirs, used.ru_utime + used.ru_stime, total)


def between(first: Snapshot, last: Snapshot) -> Cores:
    wall = max(last.at - first.at, 1e-9)
    server, own = last.server_s - first.server_s, last.own_s - first.own_s
    other = max(0.0, last.all_s - first.all_s - server - own)
    return Cores(wall, server / wall, own / wall, other / wall)


def resident_mb(pids: Iterable[int]) -> float:
    """Returns the resident memory of processes and their children."""
    processes = _processes()
    return sum(_resident_kb(pid) for pid in _tree(processes, pids)) / 1_024


def _resident_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line), 0)


def _processes() -> dict[int, _Process]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            fields = stat.rpartition(")")[2].split()
            own, waited = (int(fields[at]) + int(fields[at + 1]) for at in (11, 13))
            found[int(name)] = _Process(int(fields[1]), own * _TICK_S, waited * _TICK_S)
    return found


def _tree(processes: dict[int, _Process], roots: Iterable[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    seen: set[int] = set()
    waiting = [pid for pid in roots if pid in processes]
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            waiting += children.get(pid, ())
    return seen
