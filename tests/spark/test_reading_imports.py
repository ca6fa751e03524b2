"""Files that were imported rather than written for a table: without field ids, found by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from lochan.spark.read.table_reader import plan_read
from tests.profile import counted
from tests.spark.delete_files import delete_positions, paths_of
from tests.spark.row_values import rows

PLACES = Schema(
    NestedField(1, "n", IntegerType(), required=False),
    NestedField(
        2,
        "at",
        StructType(
            NestedField(3, "x", LongType(), required=False),
            NestedField(4, "y", LongType(), required=False),
        ),
        required=False,
    ),
)


def imported(folder: Path, name: str, numbers: range) -> str:
    """Writes a file as a program without Iceberg does."""
    folder.mkdir(exist_ok=True)
    records = [{"n": n, "at": {"x": n, "y": -n}} for n in numbers]
    kind = pa.schema([("n", pa.int32()), ("at", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
    pq.write_table(pa.Table.from_pylist(records, kind), folder / name)
    return f"file://{folder / name}"


@pytest.fixture
def table(lake, tmp_path):
    made = lake.catalog.create_table("t.places", PLACES)
    made.add_files([imported(tmp_path / "old", "one.parquet", range(5))])
    return made


def test_imported_files_are_read_by_the_name_mapping(lake, table):
    assert rows(lake.read("t.places")) == rows(table.scan())
    assert lake.read("t.places").where("at.x = 3").count() == 1


def test_columns_of_imported_files_may_be_renamed_added_and_widened(lake, table, tmp_path):
    with table.update_schema() as change:
        change.rename_column("n", "number")
        change.update_column("n", field_type=LongType())
        change.rename_column("at.x", "east")
        change.add_column(("at", "z"), LongType())
        change.add_column("note", StringType())
    table.append(
        pa.Table.from_pylist(
            [{"number": 2**40, "at": {"east": 1, "y": 2, "z": 3}, "note": "new"}],
            table.schema().as_arrow(),
        )
    )
    assert rows(lake.read("t.places")) == rows(table.scan())
    for where in ("number = 3", "at.east = 3", "note is null", "at.z is null", "number > 100"):
        assert rows(lake.read("t.places", where=where)) == rows(table.scan(row_filter=where))


def test_a_name_that_the_mapping_gives_to_another_column_is_read_as_that(lake, table):
    with table.update_schema() as change:
        change.delete_column("n")
    with table.update_schema() as change:
        change.add_column("n", IntegerType())
    assert rows(lake.read("t.places")) == rows(table.scan())
    for where in ("n is null", "n = 3"):
        assert rows(lake.read("t.places", where=where)) == rows(table.scan(row_filter=where))


def test_a_column_of_an_imported_file_that_the_table_has_not_is_left_out(lake, table, tmp_path):
    path = Path(imported(tmp_path / "old", "wide.parquet", range(5, 7)).removeprefix("file://"))
    before = pq.ParquetFile(path).read()
    table.add_files([f"file://{path}"])
    # Other importers take files with more columns than the table has.
    pq.write_table(before.append_column("extra", pa.array(["x", "y"])), path)
    assert [row["n"] for row in rows(lake.read("t.places"))] == [0, 1, 2, 3, 4, 5, 6]


def test_footers_are_looked_up_once(lake, table, tmp_path):
    lake.read("t.places")
    assert len(lake.footers) == 1
    lake.read("t.places")
    table.add_files([imported(tmp_path / "old", "two.parquet", range(5, 9))])
    lake.read("t.places")
    assert len(lake.footers) == 2


def test_nothing_is_looked_up_where_all_files_have_ids(lake):
    table = lake.catalog.create_table("t.places", PLACES)
    table.append(
        pa.Table.from_pylist([{"n": 1, "at": {"x": 1, "y": 1}}], table.schema().as_arrow())
    )
    assert lake.read("t.places").count() == 1
    assert lake.footers == {}


def test_a_column_that_is_only_in_the_name_of_a_directory_is_read(lake, tmp_path):
    schema = Schema(
        NestedField(1, "n", LongType(), required=False),
        NestedField(2, "day", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    table = lake.catalog.create_table("t.days", schema, partition_spec=spec)
    table.append(pa.table({"n": [1], "day": ["mon"]}))
    folder = tmp_path / "day=tue"
    folder.mkdir()
    # PyIceberg takes the day from the statistics of the column; then the column is taken away.
    whole = pa.table({"n": pa.array([2, 3]), "day": ["tue", "tue"]})
    pq.write_table(whole, folder / "x.parquet")
    table.add_files([f"file://{folder}/x.parquet"])
    pq.write_table(whole.drop_columns(["day"]), folder / "x.parquet")
    assert rows(lake.read("t.days")) == rows(table.scan())
    assert rows(lake.read("t.days", columns=["n"], where="day = 'tue'")) == [{"n": 2}, {"n": 3}]


def test_deleted_positions_of_imported_files_are_left_out(lake, table):
    (path,) = paths_of(table)
    delete_positions(table, {path: [0, 2]})
    assert [row["n"] for row in rows(lake.read("t.places"))] == [1, 3, 4]


@pytest.mark.parametrize(
    "name", ["_hidden.parquet", ".dotted.parquet", "a:b.parquet", "*.parquet"][:: counted(3, 1)]
)
def test_files_with_names_that_spark_skips_or_expands_are_read(lake, table, tmp_path, name):
    table.add_files([imported(tmp_path / "odd", name, range(5, 8))])
    assert rows(lake.read("t.places")) == rows(table.scan())
    assert lake.read("t.places", where="n >= 5").count() == 3
    assert len(plan_read(lake, "t.places", ref="main").tasks) == 2
