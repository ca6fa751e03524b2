"""The same tree from parts, cut at hard breaks and built in two processes at once."""

from __future__ import annotations

import gc
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.branch import SEED, TABLES
from benchmarks.data import Tables
from benchmarks.measure import Effort, best_cpu_s, emit
from lochan.index.boundary import BoundaryRule
from lochan.index.build import Part, build_part, build_tree, join_parts
from lochan.index.node import NewNode

PROCESSES = 2
_Items = list[tuple[bytes, bytes]]


def run(size: int, effort: Effort) -> None:
    items = Tables(size).sorted_items(size)
    rule = BoundaryRule(SEED)
    ends = cut_at_hard_breaks(rule, items, PROCESSES)
    nodes: list[int] = []
    whole_s = best_cpu_s(
        lambda: build_tree(rule, TABLES.width, items, lambda new: nodes.append(len(new.raw))),
        effort.builds,
    )
    whole_root = build_tree(rule, TABLES.width, items, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            _write(Path(folder, str(start)), items[start:end])
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]
        rounds = [_round(rule, paths) for _ in range(effort.builds)]
    best = min(rounds, key=lambda one: one["wall_s"])
    roots = {one.pop("root") for one in rounds}
    emit(
        "build_parallel",
        keys=size,
        parts=len(ends),
        processes=PROCESSES,
        same_root=roots == {whole_root},
        same_nodes=best.pop("nodes") == len(nodes) // effort.builds,
        keys_per_s=size / best["wall_s"],
        one_process_keys_per_s=size / whole_s,
        **best,
    )


def cut_at_hard_breaks(rule: BoundaryRule, items: _Items, parts: int) -> list[int]:
    """Returns the ends of at most that many parts; all but the last end with a hard break."""
    ends = []
    for part in range(1, parts):
        ideal = len(items) * part // parts
        places = _around(ideal, len(items))
        found = next((at for at in places if rule.is_hard_break(items[at - 1][0])), None)
        if found is not None and found not in ends:
            ends.append(found)
    return [*sorted(ends), len(items)]


def _around(middle: int, count: int) -> Iterator[int]:
    """Yields the places inside the list, nearest to the middle first."""
    for distance in range(count):
        for at in {middle - distance, middle + distance}:
            if 0 < at < count:
                yield at


def _write(path: Path, items: _Items) -> Path:
    path.write_bytes(msgspec.msgpack.encode(items))
    return path


def _round(rule: BoundaryRule, paths: list[Path]) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(paths))
    with ProcessPoolExecutor(len(paths), context, _meet_at, (barrier,)) as pool:
        built = list(pool.map(build_one_part, paths))
    nodes: list[NewNode] = []
    start = time.monotonic()
    root = join_parts(rule, [one.part for one in built], nodes.append)
    join_s = time.monotonic() - start
    parts_s = max(one.ended for one in built) - min(one.started for one in built)
    return {
        "root": root,
        "nodes": sum(one.nodes for one in built) + len(nodes),
        "wall_s": parts_s + join_s,
        "slowest_part_cpu_s": max(one.cpu_s for one in built),
        "join_ms": join_s * 1e3,
    }


class Built(msgspec.Struct, frozen=True):
    """A part, how many nodes it has, and when and how long it was built."""

    part: Part
    nodes: int
    started: float
    ended: float
    cpu_s: float


_barriers: list[Barrier] = []


def _meet_at(barrier: Barrier) -> None:
    _barriers.append(barrier)


def build_one_part(path: Path) -> Built:
    """Builds one part in a process of its own.

    All wait for each other first: starting a process and reading the input are not measured, for a
    real builder reads a stream of its own.
    """
    items = msgspec.msgpack.decode(path.read_bytes(), type=_Items)
    rule = BoundaryRule(SEED)
    nodes = 0

    def sink(_: NewNode) -> None:
        nonlocal nodes
        nodes += 1

    gc.freeze()
    _barriers[0].wait(120)
    started, cpu = time.monotonic(), time.thread_time()
    part = build_part(rule, TABLES.width, items, sink)
    return Built(part, nodes, started, time.monotonic(), time.thread_time() - cpu)
