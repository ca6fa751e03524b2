"""`where` of a frame leaves out files, and otherwise a frame is a frame like every other.

That a file is left out is seen by taking it away: Spark fails if it wants to open it.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.spark.read import filtered_frames
from tests.profile import counted
from tests.spark.delete_files import delete_positions, paths_of
from tests.spark.row_values import rows

SCHEMA = Schema(
    iceberg.NestedField(1, "n", iceberg.LongType(), required=False),
    iceberg.NestedField(2, "s", iceberg.StringType(), required=False),
    iceberg.NestedField(3, "d", iceberg.DateType(), required=False),
    iceberg.NestedField(
        4,
        "place",
        iceberg.StructType(iceberg.NestedField(5, "x", iceberg.IntegerType(), required=False)),
        required=False,
    ),
)
FILES = 5


def filled(lake: Any, name: str = "t.numbers", **more: Any) -> Any:
    """A table of five files: 0 to 9, 10 to 19, and so on."""
    table = lake.catalog.create_table(name, SCHEMA, **more)
    for number in range(FILES):
        several = [
            {
                "n": n,
                "s": f"{'abcde'[number]}{n % 10}",
                "d": dt.date(2026, 1, 1 + n // 10),
                "place": {"x": n},
            }
            for n in range(number * 10, number * 10 + 10)
        ]
        table.append(pa.Table.from_pylist(several, SCHEMA.as_arrow()))
    return table


def take_away(table: Any, *kept: int) -> None:
    """Removes all files but those with these numbers."""
    for path in paths_of(table):
        held = Path(path.removeprefix("file://"))
        first = pa.parquet.ParquetFile(held).read(["n"]).column("n")[0].as_py()
        if first // 10 not in kept:
            held.unlink()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("n").collect())


def conditions(frame: DataFrame) -> list[Any]:
    """Conditions that rows 20 to 29 fulfil, or some of them."""
    return [
        "n >= 20 and n < 30",
        "n BETWEEN 20 AND 29 AND n + 1 > 0",
        "s like 'c%'",
        "d = '2026-01-03'",
        F.expr("n = 21"),
        (frame.n >= 20) & (frame["n"] < 30),
        F.col("n").isin(21, 22),
        F.col("n").between(20, 25) & (F.col("s") != "x"),
        (F.col("d") == dt.date(2026, 1, 3)) | (F.col("n") == 25),
        ~((F.col("n") < 20) | (F.col("n") > 29)),
    ]


def test_where_opens_only_files_that_can_have_a_match(lake):
    table = filled(lake)
    frame = lake.read("t.numbers")
    found = [frame.where(each) for each in conditions(frame)]
    found += [frame.filter("n = 22"), frame.select("n", "s").where("n = 22")]
    found += [frame.where("n > 15").where(F.col("n") < 25).where("s = 'c2'")]
    take_away(table, 2)
    with pytest.raises((PySparkException, Py4JError), match="FILE_NOT_EXIST"):
        frame.where("n + 0 = 25").count()
    for each in found:
        assert numbers(each)
        assert set(numbers(each)) <= set(range(20, 30))


def test_where_of_a_frame_that_was_read_with_a_filter_opens_fewer_files(lake):
    table = filled(lake)
    frame = lake.read("t.numbers", where="n < 40").where("n >= 30")
    some = lake.read("t.numbers", columns=["n", "place.x"], where="s > 'a'").where(
        "x = 31 or n = 31"
    )
    some = some.where("n > 30 and n < 40")
    take_away(table, 3)
    assert numbers(frame) == list(range(30, 40))
    assert numbers(some) == [31]


def test_a_frame_that_is_filtered_is_still_the_same_frame(lake):
    filled(lake)
    frame = lake.read("t.numbers")
    assert isinstance(frame, DataFrame)
    few = frame.where(frame.n > 44)
    # Columns that were taken from the frame before belong to it afterwards, too.
    assert numbers(few.select(frame.n)) == [45, 46, 47, 48, 49]
    assert few.join(frame, few.n == frame.n).count() == 5
    assert frame.alias("a").join(few.alias("b"), F.col("a.n") == F.col("b.n")).count() == 5
    assert few.columns == frame.columns == ["n", "s", "d", "place"]
    assert few.schema == frame.schema
    assert few.unionByName(frame.where("n < 2")).count() == 7
    few.createOrReplaceTempView("few_numbers")
    assert lake.spark.sql("select max(n) from few_numbers").first()[0] == 49
    assert lake.spark.sql("select count(*) from {t} where n < 3", t=frame).first()[0] == 3
    assert frame.where("n < 5").groupBy().count().collect()[0][0] == 5
    assert frame.where("n < 5").withColumn("m", F.col("n") * 2).where("m >= 4").count() == 3
    assert frame.where("n < 0").count() == 0
    assert frame.where("n is null or n = 3").drop("s").columns == ["n", "d", "place"]
    assert frame.where("n = 3").cache().unpersist().count() == 1
    assert frame.where("n = 3").rdd.count() == 1


def test_a_name_that_means_something_else_by_now_leaves_out_nothing(lake):
    filled(lake)
    frame = lake.read("t.numbers")
    assert frame.withColumn("n", F.lit(100)).where("n = 100").count() == 50
    assert frame.select(F.col("place.x").alias("n")).where("n = 3").count() == 1
    assert frame.selectExpr("n + 1000 as n").where("n = 1003").count() == 1
    assert frame.toDF("s", "n", "d", "place").where("s = 3").count() == 1
    assert frame.withColumnRenamed("n", "m").withColumn("n", F.lit(1)).where("n = 1").count() == 50


def test_functions_of_the_user_are_not_taken_for_operators(lake):
    filled(lake)
    frame = lake.read("t.numbers")
    for name in ("isNull", "startswith"):

        def always(*_: Any) -> bool:
            return True

        always.__name__ = name
        odd = F.udf(always, "boolean")
        chosen = odd(F.col("s")) if name == "isNull" else odd(F.col("s"), F.lit("zzz"))
        assert frame.where(chosen).count() == 50, name


def test_texts_that_look_like_conditions_are_texts(lake):
    table = lake.catalog.create_table("t.texts", SCHEMA)
    texts = ["a AND n = 5", "it's", "b', 'c", "\\", "x) OR (n = 1", "`n`", "null", "5"]
    for number, each in enumerate(texts):
        row = {"n": number, "s": each, "d": None, "place": None}
        table.append(pa.Table.from_pylist([row], SCHEMA.as_arrow()))
    frame = lake.read("t.texts")
    for number, each in enumerate(texts):
        assert numbers(frame.where(F.col("s") == each)) == [number], each
        assert numbers(frame.where(F.col("s").isin(each, "zz"))) == [number], each
        assert numbers(frame.where((F.col("s") == each) | (F.col("n") == 100))) == [number], each


def test_columns_with_odd_names_are_filtered_as_spark_does(lake):
    names = ["a, 5", "x) OR (y", "null", "true", "a b", "5", "n"]
    schema = Schema(
        *[
            iceberg.NestedField(number + 1, name, iceberg.LongType(), required=False)
            for number, name in enumerate(names)
        ]
    )
    table = lake.catalog.create_table("t.odd", schema)
    for first in range(0, 30, 10):
        several = {name: range(first, first + 10) for name in names}
        table.append(pa.table(several))
    frame = lake.read("t.odd")
    for name in names:
        column = F.col(f"`{name}`")
        assert numbers(frame.where(column == 15)) == [15], name
        assert numbers(frame.where((column < 3) | (column == 29))) == [0, 1, 2, 29], name


@pytest.mark.parametrize(
    "folder", ["a b", "50%25", "größe", "k=v,w;'\"^`|", "plain"][:: counted(3, 1)]
)
def test_files_in_any_directory_are_found_by_a_filter(lake, tmp_path, folder):
    table = filled(lake, location=f"file://{tmp_path}/{folder}")
    frame = lake.read("t.numbers")
    assert numbers(frame.where("n >= 40")) == list(range(40, 50))
    assert numbers(frame.where("n < 40")) == list(range(40))
    assert len(paths_of(table)) == FILES


def test_frames_of_several_scans_are_filtered_without_leaving_out_files(lake):
    table = filled(lake)
    delete_positions(table, {paths_of(table)[0]: [1, 2]})
    frame = lake.read("t.numbers")
    assert frame.count() == 48
    assert frame.where("n >= 0").count() == 48
    assert rows(frame.where("n = 25")) == rows(lake.read("t.numbers", where="n = 25"))


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_more_files_than_a_plan_should_name_are_not_named(lake, monkeypatch, limit):
    monkeypatch.setattr(filtered_frames, "FILTER_FILES_NAMED_MAX", limit)
    filled(lake)
    frame = lake.read("t.numbers")
    for condition, expected in (("n = 25", 1), ("n < 40", 40), ("n < 20", 20), ("n < 0", 0)):
        assert frame.where(condition).count() == expected, condition
