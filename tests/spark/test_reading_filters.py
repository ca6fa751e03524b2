"""Filters that once lost rows: by statistics that are cut, rounded, or those of a wrong name."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    UpgradeFormatVersionUpdate,
)

from lochan.spark.read.native import shape_by_ids
from lochan.spark.write.file_rows import _split
from tests.profile import counted
from tests.spark.delete_files import delete_by_vector, paths_of
from tests.spark.row_values import rows

# The stubs know only names of arguments that are never written.
X: Any = expressions
TENTH = struct.unpack("<f", struct.pack("<f", 0.1))[0]


def column(kind: iceberg.IcebergType) -> Schema:
    return Schema(iceberg.NestedField(1, "v", kind, required=False))


def append(table: Table, *values: object) -> None:
    records = [{table.schema().fields[0].name: each} for each in values]
    table.append(pa.Table.from_pylist(records, table.schema().as_arrow()))


def found(lake, where: str) -> list:
    """What a filter finds when it chooses files, and when it chooses rows only."""
    by_plan = [row["v"] for row in rows(lake.read("t.values", where=where))]
    assert by_plan == [row["v"] for row in rows(lake.read("t.values").where(where))]
    return by_plan


@pytest.mark.parametrize("wider", [18, 30])
def test_a_decimal_that_was_widened_is_found_by_values_that_its_files_cannot_have(lake, wider):
    table = lake.catalog.create_table("t.values", column(iceberg.DecimalType(9, 2)))
    append(table, Decimal("1.00"), Decimal("5.25"))
    with table.update_schema() as change:
        change.update_column("v", field_type=iceberg.DecimalType(wider, 2))
    assert found(lake, "v < 22000000") == [Decimal("1.00"), Decimal("5.25")]
    assert found(lake, "v > -22000000") == [Decimal("1.00"), Decimal("5.25")]
    assert found(lake, "v = 5.25") == [Decimal("5.25")]


def test_a_file_of_another_table_with_a_decimal_of_fewer_digits_is_found_by_larger_values(lake):
    one = lake.catalog.create_table("t.one", column(iceberg.DecimalType(9, 2)))
    append(one, Decimal("1.00"), Decimal("5.25"))
    two = lake.catalog.create_table("t.values", column(iceberg.DecimalType(18, 2)))
    two.add_files(paths_of(one))
    append(two, Decimal("7.00"))
    everything = [Decimal("1.00"), Decimal("5.25"), Decimal("7.00")]
    assert found(lake, "v < 22000000") == everything
    assert found(lake, "v > -22000000") == everything
    assert found(lake, "v = 5.25") == [Decimal("5.25")]


def test_a_file_of_another_table_with_names_exchanged_is_found_by_its_ids(lake):
    one, two = (
        Schema(
            iceberg.NestedField(1, first, iceberg.LongType(), required=False),
            iceberg.NestedField(2, second, iceberg.LongType(), required=False),
        )
        for first, second in (("a", "b"), ("b", "a"))
    )
    older = lake.catalog.create_table("t.one", one)
    older.append(pa.table({"a": range(10), "b": range(100, 110)}))
    lake.catalog.create_table("t.numbers", two).add_files(paths_of(older))
    # PyIceberg takes bounds of files by name, so only the frame can be asked.
    assert rows(lake.read("t.numbers").where("b = 3")) == [{"b": 3, "a": 103}]
    assert rows(lake.read("t.numbers").where("a = 103")) == [{"b": 3, "a": 103}]


def test_names_that_were_exchanged_before_their_schemas_were_removed_find_their_columns(lake):
    schema = Schema(
        iceberg.NestedField(1, "a", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "b", iceberg.LongType(), required=False),
    )
    table = lake.catalog.create_table("t.numbers", schema)
    table.append(pa.table({"a": range(10), "b": range(100, 110)}))
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        with table.update_schema() as change:
            change.rename_column(old, new)
    older = [each.schema_id for each in table.metadata.schemas][:-1]
    removal = RemoveSchemasUpdate.model_validate({"schema-ids": older})
    table._do_commit(updates=(removal,), requirements=())
    assert lake.read("t.numbers", where="a = 103").count() == 1
    assert lake.read("t.numbers").where("b = 3").count() == 1


def test_a_schema_that_only_a_snapshot_knows_makes_every_name_doubtful(lake):
    table = lake.catalog.create_table("t.values", column(iceberg.LongType()))
    append(table, 1)
    assert shape_by_ids(table.metadata, table.schema()).sources[0].name == "v"
    used = [each.model_copy(update={"schema_id": 7}) for each in table.metadata.snapshots]
    forgotten = table.metadata.model_copy(update={"snapshots": used})
    assert shape_by_ids(forgotten, table.schema()).sources[0].name != "v"


@pytest.mark.parametrize("by_arrow", [True, False][: counted(1, 2)])
def test_a_float_is_compared_with_a_number_as_spark_does(lake, by_arrow):
    table = lake.catalog.create_table("t.values", column(iceberg.FloatType()))
    append(table, 0.1)
    append(table, 0.5, None)
    if by_arrow:
        delete_by_vector(table, "none", [0], is_told=False)
    for where, expected in {
        "v = 0.1": [],
        "v = 0.1f": [TENTH],
        "v in (0.1, 0.5)": [0.5],
        "v <= 0.1": [],
        "v > 0.1": [TENTH, 0.5],
        "v not in (0.1, 0.2)": [TENTH, 0.5],
    }.items():
        assert found(lake, where) == expected, where
    for ours, expected in (
        (X.EqualTo("v", 0.1), []),
        (X.EqualTo("v", TENTH), [TENTH]),
        (X.GreaterThan("v", 0.1), [TENTH, 0.5]),
        (X.LessThanOrEqual("v", 0.1), []),
        (X.In("v", [0.1, 0.5]), [0.5]),
        (X.NotIn("v", [0.1, 0.2]), [TENTH, 0.5]),
    ):
        by_expression = [row["v"] for row in rows(lake.read("t.values", where=ours))]
        assert by_expression == expected, ours


@pytest.mark.parametrize("by_arrow", [False, True])
@pytest.mark.parametrize("kind", [iceberg.FloatType(), iceberg.DoubleType()][: counted(1, 2)])
def test_negative_zero_is_zero(lake, kind, by_arrow):
    table = lake.catalog.create_table("t.values", column(kind))
    append(table, -0.0, -0.0, 7.0, 9.0)
    if by_arrow:
        delete_by_vector(table, paths_of(table)[0], [3])
    many = ", ".join(f"{each}.0" for each in range(20, 40))
    for where in ("v = 0.0", "v >= 0.0 and v < 7.0", "v in (0.0, 1.0)", f"v in (0.0, {many})"):
        assert len(rows(lake.read("t.values", where=where))) == 2, where
    for where in ("v != 0.0 and v < 9.0", "v > 0.0 and v < 9.0", f"v not in (0.0, 9.0, {many})"):
        assert [row["v"] for row in rows(lake.read("t.values", where=where))] == [7.0], where


def with_default(table: Table, kind: str, default: object) -> None:
    """Adds a column with a default, as PyIceberg has no way to."""
    wider = {
        "type": "struct",
        "schema-id": 1,
        "fields": [
            {"id": 1, "name": "v", "type": "long", "required": False},
            {"id": 2, "name": "d", "type": kind, "required": False, "initial-default": default},
        ],
    }
    table._do_commit(
        updates=(
            UpgradeFormatVersionUpdate.model_validate({"format-version": 3}),
            AddSchemaUpdate.model_validate({"schema": wider}),
            SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
        ),
        requirements=(),
    )


@pytest.mark.parametrize(
    ("kind", "default", "value", "matching"),
    [
        ("date", "2024-02-29", dt.date(2024, 2, 29), "d = '2024-02-29'"),
        ("long", 7, 7, "d > 5 and d in (7, 8)"),
        ("string", "x", "x", "d like 'x%'"),
        (
            "timestamp",
            "2024-02-29T01:02:03.000004",
            dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001
            "d > '2024-02-29T00:00:00'",
        ),
    ][:: counted(3, 1)],
)
def test_a_default_is_found_by_a_filter(lake, kind, default, value, matching):
    table = lake.catalog.create_table("t.values", column(iceberg.LongType()))
    append(table, 1, 2)
    with_default(table, kind, default)
    assert [row["d"] for row in rows(lake.read("t.values", where=matching))] == [value] * 2
    assert rows(lake.read("t.values", where=f"{matching} and v = 2")) == [{"v": 2, "d": value}]
    assert rows(lake.read("t.values", where="d is null")) == []


def test_a_merge_leaves_files_that_are_older_than_a_default_to_the_reader_that_knows_it(lake):
    table = lake.catalog.create_table("t.values", column(iceberg.LongType()))
    append(table, 1, 2)
    tasks = list(table.scan().plan_files())
    assert _split(lake, table, tasks) == (tasks, [])
    with_default(table, "long", 7)
    assert _split(lake, table, tasks) == ([], tasks)


@pytest.mark.parametrize("by_arrow", [True, False][: counted(1, 2)])
def test_values_beyond_a_column_choose_as_sql_does(lake, by_arrow):
    schema = Schema(
        iceberg.NestedField(1, "i", iceberg.IntegerType(), required=False),
        iceberg.NestedField(2, "m", iceberg.DecimalType(9, 2), required=False),
    )
    table = lake.catalog.create_table("t.values", schema)
    records = [{"i": 2**31 - 1, "m": 1}, {"i": 5, "m": None}, {"i": None, "m": 2}, {}]
    table.append(pa.Table.from_pylist(records, schema.as_arrow()))
    if by_arrow:
        delete_by_vector(table, paths_of(table)[0], [3])
    for where in (
        "not i < 3000000000",
        "not i > 3000000000",
        "not i = 3000000000",
        "i in (3000000000, 5)",
        "i not in (3000000000, 5)",
        "i not in (3000000000, 4000000000)",
        "m < 99999999999",
        "m > 99999999999",
        "not m > -99999999999",
        "m in (99999999999, 1)",
    ):
        by_sql = rows(lake.read("t.values").where(where))
        assert rows(lake.read("t.values", where=where)) == by_sql, where


def test_a_filter_on_what_was_narrower_is_not_asked_of_its_files(lake):
    schema = Schema(
        iceberg.NestedField(1, "i", iceberg.IntegerType(), required=False),
        iceberg.NestedField(2, "f", iceberg.FloatType(), required=False),
    )
    table = lake.catalog.create_table("t.values", schema)
    records = [{"i": 2**31 - 1, "f": 0.1}, {"i": 1, "f": 0.5}, {"i": 2}]
    table.append(pa.Table.from_pylist(records, schema.as_arrow()))
    # A vector of who knows which file: PyIceberg reads them all, and deletes nothing.
    delete_by_vector(table, "none", [0], is_told=False)
    table.refresh()
    with table.update_schema() as change:
        change.update_column("i", field_type=iceberg.LongType())
        change.update_column("f", field_type=iceberg.DoubleType())
    for where, expected in {
        "i not in (3000000000, 1)": 2,
        "f > 0.1": 2,
        "f = 0.1": 0,
    }.items():
        assert lake.read("t.values", where=where).count() == expected, where
