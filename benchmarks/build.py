"""Building a tree from a sorted stream: in memory, and into RocksDB."""

from __future__ import annotations

import tempfile

from benchmarks.branch import SEED, TABLES, Branch
from benchmarks.data import Files, Tables
from benchmarks.measure import Effort, OtherCores, best_cpu_s, emit, peak_heap_bytes
from lochan.assembly import open_store
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree

# Section 6 of the prototype study, leaves of 4 KB: keys per second and bytes per key of tables, of
# files, and keys per second of tables into RocksDB.
PROTOTYPE = {
    100_000: (1.79e6, 108, 1.43e6, 180, 1.05e6),
    1_000_000: (1.71e6, 103, 1.41e6, 176, 1.04e6),
}
_HEAP_KEYS_MAX = 100_000


def run(size: int, effort: Effort) -> None:
    items = Tables(size).sorted_items(size)
    prototype = PROTOTYPE.get(size)
    _in_memory("tables", items, TABLES.width, effort, prototype and prototype[:2])
    _on_rocksdb(items, effort, prototype and prototype[4])
    del items
    files = Files(size).sorted_items(size)
    _in_memory("files", files, None, effort, prototype and prototype[2:4])


def _in_memory(
    universe: str,
    items: list[tuple[bytes, bytes]],
    width: int | None,
    effort: Effort,
    prototype: object,
) -> None:
    rule = BoundaryRule(SEED)
    sizes: list[int] = []
    seconds = best_cpu_s(
        lambda: build_tree(rule, width, items, lambda new: sizes.append(len(new.raw))),
        effort.builds,
    )
    heap = peak_heap_bytes(lambda: build_tree(rule, width, items[:_HEAP_KEYS_MAX], lambda _: None))
    emit(
        "build",
        universe=universe,
        keys=len(items),
        keys_per_s=len(items) / seconds,
        nodes=len(sizes) // effort.builds,
        bytes_per_element=sum(sizes) / effort.builds / len(items),
        peak_heap_kb=heap / 1_024,
        prototype_keys_per_s_bytes=prototype,
    )


def _on_rocksdb(items: list[tuple[bytes, bytes]], effort: Effort, prototype: object) -> None:
    others = OtherCores()
    seconds = min(_load(items) for _ in range(effort.builds))
    emit(
        "build_on_rocksdb",
        universe="tables",
        keys=len(items),
        keys_per_s=len(items) / seconds,
        other_cores=others.used(),
        prototype_keys_per_s=prototype,
    )


def _load(items: list[tuple[bytes, bytes]]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        branch = Branch(store)
        seconds = best_cpu_s(lambda: branch.load(items), 1)
        store.close()
    return seconds
