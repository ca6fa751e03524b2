"""The facts of files in manifests are those that PyIceberg itself reads in their footers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from lochan.base.limits.spark_writes import SPARK_ROW_GROUP_BYTES_MAX
from lochan.spark.write import files
from lochan.spark.write.arrow_files import write_task
from lochan.spark.write.statistics import build_data_file, build_layout, read_facts
from lochan.spark.write.transforms import build_spec
from tests.spark.readers import same_for_all

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType()),
    NestedField(3, "place", StructType(NestedField(4, "x", LongType()))),
)

FIGURES = (
    *("record_count", "column_sizes", "value_counts", "null_value_counts", "nan_value_counts"),
    *("lower_bounds", "upper_bounds", "split_offsets"),
)


def their_statistics(table, path: str) -> dict:
    metadata = pq.ParquetFile(path.removeprefix("file://")).metadata
    return data_file_statistics_from_parquet_metadata(
        parquet_metadata=metadata,
        stats_columns=compute_statistics_plan(table.schema(), table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
    ).to_serialized_dict()


@pytest.mark.parametrize("kind", ["by Spark", "lists by Spark", "by pyarrow"])
def test_manifests_hold_the_statistics_of_the_footers(lake, monkeypatch, kind):
    if kind == "by pyarrow":
        monkeypatch.setattr(files, "_is_for_pyarrow", lambda *_: True)
    frame = lake.spark.range(1_000).selectExpr(
        "id",
        "if(id % 7 = 0, null, concat('a long text that is cut in bounds ', id)) as s",
        "cast(id as float) / 3 as f",
        "if(id % 2 = 0, double('nan'), 1.5D) as n",
        "cast(id as decimal(20, 3)) as m",
        "date_add(date'2020-01-01', cast(id % 5 as int)) as d",
        "timestamp_micros(id * 1000000007) as ts",
        "encode(repeat('x', cast(id % 3 as int)), 'utf-8') as b",
        "named_struct('x', id, 'y', 'q') as st",
        "cast(null as string) as nothing",
        *([] if kind == "by Spark" else ["array(id, null) as l", "map('k', id) as mp"]),
    )
    lake.write(frame.repartition(2), "t.figures", partition_by=["d"])
    table = lake.catalog.load_table("t.figures")
    listed = [task.file for task in table.scan().plan_files()]
    assert len(listed) == 5
    number = table.schema().find_field("n").field_id
    for file in listed:
        theirs = their_statistics(table, file.file_path)
        if kind != "by pyarrow":
            # Spark writes that NaN is the largest, which PyIceberg takes for a bound.
            del theirs["lower_bounds"][number], theirs["upper_bounds"][number]
        assert {name: plain(getattr(file, name)) for name in FIGURES} == {
            name: plain(theirs[name]) for name in FIGURES
        }
        assert file.file_size_in_bytes == len(table.io.new_input(file.file_path))
        codecs = pq.ParquetFile(file.file_path.removeprefix("file://")).metadata.row_group(0)
        assert codecs.column(0).compression == "ZSTD"
    assert len(same_for_all(lake, "t.figures")) == 1_000


def plain(value):
    """Returns what Avro gives as lists and maps of its own in Python's own."""
    return dict(value) if hasattr(value, "items") else value


def test_properties_of_a_table_choose_its_statistics(lake):
    frame = lake.spark.range(10).selectExpr("id", "'abcdefgh' as s", "'x' as quiet")
    properties = {
        "write.metadata.metrics.column.s": "truncate(3)",
        "write.metadata.metrics.column.quiet": "none",
        "write.parquet.compression-codec": "gzip",
    }
    lake.write(frame.coalesce(1), "t.chosen", properties=properties)
    table = lake.catalog.load_table("t.chosen")
    (file,) = [task.file for task in table.scan().plan_files()]
    assert (file.lower_bounds[2], file.upper_bounds[2]) == (b"abc", b"abd")
    assert 3 not in file.value_counts
    footer = pq.ParquetFile(file.file_path.removeprefix("file://")).metadata
    assert footer.row_group(0).column(0).compression == "GZIP"


def written(tmp_path, rows: pa.Table) -> str:
    path = f"{tmp_path}/one.parquet"
    pq.write_table(rows, path)
    return path


def layout_of(tmp_path, spec: PartitionSpec):
    return build_layout(SCHEMA, spec, {}, {}, str(tmp_path))


ROWS = pa.Table.from_pylist(
    [{"id": 1, "region": "eu", "place": {"x": 1}}, {"id": 2, "region": "eu", "place": None}],
    schema_to_pyarrow(SCHEMA),
)


def test_a_file_says_its_partition_itself(tmp_path):
    spec = build_spec(SCHEMA, ["region", "bucket(1, id)", "void(id)"])
    facts = read_facts(layout_of(tmp_path, spec), written(tmp_path, ROWS))
    assert (facts.problem, facts.rows) == ("", 2)
    file = build_data_file(facts, SCHEMA, spec)
    assert [file.partition[at] for at in range(3)] == ["eu", 0, None]


@pytest.mark.parametrize("words", [["id"], ["truncate(2, id)"], ["place.x"], ["bucket(97, id)"]])
def test_a_file_with_rows_of_two_partitions_is_found_out(tmp_path, words):
    spec = build_spec(SCHEMA, words)
    facts = read_facts(layout_of(tmp_path, spec), written(tmp_path, ROWS))
    assert "rows of several partitions" in facts.problem


def test_a_file_without_the_right_ids_is_found_out(tmp_path):
    bare = pa.Table.from_arrays(ROWS.columns, ROWS.schema.names)
    layout = layout_of(tmp_path, PartitionSpec())
    assert "without their ids" in read_facts(layout, written(tmp_path, bare)).problem
    swapped = schema_to_pyarrow(
        Schema(
            NestedField(2, "id", LongType()),
            NestedField(1, "region", StringType()),
            NestedField(3, "place", StructType(NestedField(4, "x", LongType()))),
        )
    )
    other = written(tmp_path, ROWS.cast(swapped))
    assert "which should be" in read_facts(layout, other).problem


def batches(*groups: int, failing: bool = False):
    """Yields rows as a task gets them: columns, and behind them the group."""
    for group in groups:
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([group, group], pa.int64()),
                pa.array(["eu", None]),
                pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
                pa.array([group, group], pa.int64()),
            ],
            ["c0", "c1", "c2", "c3"],
        )
    if failing:
        raise OSError("the store is gone")


def test_a_task_that_fails_leaves_files_that_no_row_tells_of(tmp_path):
    layout = layout_of(tmp_path, build_spec(SCHEMA, ["id"]))
    with pytest.raises(OSError, match="is gone"):
        list(write_task(layout, "00000-1", True, batches(1, 2, failing=True)))
    written = list(write_task(layout, "00000-2", True, batches(1, 2)))
    assert [(facts.rows, facts.problem, facts.refused) for facts in written] == [(2, "", "")] * 2
    assert {Path(facts.path).name for facts in written} == {
        *("00000-2-00000.parquet", "00000-2-00001.parquet")
    }
    assert (tmp_path / "00000-1-00000.parquet").exists()
    assert [read_facts(layout, facts.path) for facts in written] == written


def test_a_task_begins_a_new_file_when_one_is_large(tmp_path):
    layout = msgspec.structs.replace(layout_of(tmp_path, PartitionSpec()), file_bytes=1)
    wide = pa.RecordBatch.from_arrays(
        [
            pa.array(range(SPARK_ROW_GROUP_BYTES_MAX // 8), pa.int64()),
            pa.nulls(SPARK_ROW_GROUP_BYTES_MAX // 8, pa.string()),
            pa.nulls(SPARK_ROW_GROUP_BYTES_MAX // 8, pa.struct([("x", pa.int64())])),
        ],
        ["c0", "c1", "c2"],
    )
    written = list(write_task(layout, "00000-1", False, [wide, wide.slice(0, 10)]))
    assert [facts.rows for facts in written] == [wide.num_rows, 10]


def test_a_row_that_does_not_fit_is_told_and_not_tried_again(tmp_path):
    layout = layout_of(tmp_path, PartitionSpec())
    (batch,) = batches(1)
    bad = batch.set_column(0, "c0", pa.array([None, 1], pa.int64()))
    (written,) = write_task(layout, "00000-1", False, [bad])
    assert written.refused == "id is required and has NULL"
