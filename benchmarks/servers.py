"""Several servers on one branch of one PostgreSQL: throughput, shares and waiting times.

A server is a process of its own: `python -m benchmarks.servers URL SECONDS PUTS PUTS …` runs one
thread for each number of puts, all on one lane. It reports when it is ready, starts on a signal,
counts the commits that were acknowledged in the given time, prints them as JSON and ends.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from random import Random
from threading import Barrier, Thread
from typing import Any

from benchmarks.data import Tables
from benchmarks.kernel import MAIN, PORTS, Puts
from benchmarks.measure import Effort, emit
from lochan.assembly import open_store
from lochan.kernel.publish import Join, Proposal, Publisher, Settled
from lochan.kernel.repository import create_repository, open_repository
from lochan.kv.observe import ObservedStore
from lochan.system import SystemClock, ThreadLane
from lochan.testing.call_counts import CallCounts
from lochan.testing.postgres import PostgresServer, shared_server

_REPOSITORY = "default"

# Proposals built before the clock starts; a thread that runs out builds more, at a hundredth of a
# commit's cost.
_PREPARED = 4_000

_schemas = count(1)


def run(keys: int, effort: Effort) -> None:
    """Measures once, whatever the number of keys: the branch starts empty each time."""
    del keys
    server = shared_server()
    if server is None:
        emit("servers", skipped="no PostgreSQL was found")
        return
    seconds = 2.0 if effort.repeats > 1 else 0.3
    relative = []
    for _ in range(effort.rounds):
        alone = _measure(server, "one process", [[1] * 64], seconds)
        both = _measure(server, "two processes", [[1] * 32, [1] * 32], seconds)
        relative.append(both / alone)
        emit("servers_relative", two_to_one=relative[-1])
    emit("servers_relative_median", two_to_one=statistics.median(relative))
    for _ in range(effort.rounds):
        _measure(server, "small and large in one process", [[1, 10]], seconds)
        _measure(server, "small and large in two processes", [[1], [10]], seconds)


def _measure(
    server: PostgresServer, what: str, processes: list[list[int]], seconds: float
) -> float:
    """Runs servers together on a fresh branch; returns their commits per second."""
    url = server.url(schema=f"servers_{next(_schemas)}")
    store = open_store(url)
    create_repository(store, PORTS, _REPOSITORY)
    store.close()
    results = _together(url, processes, seconds)
    commits = [sum(one["commits"]) for one in results]
    total = sum(commits)
    figures: dict[str, Any] = {}
    if len(processes) > 1:
        figures["shares"] = [round(share / max(1, total), 3) for share in commits]
    threads = [number for one in results for number in one["commits"]]
    if len(threads) == 2:
        figures["small_to_large"] = threads[0] / max(1, threads[1])
    emit(
        "servers",
        what=what,
        commits_per_s=total / seconds,
        **figures,
        commits_per_swap=total / max(1, sum(one["swaps"] for one in results)),
        held=sum(one["held"] for one in results),
        lost=sum(one["lost"] for one in results),
        rounds_max=max(one["rounds_max"] for one in results),
        p50_ms=max(one["p50_ms"] for one in results),
        p99_ms=max(one["p99_ms"] for one in results),
        reads_per_swap=sum(one["reads"] for one in results)
        / max(1, sum(one["swaps"] for one in results)),
    )
    return total / seconds


def _together(url: str, processes: list[list[int]], seconds: float) -> list[dict[str, Any]]:
    """Starts the servers, lets them begin at one moment, and collects their results."""
    with ExitStack() as stack:
        children = []
        for number, puts in enumerate(processes):
            command = [sys.executable, "-m", "benchmarks.servers", url, str(seconds), str(number)]
            child = subprocess.Popen(
                [*command, *map(str, puts)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            children.append(stack.enter_context(child))
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                raise RuntimeError("a server of the benchmark did not start")
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        outputs = [child.communicate(timeout=seconds + 30)[0] for child in children]
    return [json.loads(text) for text in outputs]


class _KnownPuts(Puts):
    """Names its keys beforehand, as every plain commit can."""

    def __init__(self, keys: Sequence[bytes], pick: Random) -> None:
        super().__init__(keys, pick)
        self.keys = keys


class _Rounds:
    """A publisher that notes how many attempts a publish took at most; one at a time."""

    def __init__(self, publisher: Publisher, counts: CallCounts) -> None:
        self._publisher = publisher
        self._counts = counts
        self.most = 0

    def publish(self, proposals: Sequence[Proposal], join: Join) -> list[Settled]:
        before = self._counts.outcomes["apply", "lost"]
        settled = self._publisher.publish(proposals, join)
        self.most = max(self.most, self._counts.outcomes["apply", "lost"] - before + 1)
        return settled


def main(url: str, seconds: str, number: str, *puts: str) -> None:
    """One server."""
    counts = CallCounts()
    store = ObservedStore(open_store(url), counts, SystemClock())
    parts = open_repository(store, PORTS, _REPOSITORY)
    rounds = _Rounds(Publisher(parts, MAIN), counts)
    lane = ThreadLane(rounds)  # type: ignore[arg-type]
    start = Barrier(len(puts) + 1)
    end = [0.0]
    done = [0] * len(puts)
    times: list[float] = []
    workers = [
        Thread(target=_commit, args=(lane, int(number), which, int(size), start, end, done, times))
        for which, size in enumerate(puts)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    counts.reset()
    rounds.most = 0
    end[0] = time.perf_counter() + float(seconds)
    start.wait()
    for worker in workers:
        worker.join()
    times.sort()
    print(
        json.dumps(
            {
                "commits": done,
                "swaps": counts.calls["apply"],
                "held": counts.calls["hold"],
                "reads": counts.calls["get"] + counts.calls["get_many"],
                "lost": counts.outcomes["apply", "lost"],
                "rounds_max": rounds.most,
                "p50_ms": times[len(times) // 2] * 1e3,
                "p99_ms": times[len(times) * 99 // 100] * 1e3,
            }
        )
    )
    store.close()


def _commit(
    lane: ThreadLane,
    server: int,
    which: int,
    size: int,
    start: Barrier,
    end: list[float],
    done: list[int],
    times: list[float],
) -> None:
    tables, pick = Tables(server * 1_000 + which), Random(server * 1_000 + which)

    def make() -> Puts:
        return _KnownPuts([tables.key() for _ in range(size)], pick)

    prepared = [make() for _ in range(_PREPARED // start.parties)]
    lane.commit(make())
    start.wait()
    start.wait()
    while (begin := time.perf_counter()) < end[0]:
        lane.commit(prepared.pop() if prepared else make())
        now = time.perf_counter()
        if now < end[0]:
            done[which] += 1
            times.append(now - begin)


if __name__ == "__main__":
    main(*sys.argv[1:])
