"""What a one-put and a ten-put change cost at 1k, 100k and 1M keys on RocksDB."""

from __future__ import annotations

import gc
import tempfile
import time
from random import Random

from benchmarks.change import Branch
from benchmarks.data import Tables
from benchmarks.measure import OtherCores, emit
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


def run(sizes: list[int], repeats: int = 3) -> None:
    means: dict[tuple[str, int, int], float] = {}
    for size in sizes:
        tables = Tables(size)
        keys = tables.sorted_keys(size)
        items = [(key, tables.element()) for key in keys]
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(f"rocksdb:{folder}/db")
            branch = Branch(store)
            branch.load(items)
            del items
            for puts in (1, 10):
                for workload in ("random", "updates"):
                    counts = _count(branch, tables, keys, workload, puts)
                    rounds = [_round(branch, tables, keys, workload, puts) for _ in range(repeats)]
                    best = min(rounds, key=lambda figures: figures["cpu_us"])
                    means[workload, puts, size] = best["cpu_us"]
                    prototype = PROTOTYPE.get((workload, puts, size))
                    emit(
                        "change",
                        workload=workload,
                        puts=puts,
                        keys=size,
                        **best,
                        **counts,
                        prototype_us_kb_rows_reads=prototype,
                    )
            store.close()
    for workload in ("random", "updates"):
        for puts in (1, 10):
            if (workload, puts, 1_000_000) in means and (workload, puts, 100_000) in means:
                ratio = means[workload, puts, 1_000_000] / means[workload, puts, 100_000]
                emit("change_100k_to_1M", workload=workload, puts=puts, ratio=ratio)


def _batches(
    branch: Branch, tables: Tables, keys: list[bytes], workload: str, puts: int
) -> list[list[tuple[bytes, bytes, bytes]]]:
    pick = Random(9)
    neighbours = keys[len(keys) // 3 :][:5_000] if len(keys) > 15_000 else keys[: len(keys) // 3]
    batches = []
    for _ in range(4_000 if puts == 1 else 500):
        chosen = [tables.key() for _ in range(puts)]
        if workload == "updates":
            chosen = pick.sample(neighbours, puts)
        batches.append(branch.prepare(chosen))
    return batches


def _count(
    branch: Branch, tables: Tables, keys: list[bytes], workload: str, puts: int
) -> dict[str, float]:
    """Counts exactly what a round writes; untimed."""
    batches = _batches(branch, tables, keys, workload, puts)
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


def _round(
    branch: Branch, tables: Tables, keys: list[bytes], workload: str, puts: int
) -> dict[str, float]:
    batches = _batches(branch, tables, keys, workload, puts)
    commits = len(batches)
    # Every round starts from the same tree, so that a small one does not grow from round to round,
    # and with no leaf in memory but those that it reads or writes itself.
    start, misses = branch.index, branch.nodes.misses
    branch.nodes.forget_leaves()
    times = []
    gc.collect()
    gc.freeze()
    others = OtherCores()
    for batch in batches:
        begin = time.thread_time_ns()
        branch.commit(batch)
        times.append(time.thread_time_ns() - begin)
    used = others.used()
    gc.unfreeze()
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
