"""A table read by branch against plain `spark.read.parquet` of the same files, and the runtime.

The table is written once, by our own writer. `resolve` is the cost of a frame before any row is
read: finding the files of the branch here, reading a footer for the schema there. The other lines
are queries on frames that were resolved before; `with_resolve_ratio` counts both. Iceberg's own
runtime reads the same table through NessieCatalog; if its jar cannot be fetched, it is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from benchmarks.measure import emit
from benchmarks.spark.runtime import CATALOG, use_catalog
from benchmarks.spark.shared import FILES, build_rows, figures, open_lake, parse, take_in_turn
from lochan.base.errors import Bug

TABLE = "bench.sales"


def _all_columns(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _sum(frame: DataFrame) -> None:
    frame.agg(F.sum("v1")).collect()


# A query with its repetitions for one figure: the clock is too coarse for one short query.
QUERIES: dict[str, tuple[Callable[[DataFrame], object], int]] = {
    "all_columns": (_all_columns, 1),
    "sum": (_sum, 5),
    "count": (DataFrame.count, 10),
}
_RESOLVES = 10


def main() -> None:
    chosen = parse(__doc__, 40_000_000)
    with open_lake(chosen.cores, with_runtime=True) as (lake, warehouse):
        written = lake.write(build_rows(lake.spark, chosen.rows), TABLE)
        about = {"rows": chosen.rows, "files": written.files, "bytes": written.bytes}
        ours = lake.read(TABLE)
        paths = sorted(ours.inputFiles())
        plain = lake.spark.read.parquet(*paths)
        if len(paths) != FILES or not ours.count() == plain.count() == chosen.rows:
            raise Bug("the two ways do not read the same rows")
        frames = {
            "ours": lambda: lake.read(TABLE),
            "plain": lambda: lake.spark.read.parquet(*paths),
        }
        known = {"ours": ours, "plain": plain}
        if use_catalog(lake, warehouse):
            frames["runtime"] = lambda: lake.spark.table(f"{CATALOG}.{TABLE}")
            known["runtime"] = frames["runtime"]()
        resolve = take_in_turn(frames, chosen.repeats, _RESOLVES)
        emit("spark_read", query="resolve", **about, **_untested(_summary(resolve)))
        for name, (ask, calls) in QUERIES.items():
            ways = {way: partial(ask, frame) for way, frame in known.items()}
            taken = take_in_turn(ways, chosen.repeats, calls)
            both = [
                statistics.median(taken[way]) + statistics.median(resolve[way])
                for way in ("ours", "plain")
            ]
            summary = _summary(taken) | {"with_resolve_ratio": both[0] / both[1]}
            emit("spark_read", query=name, **about, **summary)


def _summary(taken: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Returns the comparison with plain Parquet, and the time of the runtime, if it ran."""
    summary = figures(taken["ours"], taken["plain"])
    if "runtime" in taken:
        runtime = statistics.median(taken["runtime"])
        summary |= {"runtime_cpu_s": runtime, "runtime_ratio": summary["cpu_s"] / runtime}
    return summary


def _untested(summary: dict[str, object]) -> dict[str, object]:
    """Leaves out the bar, which is about reading."""
    return {name: value for name, value in summary.items() if name not in {"ratio_max", "is_met"}}


if __name__ == "__main__":
    main()
