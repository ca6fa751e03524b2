"""Tables whose partitions were removed, and the columns of those too, are written on."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSchemasUpdate
from pyiceberg.types import LongType, NestedField, StringType

from lochan.base.errors import Invalid
from lochan.iceberg import LochanCatalog
from lochan.spark.write.arrow_files import write_task
from lochan.spark.write.snapshots import all_files, replace_files
from lochan.spark.write.statistics import build_data_file, build_layout, read_facts
from lochan.spark.write.transforms import build_spec
from tests.profile import counted
from tests.spark.readers import same_for_all

SCHEMA = Schema(NestedField(1, "region", StringType()), NestedField(2, "n", LongType()))
ALONE = pa.array([1], pa.int64())


@pytest.fixture
def catalog(tmp_path) -> Iterator[LochanCatalog]:
    with LochanCatalog("lake", uri="memory:", warehouse=f"file://{tmp_path}") as opened:
        opened.create_namespace("t")
        yield opened


def put(table: Table, *columns: pa.Array, removed: list[DataFile] | None = None) -> None:
    """Commits a file of one row."""
    snapshots = len(table.metadata.snapshots)
    layout = build_layout(table.schema(), table.spec(), {}, {}, f"{table.location()}/data")
    names = [f"c{number}" for number in range(len(columns) + 1)]
    batch = pa.RecordBatch.from_arrays([*columns, ALONE], names)
    (facts,) = write_task(layout, f"file-{snapshots}", True, [batch])
    assert (facts.problem, facts.refused) == ("", "")
    assert read_facts(layout, facts.path) == facts
    file = build_data_file(facts, table.schema(), table.spec())
    replace_files(table, [file], removed or [], {})


def dropped(catalog: LochanCatalog, version: str, *, by: str = "region") -> Table:
    """Returns a table of two files by a column that it has no more."""
    properties = {"format-version": version}
    table = catalog.create_table(
        "t.a", SCHEMA, partition_spec=build_spec(SCHEMA, [by]), properties=properties
    )
    for region, number in (("x", 1), ("y", 2)):
        put(table, pa.array([region]), pa.array([number]))
    with table.update_spec() as spec:
        spec.remove_field(table.spec().fields[0].name)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("region")
    return catalog.load_table("t.a")


def numbers(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["n"].to_pylist())


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(
    "by", ["region", "truncate(1, region)", "bucket(4, region)"][: counted(1, 3)]
)
def test_a_table_whose_partition_was_dropped_is_written_on(catalog, version, by):
    table = dropped(catalog, version, by=by)
    put(table, pa.array([3]))
    assert numbers(table) == [1, 2, 3]
    (old,) = [file for file in all_files(table) if file.record_count and file.spec_id == 0][:1]
    put(table, pa.array([4]), removed=[old])
    assert len(numbers(table)) == 3
    put(table, pa.array([5]), removed=all_files(table))
    assert numbers(table) == [5]


def test_another_column_may_get_the_name_of_a_partition_that_was_dropped(catalog):
    table = dropped(catalog, "2", by="truncate(1, region)")
    with table.update_schema() as update:
        update.add_column("region", LongType())
    put(table, pa.array([3]), pa.array([7]))
    assert numbers(table) == [1, 2, 3]
    assert table.schema().column_names == ["n", "region"]


def test_files_by_a_column_that_nobody_knows_any_more_stay_as_they_are(catalog):
    table = dropped(catalog, "2")
    with table.transaction() as transaction:
        transaction._apply((RemoveSchemasUpdate.model_validate({"schema-ids": [0]}),))
    table = catalog.load_table("t.a")
    assert len(table.metadata.schemas) == 1
    put(table, pa.array([3]))
    put(table, pa.array([4]))
    assert numbers(table) == [1, 2, 3, 4]
    with pytest.raises(Invalid, match="cannot be replaced: what type its column had"):
        put(table, pa.array([5]), removed=all_files(table))
    assert numbers(table) == [1, 2, 3, 4]


@pytest.mark.parametrize("version", ["2", "1"][: counted(1, 2)])
def test_spark_writes_a_table_whose_partition_was_dropped(lake, version):
    frame = lake.spark.sql("select 'x' as region, 1L as n, 'a' as s")
    table = lake.catalog.create_table(
        "t.spark",
        Schema(*SCHEMA.fields, NestedField(3, "s", StringType())),
        partition_spec=build_spec(SCHEMA, ["region"]),
        properties={"format-version": version},
    )
    lake.write(frame, "t.spark")
    with table.refresh().update_spec() as spec:
        spec.remove_field("region")
        spec.add_identity("s")
    with table.refresh().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("region")
    lake.write(frame.drop("region"), "t.spark")
    assert len(same_for_all(lake, "t.spark")) == 2
    lake.write(frame.drop("region"), "t.spark", mode="merge", keys=["n"])
    assert len(same_for_all(lake, "t.spark")) == 1
