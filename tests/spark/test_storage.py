"""Files on an object store, without a jar: read by pyarrow in executors."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lochan.base.errors import Invalid
from lochan.spark.lake import Lake
from lochan.spark.storage import (
    find_access,
    native_options,
    native_path,
    shown_path,
)
from tests.spark.row_values import rows

NUMBERS = Schema(
    NestedField(1, "n", LongType(), required=False),
    NestedField(2, "s", StringType(), required=False),
)


@pytest.fixture
def far_lake(spark, server, object_store):
    """A lake whose warehouse is a bucket of its own."""
    bucket = object_store.bucket(f"lake-{uuid4()}")
    with Lake(spark, server, warehouse=f"s3://{bucket}/lake", files=object_store.files) as made:
        yield made


def test_local_files_are_read_by_spark_and_objects_by_pyarrow_where_spark_cannot(lake, far_lake):
    assert find_access(lake, lake.warehouse) == "native"
    assert find_access(lake, "/plain/path") == "native"
    assert find_access(far_lake, far_lake.warehouse) == "arrow"
    assert list(far_lake.reached.values()) == ["arrow"]


def test_a_table_in_a_bucket_is_read_with_filters_columns_and_changed_names(far_lake):
    table = far_lake.catalog.create_table("t.numbers", NUMBERS)
    for start in (0, 10, 20):
        numbers = range(start, start + 10)
        table.append(pa.table({"n": numbers, "s": [str(n) for n in numbers]}))
    with table.update_schema() as change:
        change.rename_column("s", "text")
    with table.update_schema() as change:
        change.add_column("s", LongType())
    assert rows(far_lake.read("t.numbers")) == rows(table.scan())
    chosen = far_lake.read("t.numbers", columns=["text"], where="n >= 8 and n < 12")
    assert rows(chosen) == [{"text": "10"}, {"text": "11"}, {"text": "8"}, {"text": "9"}]
    assert far_lake.read("t.numbers", where="s is null").count() == 30


def test_imported_objects_are_read_by_name(far_lake, object_store):
    import pyarrow.parquet as pq

    table = far_lake.catalog.create_table("t.numbers", NUMBERS)
    path = f"{far_lake.warehouse.removeprefix('s3://')}/imported.parquet"
    filesystem = object_store.filesystem()
    pq.write_table(pa.table({"n": [1, 2], "s": ["a", "b"]}), path, filesystem=filesystem)
    table.add_files([f"s3://{path}"])
    assert rows(far_lake.read("t.numbers")) == rows(table.scan())


def test_spark_is_told_of_an_object_store_in_its_own_words(far_lake):
    assert native_path("s3://bucket/a b") == "s3a://bucket/a b"
    assert native_path("file:///a") == "file:///a"
    options = native_options(far_lake, "s3://bucket/a")
    assert options["fs.s3a.endpoint"] == far_lake.files["s3.endpoint"]
    assert options["fs.s3a.secret.key"] == far_lake.files["s3.secret-access-key"]
    assert options["fs.s3a.path.style.access"] == "true"
    assert options["fs.s3a.connection.ssl.enabled"] == "false"
    assert native_options(far_lake, "file:///a") == {}


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/a/b.parquet", "file:/a/b.parquet"),
        ("file:/a/b.parquet", "file:/a/b.parquet"),
        ("file:///a b/50%.parquet", "file:/a%20b/50%25.parquet"),
        ("file:///größe/[1].parquet", "file:/größe/%5B1%5D.parquet"),
        ("s3://bucket/a b.parquet", "s3a://bucket/a%20b.parquet"),
    ],
)
def test_paths_are_known_as_spark_shows_them(location, shown):
    assert shown_path(location) == shown


def test_a_lake_needs_a_warehouse(spark, server):
    with pytest.raises(Invalid, match="needs a warehouse"):
        Lake(spark, server, warehouse="")
