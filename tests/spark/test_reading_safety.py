"""What must be an error is one, whatever the session sets; what is NULL stays NULL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DecimalType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)
from pyspark.sql import SparkSession

from lochan.base.errors import Corrupt
from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.footers import find_files_without_ids
from lochan.spark.read.table_reader import plan_read, plan_table, split
from tests.spark.delete_files import delete_by_vector, paths_of
from tests.spark.row_values import rows

NUMBERS = Schema(
    NestedField(1, "n", LongType(), required=False),
    NestedField(2, "s", StringType(), required=False),
)
INNER = StructType(NestedField(20, "p", LongType(), required=False))
NESTED = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "l", ListType(3, INNER, False), required=False),
    NestedField(
        4,
        "m",
        MapType(5, StringType(), 6, StructType(NestedField(21, "q", LongType(), required=False))),
        required=False,
    ),
    NestedField(
        7,
        "deep",
        ListType(
            8,
            StructType(
                NestedField(
                    9,
                    "inner",
                    ListType(10, StructType(NestedField(22, "r", LongType(), required=False))),
                    required=False,
                )
            ),
            False,
        ),
        required=False,
    ),
)
NESTED_TYPES = (
    "id long, l array<struct<p:long>>, m map<string,struct<q:long>>, "
    "deep array<struct<inner:array<struct<r:long>>>>"
)
NESTED_ROWS: list[dict[str, Any]] = [
    {"id": 1, "l": None, "m": None, "deep": None},
    {"id": 2, "l": [], "m": {}, "deep": []},
    {"id": 3, "l": [{"p": 1}, None], "m": {"k": {"q": 1}}, "deep": [{"inner": None}, None]},
    {"id": 4, "l": [{"p": None}], "m": {"k": {"q": None}}, "deep": [{"inner": []}]},
]


@pytest.fixture
def nested(lake) -> Table:
    """Lists and maps that are NULL, in one file; PyIceberg would not even write them so."""
    lake.catalog.create_table("t.nested", NESTED)
    frame = lake.spark.createDataFrame(NESTED_ROWS, NESTED_TYPES)
    lake.write(frame.coalesce(1), "t.nested")
    return lake.catalog.load_table("t.nested")


def numbers(*values: int, text: str = "x") -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64()), "s": [text] * len(values)})


def file_of(path: str) -> Path:
    return Path(path.removeprefix("file://"))


@pytest.fixture
def lenient(lake):
    """A session whose user lets files be skipped."""
    names = [f"spark.sql.files.ignore{each}Files" for each in ("Corrupt", "Missing")]
    for name in names:
        lake.spark.conf.set(name, "true")
    yield lake
    for name in names:
        lake.spark.conf.unset(name)


def test_a_broken_or_missing_file_is_an_error_in_every_session(lenient):
    table = lenient.catalog.create_table("t.numbers", NUMBERS)
    table.append(numbers(1))
    table.append(numbers(2))
    broken = file_of(paths_of(table)[0])
    whole = broken.read_bytes()
    broken.write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(Exception, match=r"(?i)parquet|footer|corrupt"):
        rows(lenient.read("t.numbers"))
    frame = lenient.spark.createDataFrame([(1, "y"), (2, "y")], "n long, s string")
    with pytest.raises(Exception, match=r"(?i)parquet|footer|corrupt"):
        lenient.write(frame, "t.numbers", mode="merge", keys=["n"])
    frame = lenient.read("t.numbers")
    broken.unlink()
    with pytest.raises(Exception, match=r"(?i)not exist|not found"):
        rows(frame)
    broken.write_bytes(whole)


def test_a_table_without_its_current_snapshot_is_corrupt_and_not_empty(lake):
    table = lake.catalog.create_table("t.numbers", NUMBERS)
    table.append(numbers(1))
    metadata = table.metadata.model_copy(update={"snapshots": []})
    broken = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    with pytest.raises(Corrupt, match="lacks its own current snapshot"):
        plan_table(lake, broken)


def by_arrow(lake, name: str, columns: list[str] | None = None):
    plan = plan_read(lake, name, ref="main", columns=columns)
    return arrow_frame(lake, plan.table, plan.schema, plan.condition, plan.tasks)


def test_a_list_or_map_of_structs_that_is_null_is_null_for_both_readers(lake, nested):
    expected = sorted(
        (
            {**row, "m": row["m"] and [list(each) for each in row["m"].items()]}
            for row in NESTED_ROWS
        ),
        key=repr,
    )
    expected[1]["m"] = []
    assert rows(lake.read("t.nested")) == expected
    assert rows(by_arrow(lake, "t.nested")) == expected
    with nested.update_schema() as change:
        change.add_column(("l", "new"), StringType())
        change.rename_column("m.q", "qq")
    assert rows(by_arrow(lake, "t.nested")) == rows(lake.read("t.nested"))


def test_a_merge_keeps_null_where_pyiceberg_reads_the_files(lake, nested):
    (path,) = paths_of(nested)
    whole = rows(lake.read("t.nested"))
    delete_by_vector(nested, path, [1])
    before = rows(lake.read("t.nested"))
    assert before == [row for row in whole if row["id"] != 2]
    frame = lake.spark.createDataFrame(NESTED_ROWS[3:], NESTED_TYPES)
    lake.write(frame, "t.nested", mode="merge", keys=["id"])
    assert rows(lake.read("t.nested")) == before
    assert paths_of(lake.catalog.load_table("t.nested")) != [path]


def test_vectors_are_read_for_their_own_files_only(lake):
    table = lake.catalog.create_table("t.numbers", NUMBERS)
    for number in range(3):
        table.append(numbers(number, number + 10))
    paths = paths_of(table)
    for path in paths[:2]:
        delete_by_vector(table, path, [0])
    delete_by_vector(table, paths[2], [1], is_told=False)
    plan = plan_read(lake, "t.numbers", ref="main")
    counts = {task.file.file_path: len(task.delete_files) for task in plan.tasks}
    assert counts == {paths[0]: 2, paths[1]: 2, paths[2]: 1}
    assert rows(lake.read("t.numbers")) == rows(lake.catalog.load_table("t.numbers").scan())
    assert lake.read("t.numbers", where="n < 100").count() == 3


def test_a_column_that_files_were_partitioned_by_may_be_dropped(lake):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"))
    table = lake.catalog.create_table("t.numbers", NUMBERS, partition_spec=spec)
    table.append(numbers(1, 2))
    with table.update_spec() as change:
        change.remove_field("s")
    with table.update_schema() as change:
        change.delete_column("s")
    assert rows(by_arrow(lake, "t.numbers")) == [{"n": 1}, {"n": 2}]


def test_a_partition_tells_what_a_file_with_ids_lacks(lake):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"))
    table = lake.catalog.create_table("t.numbers", NUMBERS, partition_spec=spec)
    table.append(numbers(1, 2, text="mon"))
    (before,) = table.scan().plan_files()
    whole = file_of(before.file.file_path)
    path = whole.with_name("without.parquet")
    pq.write_table(pq.ParquetFile(whole).read().drop_columns(["s"]), path)
    # As engines do that leave such columns out, and count only what they write.
    without = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record("mon"),
        record_count=2,
        file_size_in_bytes=path.stat().st_size,
        value_counts={1: 2},
    )
    without.spec_id = 0
    with table.transaction() as transaction:
        transaction.delete("n > 0")
        with transaction.update_snapshot().fast_append() as change:
            change.append_data_file(without)
    assert rows(lake.read("t.numbers")) == [{"n": 1, "s": "mon"}, {"n": 2, "s": "mon"}]
    assert lake.read("t.numbers", where="s = 'mon'").count() == 2
    assert lake.read("t.numbers").where("s = 'mon'").count() == 2


def test_files_that_have_what_they_are_partitioned_by_stay_with_spark(lake):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"))
    table = lake.catalog.create_table("t.numbers", NUMBERS, partition_spec=spec)
    table.append(numbers(1, 2))
    lake.write(lake.spark.createDataFrame([(3, "y")], "n long, s string"), "t.numbers")
    plan = plan_read(lake, "t.numbers", ref="main")
    assert split(lake, plan.table.metadata, plan.schema, plan.tasks)[0] == []
    assert len(plan.tasks) == 2


IMPORTED = pa.struct(
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("list", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("extra", pa.string()),
    ]
)


@pytest.fixture
def imported(lake, tmp_path):
    """A file without ids, with required values inside, and with a field that the table has not."""
    inner = StructType(
        NestedField(3, "a", LongType(), required=True),
        NestedField(4, "list", ListType(5, LongType(), element_required=True), required=False),
    )
    schema = Schema(
        NestedField(1, "s", inner, required=False),
        NestedField(2, "l", ListType(6, LongType(), element_required=True), required=False),
    )
    table = lake.catalog.create_table("t.imported", schema)
    kept = pa.struct([IMPORTED.field(0), IMPORTED.field(1)])
    lists = pa.list_(pa.field("element", pa.int64(), nullable=False))
    records = [{"s": {"a": 1, "list": [1, 2]}, "l": [7]}, {"s": None, "l": None}]
    path = tmp_path / "imported.parquet"
    narrow = pa.schema([pa.field("s", kept), pa.field("l", lists)])
    pq.write_table(pa.Table.from_pylist(records, narrow), path)
    table.add_files([f"file://{path}"])
    return table, path, records


def test_imported_files_with_required_values_inside_are_read(lake, imported):
    _, _, records = imported
    assert rows(lake.read("t.imported")) == sorted(records, key=repr)


def test_a_field_inside_an_imported_struct_that_the_table_has_not_is_left_out(lake, imported):
    _, path, records = imported
    wide = [{**row, "s": row["s"] and {**row["s"], "extra": "x"}} for row in records]
    lists = pa.list_(pa.field("element", pa.int64(), nullable=False))
    schema = pa.schema([pa.field("s", IMPORTED), pa.field("l", lists)])
    # Other importers take files with more fields than the table has.
    pq.write_table(pa.Table.from_pylist(wide, schema), path)
    assert rows(lake.read("t.imported")) == sorted(records, key=repr)
    assert rows(by_arrow(lake, "t.imported")) == sorted(records, key=repr)


def test_imported_decimals_of_fewer_digits_are_found_by_a_filter(lake, tmp_path):
    schema = Schema(NestedField(1, "v", DecimalType(18, 2), required=False))
    table = lake.catalog.create_table("t.values", schema)
    path = tmp_path / "imported.parquet"
    whole = pa.table({"v": pa.array(["1.00", "5.25"]).cast(pa.decimal128(18, 2))})
    pq.write_table(whole, path)
    table.add_files([f"file://{path}"])
    narrow = whole.cast(pa.schema([("v", pa.decimal128(9, 2))]))
    pq.write_table(narrow, path, store_decimal_as_integer=True)
    assert lake.read("t.values").where("v < 22000000").count() == 2


class Forgetful(dict):
    """What another thread may do to what is kept: every new entry takes the place of all others."""

    def __setitem__(self, key, value):
        self.clear()
        super().__setitem__(key, value)


def test_footers_that_are_forgotten_meanwhile_are_still_known(lake, imported):
    table, path, _ = imported
    other = path.with_name("other.parquet")
    other.write_bytes(path.read_bytes())
    busy: Any = SimpleNamespace(footers=Forgetful(), files=lake.files, spark=lake.spark)
    first = find_files_without_ids(busy, table, [f"file://{path}"])
    both = find_files_without_ids(busy, table, [f"file://{path}", f"file://{other}"])
    assert set(both) == {f"file://{path}", f"file://{other}"}
    assert first.items() <= both.items()


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A session of a user who needs another value."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def test_columns_are_found_by_id_in_every_session(lake):
    table = lake.catalog.create_table("t.numbers", NUMBERS)
    table.append(numbers(1, 2))
    with table.update_schema() as change:
        change.rename_column("n", "number")
    expected = [{"number": 1}, {"number": 2}]
    with setting(lake.spark, "spark.sql.parquet.fieldId.read.enabled", "false"):
        assert rows(lake.read("t.numbers", columns=["number"])) == expected
    with setting(lake.spark, "spark.sql.parquet.fieldId.read.enabled", "false"):
        assert rows(lake.read("t.numbers", where="number = 2")) == [{"number": 2, "s": "x"}]


def test_a_file_that_lost_its_ids_is_an_error_in_every_session(lake):
    table = lake.catalog.create_table("t.numbers", NUMBERS)
    table.append(numbers(1, 2))
    (path,) = paths_of(table)
    pq.write_table(numbers(1, 2), path.removeprefix("file://"))
    ignoring = setting(lake.spark, "spark.sql.parquet.fieldId.read.ignoreMissing", "true")
    with ignoring, pytest.raises(Exception, match="field Ids"):
        lake.read("t.numbers").collect()


def test_old_times_of_imported_files_are_read_as_they_stand_in_every_session(lake, tmp_path):
    times = pa.schema([pa.field("at", pa.timestamp("us", "UTC"))])
    table = lake.catalog.create_table("t.times", times)
    old = pa.Table.from_pylist([{"at": datetime(1500, 1, 1, tzinfo=UTC)}], times)
    path = tmp_path / "imported.parquet"
    pq.write_table(old, path)
    table.add_files([f"file://{path}"])
    pq.write_table(old, path, use_deprecated_int96_timestamps=True)
    with setting(lake.spark, "spark.sql.parquet.int96RebaseModeInRead", "LEGACY"):
        (row,) = lake.read("t.times").selectExpr("string(at)").collect()
    assert tuple(row) == ("1500-01-01 00:00:00",)


def test_old_days_are_read_as_they_stand_in_every_session(lake):
    """A session may ask for the calendar of before 1582; in files of tables there is none of it."""
    days = pa.schema([pa.field("day", pa.date32()), pa.field("at", pa.timestamp("us"))])
    table = lake.catalog.create_table("t.days", days)
    old = {"day": date(1500, 1, 1), "at": datetime(1500, 1, 1)}  # noqa: DTZ001 - without a zone
    table.append(pa.Table.from_pylist([old], days))
    with setting(lake.spark, "spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"):
        (row,) = lake.read("t.days").selectExpr("string(day)", "string(at)").collect()
    assert tuple(row) == ("1500-01-01", "1500-01-01 00:00:00")
