"""Every type that Iceberg has: read with its values, filtered by them, or refused in words."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema

from lochan.base.errors import Invalid
from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.table_reader import plan_read
from tests.profile import counted
from tests.spark.delete_files import delete_by_vector, paths_of
from tests.spark.row_values import rows

UTC = dt.UTC
MIXED = Schema(
    iceberg.NestedField(1, "i", iceberg.IntegerType(), required=False),
    iceberg.NestedField(2, "d", iceberg.DecimalType(9, 2), required=False),
    iceberg.NestedField(3, "t", iceberg.TimestamptzType(), required=False),
)
KEY = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")

# A type, a value of it, a smaller one, and the value as a filter writes it.
VALUES = {
    "boolean": (iceberg.BooleanType(), True, False, "true"),
    "int": (iceberg.IntegerType(), 7, -7, "7"),
    "long": (iceberg.LongType(), 2**60, -(2**60), str(2**60)),
    "float": (iceberg.FloatType(), 1.5, -1.5, "1.5"),
    "double": (iceberg.DoubleType(), 1e300, -1e300, None),
    "decimal": (iceberg.DecimalType(38, 10), Decimal("1.5"), Decimal("-1.5"), "1.5000000000"),
    "date": (iceberg.DateType(), dt.date(2024, 2, 29), dt.date(1900, 1, 1), "'2024-02-29'"),
    "timestamp": (
        iceberg.TimestampType(),
        dt.datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC).replace(tzinfo=None),
        dt.datetime(1900, 1, 1, tzinfo=UTC).replace(tzinfo=None),
        "'2024-02-29T12:30:00.123456'",
    ),
    "timestamptz": (
        iceberg.TimestamptzType(),
        dt.datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC),
        dt.datetime(1900, 1, 1, tzinfo=UTC),
        "'2024-02-29T14:30:00.123456+02:00'",
    ),
    "string": (iceberg.StringType(), "größe 'x'", "", "'größe ''x'''"),
    "binary": (iceberg.BinaryType(), b"\x00\xff", b"", None),
    "fixed": (iceberg.FixedType(4), b"abcd", b"\0\0\0\0", None),
    "uuid": (iceberg.UUIDType(), KEY, uuid.UUID(int=1), None),
}


@pytest.mark.parametrize("name", list(VALUES)[:: counted(3, 1)])
def test_a_value_of_every_type_is_read_and_found(lake, name):
    kind, value, smaller, text = VALUES[name]
    schema = Schema(iceberg.NestedField(1, "v", kind, required=False))
    table = lake.catalog.create_table("t.values", schema)
    stored = [
        {"v": each.bytes if isinstance(each, uuid.UUID) else each}
        for each in (value, smaller, None)
    ]
    table.append(pa.Table.from_pylist(stored, schema.as_arrow()))
    oracle = rows(table.scan())
    assert rows(lake.read("t.values")) == oracle
    plan = plan_read(lake, "t.values", ref="main")
    by_arrow = arrow_frame(lake, plan.table, plan.schema, plan.condition, plan.tasks)
    assert rows(by_arrow) == oracle
    # The oracle cannot compare uuids, not even with nothing.
    filters = [] if name == "uuid" else ["v is null", "v is not null"]
    signs = ("=", "!=", "<", ">=", "<=")
    filters += [] if text is None else [f"v {each} {text}" for each in signs]
    for where in filters:
        assert rows(lake.read("t.values", where=where)) == rows(table.scan(row_filter=where)), where


@pytest.mark.parametrize("by_arrow", [False, True])
def test_uuids_are_found_though_pyarrow_cannot_compare_them(lake, by_arrow):
    schema = Schema(iceberg.NestedField(1, "v", iceberg.UUIDType(), required=False))
    table = lake.catalog.create_table("t.keys", schema)
    table.append(
        pa.Table.from_pylist([{"v": KEY.bytes}, {"v": uuid.UUID(int=1).bytes}], schema.as_arrow())
    )
    if by_arrow:
        delete_by_vector(table, paths_of(table)[0], [1])
    assert rows(lake.read("t.keys", where=f"v = '{KEY}'")) == [{"v": str(KEY)}]
    assert rows(lake.read("t.keys", where=f"v > '{uuid.UUID(int=1)}'")) == [{"v": str(KEY)}]


def test_uuids_inside_structs_lists_and_maps_are_texts(lake):
    key = iceberg.UUIDType()
    schema = Schema(
        iceberg.NestedField(
            1,
            "s",
            iceberg.StructType(iceberg.NestedField(2, "u", key, required=False)),
            required=False,
        ),
        iceberg.NestedField(3, "l", iceberg.ListType(4, key, False), required=False),
        iceberg.NestedField(5, "m", iceberg.MapType(6, key, 7, key, False), required=False),
    )
    table = lake.catalog.create_table("t.keys", schema)

    def keys(*values: bytes | None) -> pa.Array:
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))

    raw = KEY.bytes
    nothing = pa.array([False, True, False])
    structs = pa.StructArray.from_arrays([keys(raw, raw, None)], names=["u"], mask=nothing)
    lists = pa.ListArray.from_arrays([0, 2, 2, 3], keys(raw, None, None))
    maps = pa.MapArray.from_arrays([0, 1, 1, 2], keys(raw, raw), keys(raw, None))
    table.append(pa.table({"s": structs, "l": lists, "m": maps}))
    assert rows(lake.read("t.keys")) == rows(table.scan())
    assert lake.read("t.keys").where(f"s.u = '{KEY}'").count() == 1


@pytest.mark.parametrize("kind", [iceberg.TimeType()])
def test_a_type_that_spark_has_not_is_refused_until_its_column_is_left_out(lake, kind):
    schema = Schema(
        iceberg.NestedField(1, "n", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "t", kind, required=False),
    )
    table = lake.catalog.create_table("t.times", schema)
    table.append(pa.table({"n": [1], "t": pa.array([dt.time(1, 2, 3)], pa.time64("us"))}))
    with pytest.raises(Invalid, match=r"column t: Spark has no type for Iceberg's time"):
        lake.read("t.times")
    assert rows(lake.read("t.times", columns=["n"])) == [{"n": 1}]


def test_nan_is_larger_than_every_number_in_any_file(lake):
    schema = Schema(iceberg.NestedField(1, "v", iceberg.DoubleType(), required=False))
    table = lake.catalog.create_table("t.values", schema)
    table.append(pa.table({"v": [1.0, math.nan, None]}))
    table.append(pa.table({"v": [10.0, math.nan]}))

    def found(where: str) -> list[str]:
        return [str(row["v"]) for row in rows(lake.read("t.values", where=where))]

    assert found("v > 5") == ["10.0", "nan", "nan"]
    assert found("v >= 1") == ["1.0", "10.0", "nan", "nan"]
    assert found("not (v > 5)") == ["1.0"]
    assert found("v < 5") == ["1.0"]
    assert found("isnan(v)") == ["nan", "nan"]
    assert found("not isnan(v)") == ["1.0", "10.0", "None"]


def test_filters_with_null_choose_as_sql_does(lake):
    schema = Schema(
        iceberg.NestedField(1, "v", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "s", iceberg.StringType(), required=False),
    )
    table = lake.catalog.create_table("t.values", schema)
    table.append(pa.table({"v": [1, 2, None], "s": ["ab", "b", None]}))
    for where in (
        "v != 1",
        "v not in (1, 3)",
        "not (v = 1 or s = 'b')",
        "s like 'a%'",
        "s not like 'a%'",
        "not (s like 'a%' and v is null)",
    ):
        by_sql = rows(lake.read("t.values").where(where))
        assert rows(lake.read("t.values", where=where)) == by_sql, where


@pytest.mark.parametrize("where", ["i > 1.5", "i in (1.5, 2.0)", "i < 2.5", "d = 1.555"])
def test_a_number_in_an_expression_is_not_rounded_to_its_column(lake, where):
    table = lake.catalog.create_table("t.values", MIXED)
    records = [{"i": 2}, {"i": 1, "d": Decimal("1.55")}, {"i": 3, "d": Decimal("1.56")}]
    table.append(pa.Table.from_pylist(records, MIXED.as_arrow()))
    by_sql = rows(lake.read("t.values").where(where))
    assert rows(lake.read("t.values", where=parse(where))) == by_sql
    assert rows(lake.read("t.values", where=where)) == by_sql


@pytest.mark.parametrize("where", ["t = '2024-01-01'", "i = 'x'", "i = true", "nothing = 1"])
def test_a_value_that_its_column_cannot_be_compared_with_is_refused_in_an_expression(lake, where):
    lake.catalog.create_table("t.values", MIXED)
    with pytest.raises(Invalid, match="does not fit the table"):
        lake.read("t.values", where=parse(where))


def test_a_value_that_is_too_large_for_its_column_leaves_null_out(lake):
    table = lake.catalog.create_table("t.values", MIXED)
    table.append(pa.Table.from_pylist([{"i": 2}, {"d": Decimal(1)}], MIXED.as_arrow()))
    for where in ("i < 99999999999", "i > 99999999999", "i != 99999999999", "d = 1", "d = 1.0"):
        by_sql = rows(lake.read("t.values").where(where))
        assert rows(lake.read("t.values", where=where)) == by_sql, where


def test_required_columns_may_be_read(lake):
    schema = Schema(iceberg.NestedField(1, "v", iceberg.LongType(), required=True))
    table = lake.catalog.create_table("t.values", schema)
    table.append(pa.Table.from_pylist([{"v": 1}], schema.as_arrow()))
    assert rows(lake.read("t.values")) == [{"v": 1}]


def test_the_order_of_time_zones_does_not_move_a_moment(lake):
    table = lake.catalog.create_table(
        "t.values", Schema(iceberg.NestedField(1, "v", iceberg.TimestamptzType(), required=False))
    )
    moment = dt.datetime(2024, 1, 1, tzinfo=UTC)
    table.append(pa.table({"v": pa.array([moment], pa.timestamp("us", "UTC"))}))
    spark = lake.spark
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        where = "v = '2024-01-01T00:00:00+00:00'"
        (row,) = lake.read("t.values", where=where).selectExpr("unix_micros(v) AS m").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert row["m"] == int(moment.timestamp()) * 1_000_000
