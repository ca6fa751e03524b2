"""Filters and merges that once failed or lost rows, at the edges of what partitions can be."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tests.profile import counted
from tests.spark import delete_files


def ids(frame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_a_partition_of_a_double_is_found_and_replaced(lake):
    frame = lake.spark.sql(
        "select id, case id when 0 then 1.1D when 1 then 0.1D when 2 then 1e40D else 5e-324D end d "
        "from range(4)"
    )
    lake.write(frame, "t.doubles", partition_by=["d"])
    for number, value in enumerate(["1.1D", "0.1D", "1e40D", "5e-324D"]):
        assert ids(lake.read("t.doubles", where=f"d = {value}")) == [number]
        assert ids(lake.read("t.doubles").where(f"d = {value}")) == [number]
    lake.write(frame, "t.doubles", mode="overwrite_partitions")
    assert ids(lake.read("t.doubles")) == [0, 1, 2, 3]
    # What is rewritten is what other engines filter by.
    lake.write(frame.where("id = 3"), "t.doubles", mode="merge", keys=["id"])
    lake.write(frame.where("id = 2"), "t.doubles", mode="overwrite_partitions")
    assert ids(lake.read("t.doubles")) == [0, 1, 2, 3]


@pytest.mark.parametrize("by", ["k", "truncate(10, k)", "bucket(4, k)"][: counted(1, 3)])
def test_filters_with_or_and_not_on_a_partition_that_is_null(lake, by):
    frame = lake.spark.sql("select id, if(id % 3 = 0, null, id) k, 'x' s from range(40)")
    lake.write(frame, "t.nulls", partition_by=[by])
    for where in (
        "k < 5 or s = 'y'",
        "not (k >= 5 or s = 'y')",
        "k > 30 or k is null",
        "not k between 5 and 35",
        "k not in (1, 2, 4)",
        "k <=> null or k = 7",
        "not (k is null) and not k > 3",
    ):
        expected = ids(frame.where(where))
        assert ids(lake.read("t.nulls", where=where)) == expected, where
        assert ids(lake.read("t.nulls").where(where)) == expected, where


@pytest.mark.parametrize("by", ["month(d)", "year(d)", "year(t)", "hour(t)"][:: counted(2, 1)])
def test_the_first_and_the_last_day_are_filtered_and_merged(lake, by):
    days = "array(date'0001-01-01', date'9999-12-31', date'1970-01-01', date'9999-12-01')"
    frame = lake.spark.sql(
        f"select cast(id as bigint) id, d, cast(d as timestamp_ntz) t, 0 v "
        f"from (select pos as id, col as d from (select posexplode({days})))"
    )
    lake.write(frame, "t.days", partition_by=[by])
    for where in (
        "d = '9999-12-31'",
        "d > '9999-12-30'",
        "d <= '0001-01-01' or id = 2",
        "t >= '9999-12-31 00:00:00'",
        "not t > '0001-01-01T00:00:00'",
        "d between date'0001-01-01' and date'0001-12-31'",
    ):
        assert ids(lake.read("t.days", where=where)) == ids(frame.where(where)), where
    changed = frame.selectExpr("id", "d", "t", "1 as v")
    lake.write(changed, "t.days", mode="merge", keys=[by[-2]])
    assert [row["v"] for row in lake.read("t.days").collect()] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("bigint", -(2**63), 2**63 - 1), ("int", -(2**31), 2**31 - 1)][: counted(1, 2)],
)
def test_the_smallest_number_is_merged_although_truncation_goes_round(lake, kind, least, most):
    values = [least, least + 1, least + 7, -1, 0, most - 7, most]
    frame = lake.spark.createDataFrame([(each, 0) for each in values], f"k {kind}, v int")
    lake.write(frame, "t.numbers", partition_by=["truncate(5, k)"])
    new = lake.spark.createDataFrame([(each, 1) for each in values], f"k {kind}, v int")
    lake.write(new, "t.numbers", mode="merge", keys=["k"])
    found = sorted((row["k"], row["v"]) for row in lake.read("t.numbers").collect())
    assert found == [(each, 1) for each in values]
    for each in (least, most):
        assert lake.read("t.numbers", where=f"k = {each}").count() == 1
        assert lake.read("t.numbers", where=f"k <= {each} and k >= {each}").count() == 1


def test_deletes_of_a_partition_that_is_nan_are_applied(lake):
    schema = Schema(
        iceberg.NestedField(1, "id", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "d", iceberg.DoubleType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "d"))
    table = lake.catalog.create_table("t.nan", schema, partition_spec=spec)
    lake.write(lake.spark.createDataFrame(pa.table({"id": [1, 2], "d": [math.nan] * 2})), "t.nan")
    table.refresh()
    (path,) = delete_files.paths_of(table)
    place = delete_files._place(table, "deletes.parquet")
    columns = pa.Table.from_pylist([{"file_path": path, "pos": 0}], delete_files._COLUMNS)
    pa.parquet.write_table(columns, place)
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{place}",
        file_format=FileFormat.PARQUET,
        partition=Record(math.nan),
        record_count=1,
        file_size_in_bytes=1,
    )
    delete_files._commit(table, [file])
    assert lake.read("t.nan").count() == 1
    assert lake.read("t.nan", where="isnan(d) or d > 5").count() == 1
