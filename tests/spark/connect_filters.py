"""Filters of a frame through Connect; used by a program that is a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid
from tests.spark.delete_files import paths_of


def filter_frames(lake: Any) -> list[Any]:
    """Returns what is wrong with filters of a frame whose other files were taken away."""
    schema = Schema(
        iceberg.NestedField(1, "n", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "s", iceberg.StringType(), required=False),
    )
    table = lake.catalog.create_table("t.filtered", schema)
    for number in range(4):
        texts = [f"{'abcd'[number]}{each}" for each in range(10)]
        table.append(pa.table({"n": range(number * 10, number * 10 + 10), "s": texts}))
    frame = lake.read("t.filtered")
    found = {
        "text": frame.where("n >= 20 and n < 30"),
        "attribute": frame.where((frame.n >= 20) & (frame.n < 30)),
        "columns": frame.where(F.col("n").between(20, 29) & F.col("s").isNotNull()),
        "prefix": frame.where(F.col("s").startswith("c")),
        "list": frame.filter(F.col("n").isin(list(range(20, 30)))),
        "not": frame.where(~((F.col("n") < 20) | (F.col("n") > 29.5))),
        "twice": frame.select("n").where("n > 19").where("n < 30"),
    }
    wrong: list[Any] = []
    try:
        lake.read("t.filtered", where="n = = 5")
        wrong.append("a text that cannot be read was taken")
    except Invalid as error:
        if "at character 5" not in str(error) or "\n" in str(error):
            wrong.append(str(error))
    for path in paths_of(table):
        held = Path(path.removeprefix("file://"))
        if pq.ParquetFile(held).read(["n"]).column("n")[0].as_py() != 20:
            held.unlink()
    for name, each in found.items():
        numbers = sorted(row["n"] for row in each.select("n").collect())
        if numbers != list(range(20, 30)):
            wrong.append((name, numbers))
    few = found["attribute"]
    if few.select(frame.n).count() != 10 or not isinstance(few, DataFrame):
        wrong.append("a column of the frame before")
    return wrong
