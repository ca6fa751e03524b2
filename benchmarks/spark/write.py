"""Writes of several shapes of rows against plain Parquet and against Iceberg's own runtime.

Plain is `frame.write.parquet` with the same compression; the runtime writes through NessieCatalog,
on the same server. If its jar cannot be fetched, a line reports it and it is left out. CPU time is
compared, as everywhere here; wall time is reported too.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import emit
from benchmarks.spark.runtime import CATALOG, use_catalog
from benchmarks.spark.shared import COLUMNS, FILES, Used, figures, open_lake, parse, use_in_turn
from lochan.spark import Lake

LISTS_RATIO_MAX = 1.15
_numbers = count()

_WHO = (
    "named_struct('name', concat('c', pmod(xxhash64(id, 1), 100000)), 'at', named_struct('x', "
    "pmod(xxhash64(id, 2), 1000) / 7D, 'y', pmod(xxhash64(id, 3), 1000) / 7D)) AS who"
)
_ITEM = "named_struct('sku', concat('p', pmod(xxhash64(id, 4), 10000)), 'n', id % 7) AS item"
_VISITS = "array(id, pmod(xxhash64(id, 1), 1000), pmod(xxhash64(id, 2), 1000000)) AS visits"
_COUNTS = "map('a', id % 100, concat('k', id % 50), id) AS counts"
_ITEMS = (
    "transform(array(1, 2, 3), n -> named_struct('sku', concat('p', pmod(xxhash64(id, n), "
    "100000)), 'n', n)) AS items"
)

# Columns by shape, and the share of the rows that takes about as long as the other shapes.
SHAPES: dict[str, tuple[Sequence[str], float]] = {
    "flat": (COLUMNS, 1.0),
    "structs": (("id", _WHO, _ITEM), 1.0),
    "lists_and_maps": (("id", _VISITS, _COUNTS, _ITEMS), 0.3),
}


class Writes:
    """One shape of rows, written again and again, each time as a table of its own."""

    def __init__(self, lake: Lake, folder: Path, columns: Sequence[str], rows: int) -> None:
        self._lake, self._folder = lake, folder
        self._columns, self._rows = columns, rows

    def _frame(self) -> Any:
        return self._lake.spark.range(0, self._rows, 1, FILES).selectExpr(*self._columns)

    def ours(self) -> None:
        self._lake.write(self._frame(), f"bench.t{next(_numbers)}")

    def plain(self) -> None:
        writer = self._frame().write.option("compression", "zstd")
        writer.parquet(str(self._folder / f"plain{next(_numbers)}"))

    def runtime(self) -> None:
        self._frame().writeTo(f"{CATALOG}.bench.t{next(_numbers)}").create()

    def remove(self) -> None:
        # Every run writes files of its own; together they would fill a small disk.
        for each in (*self._folder.glob("plain*"), *self._folder.glob("warehouse*")):
            shutil.rmtree(each)


def main() -> None:
    chosen = parse(__doc__, 20_000_000)
    with open_lake(chosen.cores, with_runtime=True) as (lake, warehouse):
        folder = warehouse.parent
        has_runtime = use_catalog(lake, folder / "warehouse_of_runtime")
        for name, (columns, part) in SHAPES.items():
            rows = int(chosen.rows * part)
            writes = Writes(lake, folder, columns, rows)
            ways = {"ours": writes.ours, "plain": writes.plain}
            if has_runtime:
                ways["runtime"] = writes.runtime
            taken = use_in_turn(ways, chosen.repeats, after=partial(writes.remove))
            emit("spark_write", shape=name, rows=rows, **summary(taken))


def summary(taken: dict[str, list[Used]]) -> dict[str, Any]:
    """Returns the comparison with plain Parquet, and beside it with the runtime, if it ran."""
    cpu = {way: [one.cpu_s for one in used] for way, used in taken.items()}
    wall = {way: statistics.median(one.wall_s for one in used) for way, used in taken.items()}
    found = figures(cpu["ours"], cpu["plain"], LISTS_RATIO_MAX)
    found["wall_ratio"] = wall["ours"] / wall["plain"]
    if "runtime" in taken:
        runtime = statistics.median(cpu["runtime"])
        found["runtime_cpu_s"] = runtime
        found["runtime_ratio"] = found["cpu_s"] / runtime
        found["runtime_wall_ratio"] = wall["ours"] / wall["runtime"]
        found["runtime_runs"] = [round(one, 2) for one in cpu["runtime"]]
    return found


if __name__ == "__main__":
    main()
