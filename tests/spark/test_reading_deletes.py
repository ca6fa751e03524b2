"""Rows that other engines deleted without rewriting their files."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lochan.base.errors import Invalid
from tests.profile import counted
from tests.spark.delete_files import delete_by_vector, delete_equal, delete_positions, paths_of
from tests.spark.row_values import rows

NUMBERS = Schema(NestedField(1, "n", LongType(), required=False))


@pytest.fixture
def table(lake):
    made = lake.catalog.create_table("t.numbers", NUMBERS)
    made.append(pa.table({"n": range(100)}))
    made.append(pa.table({"n": range(100, 200)}))
    return made


def left(lake, **more) -> list[int]:
    return sorted(row["n"] for row in rows(lake.read("t.numbers", **more)))


def test_positions_that_were_deleted_are_left_out(lake, table):
    first, second = paths_of(table)
    delete_positions(table, {first: [0, 99], second: [5]})
    delete_positions(table, {first: [1]})
    assert left(lake) == sorted(row["n"] for row in rows(table.scan()))
    assert len(left(lake)) == 196


def test_rows_that_were_added_after_a_delete_stay(lake, table):
    first, _ = paths_of(table)
    delete_positions(table, {first: range(100)})
    table.refresh()
    table.append(pa.table({"n": range(200, 300)}))
    assert len(left(lake)) == 200
    assert left(lake) == sorted(row["n"] for row in rows(table.scan()))


def test_a_filter_and_deletes_are_both_applied(lake, table):
    first, second = paths_of(table)
    delete_positions(table, {first: [50], second: [50]})
    found = left(lake, where="n >= 140 and n < 160")
    expected = table.scan(row_filter="n >= 140 and n < 160").to_arrow().column("n").to_pylist()
    assert found == sorted(expected)
    assert len(found) == 19


@pytest.mark.parametrize(
    "folder", ["a b", "50%25", "größe", "a&b", "x[1]{2}", "k=v,w;'\"^`|"][:: counted(5, 1)]
)
def test_files_in_any_directory_lose_the_rows_that_were_deleted(lake, tmp_path, folder):
    location = f"file://{tmp_path}/{folder}"
    table = lake.catalog.create_table("t.numbers", NUMBERS, location=location)
    table.append(pa.table({"n": range(10)}))
    (path,) = paths_of(table)
    delete_positions(table, {path: [3, 4]})
    assert left(lake) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_a_file_whose_name_spark_shows_otherwise_is_an_error_and_not_its_deleted_rows(
    lake, table, monkeypatch
):
    first, _ = paths_of(table)
    delete_positions(table, {first: [0]})
    monkeypatch.setattr("lochan.spark.read.native.shown_path", lambda path: path + "?")
    with pytest.raises(Exception, match="a file with deletes has an unexpected name"):
        left(lake)


def test_deletion_vectors_are_applied(lake, table):
    first, _ = paths_of(table)
    delete_by_vector(table, first, [0, 1, 2, 98])
    assert left(lake) == sorted(row["n"] for row in rows(table.scan()))
    assert len(left(lake)) == 196
    assert left(lake, where="n < 100") == [n for n in left(lake) if n < 100]


def test_equality_deletes_are_refused_in_words(lake, table):
    delete_equal(table, pa.table({"n": [5]}), [1])
    with pytest.raises(Invalid, match=r"t\.numbers has equality deletes"):
        lake.read("t.numbers")


def test_an_older_commit_still_has_what_was_deleted_since(lake, table):
    before = lake.client.references.get("main").hash
    first, _ = paths_of(table)
    delete_positions(table, {first: range(100)})
    assert len(left(lake)) == 100
    assert len(left(lake, ref=before)) == 200
