"""The cost of a one-put and a ten-put change at 1k, 100k and 1M keys on RocksDB."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from random import Random

from benchmarks.branch import Branch, Put
from benchmarks.data import Tables
from benchmarks.measure import Effort, Line, OtherCores, emit, settle_heap
from lochan.assembly import open_store

# Section 5 of the prototype study: us, KB written, rows written, nodes read per change.
PROTOTYPE = {
    ("random", 1, 1_000): (58, 8.2, 3.1, 0.0),
    ("random", 1, 100_000): (92, 12.0, 4.2, 0.7),
    ("random", 1, 1_000_000): (119, 14.1, 4.8, 1.2),
    ("updates", 1, 1_000): (33, 4.6, 2.4, 0.0),
    ("updates", 1, 100_000): (55, 7.1, 3.1, 0.0),
    ("updates", 1, 1_000_000): (60, 6.7, 3.1, 0.0),
    ("random", 10, 1_000): (390, 62.5, 22.5, 0.1),
    ("random", 10, 100_000): (686, 98.5, 32.9, 5.6),
    ("random", 10, 1_000_000): (961, 120.0, 39.1, 11.4),
    ("updates", 10, 1_000): (146, 23.4, 14.8, 0.0),
    ("updates", 10, 100_000): (282, 47.5, 21.8, 0.3),
    ("updates", 10, 1_000_000): (340, 44.3, 21.7, 0.3),
}


def run(size: int, effort: Effort) -> None:
    tables = Tables(size)
    items = tables.sorted_items(size)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        branch = Branch(store)
        branch.load(items)
        keys = [key for key, _ in items]
        del items
        for puts in (1, 10):
            for workload in ("random", "updates"):
                _measure(branch, Load(tables, keys, workload, puts, effort), size)
        store.close()


def emit_growth(lines: Iterable[Line]) -> None:
    """Prints how much dearer a change is with a million keys than with a hundred thousand."""
    means = {
        (line["workload"], line["puts"], line["keys"]): line["cpu_us"]
        for line in lines
        if line["benchmark"] == "change"
    }
    for (workload, puts, size), mean in means.items():
        smaller = means.get((workload, puts, 100_000))
        if size == 1_000_000 and smaller is not None:
            emit("change_growth", workload=workload, puts=puts, ratio_100k_to_1m=mean / smaller)


class Load:
    """The committed keys: new random ones, or updates of 5,000 neighbours."""

    def __init__(
        self, tables: Tables, keys: list[bytes], workload: str, puts: int, effort: Effort
    ) -> None:
        self.workload = workload
        self.puts = puts
        self.rounds = effort.rounds
        self._tables = tables
        third = len(keys) // 3
        self._neighbours = keys[third:][:5_000] if len(keys) > 15_000 else keys[:third]
        self._commits = effort.commits if puts == 1 else effort.commits // 8

    def batches(self, branch: Branch) -> list[list[Put]]:
        pick = Random(9)
        batches = []
        for _ in range(self._commits):
            if self.workload == "updates":
                chosen = pick.sample(self._neighbours, self.puts)
            else:
                chosen = [self._tables.key() for _ in range(self.puts)]
            batches.append(branch.prepare(chosen))
        return batches


def _measure(branch: Branch, load: Load, size: int) -> None:
    counts = _count(branch, load.batches(branch))
    rounds = [_round(branch, load.batches(branch)) for _ in range(load.rounds)]
    best = min(rounds, key=lambda figures: figures["cpu_us"])
    workload = {"workload": load.workload, "puts": load.puts, "keys": size}
    prototype = PROTOTYPE.get((load.workload, load.puts, size))
    emit("change", **workload, **best, **counts, prototype_us_kb_rows_reads=prototype)
    emit("change_stages", **workload, **_stages(branch, load.batches(branch)))


def _count(branch: Branch, batches: list[list[Put]]) -> dict[str, float]:
    """Counts the writes of a round exactly; untimed."""
    start = branch.index
    branch.counting, branch.bytes_written, branch.rows_written, branch.spills = True, 0, 0, 0
    for batch in batches:
        branch.commit(batch)
    branch.counting, branch.index = False, start
    commits = len(batches)
    return {
        "kb_written": branch.bytes_written / commits / 1024,
        "rows_written": branch.rows_written / commits,
        "commits_per_spill": commits / max(1, branch.spills),
    }


def _round(branch: Branch, batches: list[list[Put]]) -> dict[str, float]:
    commits = len(batches)
    # Every round starts from the same tree, so that a small one does not grow from round to round,
    # and with no leaf in memory but those that it reads or writes itself.
    start, misses = branch.index, branch.nodes.misses
    branch.nodes.forget_leaves()
    times = []
    settle_heap()
    others = OtherCores()
    for batch in batches:
        begin = time.thread_time_ns()
        branch.commit(batch)
        times.append(time.thread_time_ns() - begin)
    used = others.used()
    branch.index = start
    times.sort()
    return {
        "cpu_us": sum(times) / commits / 1e3,
        "median_us": times[commits // 2] / 1e3,
        "p99_us": times[commits * 99 // 100] / 1e3,
        "worst_ms": times[-1] / 1e6,
        "nodes_read": (branch.nodes.misses - misses) / commits,
        "other_cores": used,
    }


def _stages(branch: Branch, batches: list[list[Put]]) -> dict[str, float]:
    """Measures where the time goes: a round with a look at the clock between the stages."""
    start = branch.index
    branch.nodes.forget_leaves()
    look_up = advance = publish = 0
    clock = time.thread_time_ns
    settle_heap()
    for batch in batches:
        begin = clock()
        branch.look_up(batch)
        looked_up = clock()
        prepared = branch.advance(batch)
        advanced = clock()
        branch.publish(prepared)
        published = clock()
        look_up += looked_up - begin
        advance += advanced - looked_up
        publish += published - advanced
    branch.index = start
    per_us = len(batches) * 1e3
    return {
        "look_up_us": look_up / per_us,
        "splice_and_spill_us": advance / per_us,
        "write_us": publish / per_us,
    }
