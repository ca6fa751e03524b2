"""Lists and maps are written by Spark itself, with ids by which engines find what is inside."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

from lochan.base.errors import Invalid
from lochan.spark.write import files
from lochan.spark.write.files import _checked, _with_element_ids
from lochan.spark.write.parquet_footers import EncryptedError
from lochan.spark.write.statistics import build_layout
from tests.spark.readers import by_duckdb, by_frame, by_pyiceberg, by_spark, same_for_all

ROWS = """
select id, id % 3 as part, array(id, null, id + 1) as l,
  array(named_struct('x', id, 'y', cast(id as string))) as s,
  map(cast(id as string), named_struct('z', id, 'more', array(id))) as m,
  array(array(id), array()) as deep, named_struct('inside', map(id, array(1.5D))) as st
from range(30)
"""


def data_files(lake, table: str) -> list[str]:
    tasks = lake.catalog.load_table(table).scan().plan_files()
    return [task.file.file_path.removeprefix("file://") for task in tasks]


@pytest.fixture
def no_pyarrow(monkeypatch):
    """Makes a write fail that would pass rows through Python."""

    def refuse(*_args):
        raise AssertionError("rows passed through Python")

    monkeypatch.setattr(files, "_by_pyarrow", refuse)


def test_lists_and_maps_are_written_by_spark_in_every_mode(lake, no_pyarrow):
    frame = lake.spark.sql(ROWS)
    lake.write(frame, "t.lists", partition_by=["part", "bucket(2, id)"])
    lake.write(frame.where("id < 10"), "t.lists", mode="merge", keys=["id"])
    lake.write(frame.where("part = 2"), "t.lists", mode="overwrite_partitions")
    assert same_for_all(lake, "t.lists") == by_frame(frame)
    lake.write(frame, "t.lists", mode="overwrite")
    assert same_for_all(lake, "t.lists") == by_frame(frame)
    # Hadoop compares what it reads with the checksums beside it, where there are any.
    plain = lake.spark.read.parquet(*data_files(lake, "t.lists"))
    assert plain.count() == 30
    assert not list(Path(lake.warehouse).rglob(".part-*"))


def test_a_field_in_a_list_or_map_is_found_after_it_was_renamed(lake, no_pyarrow):
    frame = lake.spark.sql(ROWS).select("id", "s", "m")
    lake.write(frame, "t.renamed")
    with lake.catalog.load_table("t.renamed").update_schema() as update:
        update.rename_column("s.element.x", "was_x")
        update.rename_column("m.value.z", "was_z")
        update.rename_column("s", "items")
    with lake.catalog.load_table("t.renamed").update_schema() as update:
        # Another field under an old name: who looks for names would find the wrong values.
        update.add_column(("items", "x"), LongType())
        update.add_column(("m", "value", "z"), LongType())
    want = lake.spark.sql(
        """select id, array(named_struct('was_x', id, 'y', cast(id as string),
             'x', cast(null as long))) as items,
           map(cast(id as string), named_struct('was_z', id, 'more', array(id),
             'z', cast(null as long))) as m from range(30)"""
    )
    assert by_spark(lake, "t.renamed") == by_frame(want)
    assert by_duckdb(lake, "t.renamed") == by_frame(want)
    assert by_pyiceberg(lake, "t.renamed") == by_frame(want)
    lake.write(want, "t.renamed", mode="merge", keys=["id"])
    assert by_spark(lake, "t.renamed") == by_frame(want)


def test_every_node_of_a_file_has_the_id_of_the_table(lake, no_pyarrow):
    lake.write(lake.spark.sql(ROWS).coalesce(1), "t.ids")
    (path,) = data_files(lake, "t.ids")
    table = lake.catalog.load_table("t.ids")
    printed = str(pq.ParquetFile(path).schema)
    for number in table.schema().field_ids:
        assert f"field_id={number} " in printed
    assert table.inspect.files().to_pylist()[0]["file_size_in_bytes"] == Path(path).stat().st_size


def test_a_session_that_writes_the_old_layout_of_lists_gets_the_same_files(lake):
    frame = lake.spark.sql(ROWS)
    lake.spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        lake.write(frame, "t.legacy")
    finally:
        lake.spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    assert same_for_all(lake, "t.legacy") == by_frame(frame)


def test_an_encrypted_file_with_lists_is_refused_in_words(lake, tmp_path, monkeypatch):
    lake.write(lake.spark.sql(ROWS).coalesce(1), "t.secret")
    table = lake.catalog.load_table("t.secret")
    layout = build_layout(table.schema(), table.spec(), {}, {}, str(tmp_path))

    def encrypted(*_args):
        raise EncryptedError("its footer is encrypted")

    monkeypatch.setattr(files, "add_element_ids", encrypted)
    facts = _with_element_ids(layout, f"{tmp_path}/one.parquet")
    assert facts is not None
    with pytest.raises(Invalid, match="footer is encrypted; write lists and maps without"):
        _checked([facts], 0)
