"""A write whose rows are checked meanwhile, against the same write without checks.

With checks it is a whole audit: a branch, the write, the verdict, the publication. `counted` has
one check of each cheap kind, three of which need only the metadata of files; `pattern` has one
regular expression for each row. Single figures differ by a tenth on a shared machine, so there must
be many rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.measure import emit
from benchmarks.spark.shared import build_rows, figures, open_lake, parse, take_in_turn
from lochan.spark import Lake
from lochan.spark.checks import Check, Expression, InRange, InSet, Matches, NotNull, RowCount

_numbers = count()


def counted(table: str, rows: int) -> Sequence[Check]:
    return (
        NotNull(table=table, columns=("id", "customer", "product")),
        InRange(table=table, column="quantity", min=1, max=100),
        InSet(table=table, column="quantity", values=tuple(range(1, 101))),
        Expression(table=table, sql="v1 + v2 >= 0"),
        RowCount(table=table, min=rows, max=rows),
    )


def pattern(table: str, rows: int) -> Sequence[Check]:
    return (
        Matches(table=table, column="product", pattern="p[0-9]{6}"),
        RowCount(table=table, min=rows),
    )


def write_plainly(lake: Lake, rows: int) -> None:
    lake.write(build_rows(lake.spark, rows), _table())


def write_audited(lake: Lake, rows: int, checks: str) -> None:
    table = _table()
    made = {"counted": counted, "pattern": pattern}[checks](table, rows)
    with lake.audited("main", made) as audit:
        audit.write(build_rows(lake.spark, rows), table)


def _table() -> str:
    return f"bench.sales{next(_numbers)}"


def _remove(warehouse: Path) -> None:
    # Every run writes a table of its own; together they would fill a small disk.
    shutil.rmtree(warehouse)


def main() -> None:
    chosen = parse(__doc__, 40_000_000)
    with open_lake(chosen.cores) as (lake, warehouse):
        ways = {
            "plain": partial(write_plainly, lake, chosen.rows),
            "counted": partial(write_audited, lake, chosen.rows, "counted"),
            "pattern": partial(write_audited, lake, chosen.rows, "pattern"),
        }
        taken = take_in_turn(ways, chosen.repeats, after=partial(_remove, warehouse))
    for name in ("counted", "pattern"):
        summary = figures(taken[name], taken["plain"])
        emit("spark_checks", checks=name, rows=chosen.rows, **summary)


if __name__ == "__main__":
    main()
