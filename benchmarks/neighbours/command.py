"""Measures how long a quiet caller waits beside a noisy one, on a server with authentication.

    python -m benchmarks neighbours                          both parts on RocksDB, six minutes
    python -m benchmarks neighbours --part caller --rounds 1 --seconds 5     a quick look

The quiet caller commits one put, 20 times a second, on a branch of its own. Alone, and then beside
noise from another process. `caller`: one other caller with 64 connections that commit and list as
fast as they are answered. `repository`: eight other callers with eight connections each, all in
another repository. The last line of a part states whether the quiet one's p99 rose to at most
twice what it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.http_load.callers import Administrator, admin_token
from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import drive, quantile, run
from benchmarks.http_load.preparation import Preparation
from benchmarks.http_load.processes import Served
from benchmarks.http_load.rows import Committer
from benchmarks.http_load.testbed import Testbed
from benchmarks.measure import emit, emit_machine

P99_RISE_BAR = 2.0
QUIET_PER_S = 20.0
PARTS = {"caller": (1, 64, ""), "repository": (8, 8, "noisy")}
"""Noisy callers, connections of each, and their repository, empty for the quiet one's."""

WRITERS = "writers"
"""The group that set-up makes, whose members may read and write."""

_ROOT = Path(__file__).parents[2]
_WARM_S = 2.0


class Quiet(Committer):
    """Commits now and then."""

    rate = QUIET_PER_S


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks neighbours",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--store", choices=("rocksdb", "postgres"), default="rocksdb")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--seconds", type=float, default=25.0, help="a window; default: 25")
    parser.add_argument("--keys", type=int, default=10_000, help="that are listed; default: 10000")
    chosen = parser.parse_args(arguments)
    emit_machine()
    for part in chosen.part:
        with Testbed(chosen.store) as testbed:
            server = testbed.start("lochan", authenticated=True)
            run(partial(_measure, server, admin_token(testbed.folder), part, chosen))


async def _measure(server: Served, token: str, part: str, chosen: argparse.Namespace) -> None:
    callers, connections, repository = PARTS[part]
    administrator = Administrator(server.address, token)
    quiet = Requests(server.address, token=await administrator.add_user("quiet", WRITERS))
    noisy = [await administrator.add_user(f"noisy{number}", WRITERS) for number in range(callers)]
    if repository:
        await administrator.create_repository(repository)
    order = {
        "address": server.address,
        "prefix": f"/r/{repository}/api/v2" if repository else "/api/v2",
        "tokens": noisy,
        "connections": connections,
        "keys": chosen.keys,
        "seconds": chosen.seconds + 2 * _WARM_S,
    }
    times: dict[bool, list[float]] = {False: [], True: []}
    with Noise(order) as noise:
        for number in range(chosen.rounds):
            for beside in (False, True):
                made = noise.begin() if beside else None
                line, found = await _window(quiet, server, chosen.seconds, f"q{number}{beside}")
                if made is not None:
                    line |= {f"noise_{name}": value for name, value in noise.end().items()}
                times[beside] += found
                emit("neighbours", part=part, round=number + 1, beside=beside, **line)
    _compare(part, times)
    administrator.close()


async def _window(
    quiet: Requests, server: Served, seconds: float, name: str
) -> tuple[dict[str, Any], list[float]]:
    preparation = Preparation(quiet, name)
    branch = await preparation.branch("quiet")
    clients = [Quiet(quiet, branch, 1, "k", count())]
    measured = await drive(quiet, clients, seconds=seconds, warm_s=_WARM_S, pids=[server.pid])
    preparation.caller.close()
    return measured.figures() | measured.costs(), list(measured.times["call"])


def _compare(part: str, times: dict[bool, list[float]]) -> None:
    alone, beside = (sorted(times[one]) for one in (False, True))
    rise = quantile(beside, 0.99) / max(quantile(alone, 0.99), 1e-9)
    emit(
        "neighbours_relative",
        part=part,
        commits=len(beside),
        p50_alone_ms=quantile(alone, 0.5) * 1e3,
        p50_beside_ms=quantile(beside, 0.5) * 1e3,
        p99_alone_ms=quantile(alone, 0.99) * 1e3,
        p99_beside_ms=quantile(beside, 0.99) * 1e3,
        p99_rise=rise,
        within_bar=rise <= P99_RISE_BAR,
    )


class Noise:
    """The noise, in a process of its own: it must not delay the quiet one's own clock."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Noise:
        command = [sys.executable, "-m", "benchmarks.neighbours.noise"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=pipe, stdout=pipe, text=True, env=os.environ
        )
        self._say(self._order)
        self._heard()
        return self

    def begin(self) -> Noise:
        """Returns when the noise has begun."""
        self._say({})
        return self

    def end(self) -> dict[str, Any]:
        """Waits for the end of the noise; returns its figures."""
        return self._heard()

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()

    def _say(self, order: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise RuntimeError("the noise is not running")
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()

    def _heard(self) -> dict[str, Any]:
        process = self._process
        line = process.stdout.readline() if process is not None and process.stdout else ""
        if not line:
            raise RuntimeError("the noise ended by itself")
        found: dict[str, Any] = json.loads(line)
        return found
