"""Shared parts of the measurements on Spark: rows, a lake in a temporary directory, and CPU time.

CPU time is that of this process and everything below it: Java, Python workers and the lake's own
server. Ways of doing one thing are taken in turn, each once before the first figure, because Java
gets faster while it runs and shared machines change by the minute.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.accounts import look, used_between
from benchmarks.spark.runtime import session_with_runtime
from lochan.spark import Lake, session

FILES = 16
RATIO_MAX = 1.05

COLUMNS = (
    "id",
    "pmod(xxhash64(id, 1), 1000000) AS customer",
    "pmod(xxhash64(id, 2), 1000000007) / 1000000007D AS v1",
    "pmod(xxhash64(id, 3), 1000000007) / 1000000007D AS v2",
    "int(pmod(xxhash64(id, 4), 100)) + 1 AS quantity",
    "timestamp_seconds(1700000000 + pmod(xxhash64(id, 5), 31536000)) AS sold_at",
    "concat('p', lpad(pmod(xxhash64(id, 6), 100000), 6, '0')) AS product",
)

Way = Callable[[], object]


def build_rows(spark: SparkSession, rows: int) -> DataFrame:
    """Returns rows of seven columns, the same ones every time; one file for each partition."""
    return spark.range(0, rows, 1, FILES).selectExpr(*COLUMNS)


@contextmanager
def open_lake(cores: int, *, with_runtime: bool = False) -> Iterator[tuple[Lake, Path]]:
    """Opens a temporary lake; yields it with the directory of its tables.

    `with_runtime` starts Spark with Iceberg's own runtime, if it is available.
    """
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder) / "warehouse"
        plain = partial(session, "benchmark", master=f"local[{cores}]")
        spark = session_with_runtime(cores) if with_runtime else plain()
        try:
            with Lake(spark, f"rocksdb:{folder}/store", warehouse=str(warehouse)) as lake:
                yield lake, warehouse
        finally:
            spark.stop()


class Used(NamedTuple):
    """The time of one call."""

    cpu_s: float
    wall_s: float


def take_in_turn(
    ways: Mapping[str, Way], repeats: int, calls: int = 1, after: Way | None = None
) -> dict[str, list[float]]:
    """Returns the CPU seconds of one call, so many figures for each way."""
    used = use_in_turn(ways, repeats, calls, after)
    return {name: [one.cpu_s for one in each] for name, each in used.items()}


def use_in_turn(
    ways: Mapping[str, Way], repeats: int, calls: int = 1, after: Way | None = None
) -> dict[str, list[Used]]:
    """Returns the times of calls, that many for each way; the first call only warms up.

    CPU seconds are those of all processes. The order turns round each time, so that none always
    follows the same other one. `after` is done after each figure and not counted.
    """
    found: dict[str, list[Used]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name in list(ways) if turn % 2 else list(ways)[::-1]:
            before, began = look(), time.perf_counter()
            _often(ways[name], calls)
            wall_s = time.perf_counter() - began
            used = used_between(before, look())
            if after is not None:
                after()
            if turn:
                found[name].append(Used(used / calls, wall_s / calls))
    return found


def _often(way: Way, calls: int) -> None:
    for _ in range(calls):
        way()


def figures(
    ours: Sequence[float], plain: Sequence[float], ratio_max: float = RATIO_MAX
) -> dict[str, Any]:
    """Returns both medians, their ratio and its limit, and every figure."""
    ratio = statistics.median(ours) / statistics.median(plain)
    return {
        "cpu_s": statistics.median(ours),
        "plain_cpu_s": statistics.median(plain),
        "ratio": ratio,
        "ratio_max": ratio_max,
        "is_met": ratio <= ratio_max,
        "runs": [round(one, 2) for one in ours],
        "plain_runs": [round(one, 2) for one in plain],
        "load_average": round(os.getloadavg()[0], 1),
    }


def parse(about: str | None, rows: int, arguments: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=rows, help=f"default: {rows:,}")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    parser.add_argument("--cores", type=int, default=2, help="of Spark; default: 2")
    chosen = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if chosen.rows < FILES or chosen.repeats < 1:
        parser.error(f"at least {FILES} rows, and one repeat")
    return chosen
