"""`where` means what it means in Spark, whatever reads the files: rows in memory are compared."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import expressions
from pyiceberg import types as iceberg
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.spark.read.arrow import rows_of
from lochan.spark.read.table_reader import plan_table
from tests.profile import counted

# The stubs know only names of arguments that are never written.
X: Any = expressions
NAN, INF = math.nan, math.inf
INNER = iceberg.StructType(
    iceberg.NestedField(5, "r", iceberg.IntegerType(), required=True),
    iceberg.NestedField(6, "y", iceberg.DoubleType(), required=True),
    iceberg.NestedField(7, "o", iceberg.IntegerType(), required=False),
)
SCHEMA = Schema(
    iceberg.NestedField(1, "id", iceberg.LongType(), required=True),
    iceberg.NestedField(2, "x", iceberg.DoubleType(), required=False),
    iceberg.NestedField(3, "f", iceberg.FloatType(), required=False),
    iceberg.NestedField(4, "s", INNER, required=False),
)
TYPES = "id long, x double, f float, s struct<r: int, y: double, o: int>"
# Files, and in them row groups of two values; statistics do not count NaN.
FILES: list[list[list[float | None]]] = [
    [[1.0, NAN], [1.0, 1.0], [NAN, NAN], [None, None]],
    [[0.0, NAN], [-0.0, -0.0], [-0.0, 0.0], [None, NAN]],
    [[INF, NAN], [-INF, NAN], [5.0, 1.0]],
    [[1.0, None], [-1.0, NAN]],
]
OPERATORS = ("= {}", "!= {}", "< {}", "<= {}", "> {}", ">= {}", "in ({}, 7.0)", "not in ({}, 7.0)")


VALUES = [value for groups in FILES for group in groups for value in group]


def record(number: int, value: float | None) -> dict[str, Any]:
    inner = None if value is None else {"r": number, "y": value, "o": number % 3 or None}
    return {"id": number, "x": value, "f": value, "s": inner}


ROWS = [record(number, value) for number, value in enumerate(VALUES)]


def conditions() -> dict[str, tuple[str | BooleanExpression, str]]:
    """Filters, each with what it is called in Spark."""
    texts = [
        f"{column} {operator.format(value)}"
        for column, value in (("x", "0.0"), ("x", "1.0"), ("s.y", "1.0"))
        for operator in OPERATORS
    ]
    texts += [f"s.r {operator}" for operator in ("= 3", "!= 3", "< 99999999999", "> 99999999999")]
    nulls = [f"{name} is {no}null" for name in ("x", "s.r", "s.y", "s.o") for no in ("", "not ")]
    found: dict[str, tuple[str | BooleanExpression, str]] = {
        text: (text, text) for text in [*texts, *nulls]
    }
    for name in ("x", "f", "s.y"):
        found[f"{name} is nan"] = (X.IsNaN(name), f"isnan({name})")
        found[f"{name} is not nan"] = (X.NotNaN(name), f"not isnan({name})")
        found[f"isnan({name})"] = (f"isnan({name})", f"isnan({name})")
        for sign, kind in {"=": "EqualTo", ">=": "GreaterThanOrEqual", "<": "LessThan"}.items():
            ours = getattr(X, kind)(name, INF)
            found[f"{name} {sign} {INF}"] = (ours, f"{name} {sign} double('{INF}')")
    # The order is fixed, so that a failure is seen again.
    chance = random.Random(20261116)
    pool = [(ours, sql) for ours, sql in found.values() if isinstance(ours, str)]
    for _ in range(12):
        (one, one_sql), (two, two_sql) = chance.sample(pool, 2)
        form = chance.choice(["({}) and ({})", "({}) or ({})", "not (({}) or ({}))"])
        found[form.format(one, two)] = (form.format(one, two), form.format(one_sql, two_sql))
    return found


CONDITIONS = conditions()


@pytest.fixture
def table(lake):
    made = lake.catalog.create_table(
        "t.values", SCHEMA, properties={"write.parquet.row-group-limit": "2"}
    )
    for several in split_by_file():
        made.append(several)
    return made


@pytest.fixture
def imported(lake, tmp_path):
    made = lake.catalog.create_table("t.values", SCHEMA)
    for number, several in enumerate(split_by_file()):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(several, path, row_group_size=2)
        made.add_files([f"file://{path}"])
    return made


def split_by_file() -> Iterator[pa.Table]:
    schema = schema_to_pyarrow(SCHEMA, include_field_ids=False)
    first = 0
    for groups in FILES:
        several = ROWS[first : first + 2 * len(groups)]
        first += len(several)
        yield pa.Table.from_pylist(several, schema)


def chosen_in_memory(spark) -> dict[str, set[int]]:
    """The rows that every condition chooses in memory, by one job."""
    frame = spark.createDataFrame(ROWS, TYPES)
    columns = [
        F.coalesce(F.expr(sql), F.lit(False)).alias(str(number))
        for number, (_, sql) in enumerate(CONDITIONS.values())
    ]
    rows = frame.select("id", *columns).toArrow().to_pylist()
    return {
        name: {row["id"] for row in rows if row[str(number)]}
        for number, name in enumerate(CONDITIONS)
    }


def found(frames: dict[str, DataFrame]) -> dict[str, set[int]]:
    """The rows of several frames, by one job."""
    marked = [frame.select(F.lit(name).alias("name"), "id") for name, frame in frames.items()]
    rows: dict[str, set[int]] = {name: set() for name in frames}
    for row in reduce(DataFrame.unionAll, marked).toArrow().to_pylist():
        rows[row["name"]].add(row["id"])
    return rows


def differing(lake, names: list[str]) -> list[str]:
    """The conditions that choose other rows in files, as a filter of a read or of its frame."""
    expected, whole = chosen_in_memory(lake.spark), lake.read("t.values")
    by_read = {
        name: lake.read("t.values", columns=["id"], where=CONDITIONS[name][0]) for name in names
    }
    by_frame = {f"frame: {name}": whole.where(CONDITIONS[name][1]) for name in names[::2]}
    return [
        name
        for name, chosen in found(by_read | by_frame).items()
        if chosen != expected[name.removeprefix("frame: ")]
    ]


def test_filters_choose_in_files_what_they_choose_in_memory(lake, table):
    assert differing(lake, list(CONDITIONS)[:: counted(2, 1)]) == []


def test_filters_choose_in_imported_files_what_they_choose_in_memory(lake, imported):
    assert differing(lake, list(CONDITIONS)[1 :: counted(6, 3)]) == []


def test_the_reader_in_executors_leaves_out_nothing_that_is_chosen_in_memory(lake, table):
    expected = chosen_in_memory(lake.spark)
    for name, (ours, _) in CONDITIONS.items():
        plan = plan_table(lake, lake.catalog.load_table("t.values"), where=ours)
        passed = {
            row["id"]
            for task in plan.tasks
            for batch in rows_of(
                load_file_io({}, task.file.file_path),
                plan.table.metadata,
                plan.table.schema(),
                plan.condition,
                task,
            )
            for row in batch.to_pylist()
        }
        assert expected[name] <= passed, name
