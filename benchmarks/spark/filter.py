"""A filter on a table of many files: `where=`, `.where()` of the frame, and plain Parquet.

Every file has a range of ids, and the filter is for rows of one of them. It measures the wall time
from the request for the frame to its rows. `known` is a frame that was requested
before, so that Spark had listed its files. `plain` reads a directory of
the same files, `unread` is a filter that chooses no files (`id + 0 = …`).
"""

from __future__ import annotations

import os
import statistics
import time

from pyspark.sql import DataFrame

from benchmarks.measure import emit
from benchmarks.spark.shared import open_lake, parse
from lochan.base.errors import Bug

TABLE = "bench.events"
_FILES = 500


def _sum(frame: DataFrame) -> object:
    return frame.agg({"v": "sum"}).collect()


def main() -> None:
    chosen = parse(__doc__, 2_000_000)
    with open_lake(chosen.cores) as (lake, _):
        rows = lake.spark.range(0, chosen.rows, 1, _FILES).selectExpr(
            "id", "sqrt(id) AS v", "id % 7 AS k"
        )
        written = lake.write(rows, TABLE)
        paths = sorted(lake.read(TABLE).inputFiles())
        folder = os.path.dirname(paths[0])
        first = chosen.rows // 2 + 3
        filtered = f"id >= {first} and id < {first + 100}"
        unread = f"id + 0 between {first} and {first + 99}"
        known, plain = lake.read(TABLE), lake.spark.read.parquet(folder)
        ways = {
            "where": lambda: _sum(lake.read(TABLE, where=filtered)),
            "frame_where": lambda: _sum(lake.read(TABLE).where(filtered)),
            "plain_where": lambda: _sum(lake.spark.read.parquet(folder).where(filtered)),
            "known_where": lambda: _sum(known.where(filtered)),
            "known_unread": lambda: _sum(known.where(unread)),
            "known_plain_where": lambda: _sum(plain.where(filtered)),
        }
        if len({repr(way()) for way in ways.values()}) != 1:
            raise Bug("the ways do not find the same rows")
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(3 * chosen.repeats + 2):
            for name, way in ways.items() if turn % 2 else reversed(ways.items()):
                began = time.perf_counter()
                way()
                # The first two are for warmth.
                if turn > 1:
                    taken[name].append(time.perf_counter() - began)
        summary = {f"{name}_s": round(statistics.median(each), 4) for name, each in taken.items()}
        spread = {f"{name}_runs": [round(one, 3) for one in each] for name, each in taken.items()}
        emit(
            "spark_filter",
            query="filter",
            rows=chosen.rows,
            files=written.files,
            **summary,
            **spread,
        )


if __name__ == "__main__":
    main()
