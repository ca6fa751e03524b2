"""Tables on an object store that Spark itself does not reach, and on directories with odd names."""

from __future__ import annotations

import uuid

import pytest

from lochan.spark.lake import Lake
from lochan.spark.storage import find_access
from lochan.spark.write.snapshots import replace_files
from tests.spark.readers import by_frame, by_pyiceberg, by_spark, same_for_all


@pytest.fixture
def stored(spark, server, object_store):
    """A lake on an object store, without any jar."""
    bucket = f"writes-{uuid.uuid4().hex[:8]}"
    object_store.filesystem().create_dir(bucket)
    place = f"s3://{bucket}/lake"
    with Lake(spark, server, warehouse=place, files=object_store.files) as made:
        yield made


def people(lake, *rows: tuple):
    return lake.spark.createDataFrame(rows, "id long, name string, city string, at timestamp")


def test_an_object_store_is_written_by_pyarrow_in_executors(stored, object_store):
    if find_access(stored, stored.warehouse) == "native":
        pytest.skip("this session reaches S3 by itself, so pyarrow has nothing to write")
    frame = stored.spark.range(0, 200, 1, 4).selectExpr(
        "id", "concat('n', id) as name", "if(id % 3 = 0, null, concat('c', id % 3)) as city",
        "timestamp_seconds(id * 40000) as at",
    )  # fmt: skip
    written = stored.write(frame, "t.people", job="s3", partition_by=["city", "bucket(2, id)"])
    assert (written.rows, written.files) == (200, 6)
    assert by_spark(stored, "t.people") == by_pyiceberg(stored, "t.people") == by_frame(frame)
    assert stored.write(frame, "t.people", job="s3").was_done_before

    new = stored.spark.sql(
        "select id, name, city, timestamp_seconds(id) as at"
        " from values (7L, 'N', 'c1'), (900L, 'M', 'c9') as t(id, name, city)"
    )
    stored.write(new, "t.people", mode="merge", keys=["id"])
    stored.write(frame.where("city = 'c2'").limit(1), "t.people", mode="overwrite_partitions")
    rows = {row.id: row.name for row in stored.read("t.people").collect()}
    kept = [number for number in range(200) if number % 3 != 2]
    assert set(kept) | {7, 900} < set(rows)
    assert (rows[7], rows[900]) == ("N", "M")
    files = stored.catalog.load_table("t.people").inspect.files().column("file_path").to_pylist()
    assert all(path.startswith(stored.warehouse) for path in files)


def test_a_job_that_fails_on_an_object_store_leaves_the_branch_as_it_was(stored):
    from pyspark.errors import PySparkException

    stored.write(stored.spark.range(5), "t.n")
    before = stored.client.references.get("main").hash
    bad = stored.spark.range(0, 400, 1, 4).selectExpr(
        "if(id = 399, cast(raise_error('a bad row') as bigint), id) as id"
    )
    with pytest.raises(PySparkException, match="a bad row"):
        stored.write(bad, "t.n")
    assert stored.client.references.get("main").hash == before
    assert len(by_pyiceberg(stored, "t.n")) == 5


def test_directories_may_have_names_that_mean_something_to_spark(spark, server, tmp_path):
    odd = tmp_path / "a b [1]{x}*é%20=1,2"
    with Lake(spark, server, warehouse=str(odd)) as lake:
        frame = people(lake, (1, "a", "x/y", None), (2, "b", "x y%", None))
        lake.write(frame, "odd name.t-1", partition_by=["city"])
        lake.write(people(lake, (2, "B", "z", None)), "odd name.t-1", mode="merge", keys=["id"])
        expected = people(lake, (1, "a", "x/y", None), (2, "B", "z", None))
        assert same_for_all(lake, "odd name.t-1") == by_frame(expected)
        lists = expected.selectExpr("id", "array(id) as numbers", "city")
        lake.write(lists, "odd name.lists", partition_by=["city"])
        assert same_for_all(lake, "odd name.lists") == by_frame(lists)


def test_a_table_may_have_its_data_elsewhere(lake, tmp_path):
    elsewhere = f"file://{tmp_path}/elsewhere/"
    rows = lake.spark.range(3).selectExpr("id", "array(id) as numbers")
    lake.write(rows, "t.n", properties={"write.data.path": elsewhere})
    files = lake.catalog.load_table("t.n").inspect.files().column("file_path").to_pylist()
    assert all(path.startswith(elsewhere) for path in files)
    assert len(same_for_all(lake, "t.n")) == 3


@pytest.mark.parametrize(("settings", "manifests"), [({}, 5), ({"enabled": "false"}, 13)])
def test_small_appends_do_not_leave_a_manifest_each(lake, settings, manifests):
    properties = {"commit.manifest.min-count-to-merge": "5"}
    properties |= {f"commit.manifest-merge.{name}": value for name, value in settings.items()}
    lake.write(lake.spark.range(1), "t.n", properties=properties)
    (file,) = [task.file for task in lake.catalog.load_table("t.n").scan().plan_files()]
    with lake.catalog.many("small appends") as many:
        for _ in range(12):
            replace_files(many.load_table("t.n"), [file], [], {})
    table = lake.catalog.load_table("t.n")
    found = len(table.current_snapshot().manifests(table.io))
    assert found == manifests if settings else found <= manifests
    assert len(list(table.scan().plan_files())) == 13
