"""Schemas, from Iceberg to Spark and back; no session is needed."""

from __future__ import annotations

import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import types as spark

from lochan.base.errors import Invalid
from lochan.spark.schemas import FIELD_ID, find_defaults, nullable, to_iceberg, to_spark

WIDE = Schema(
    iceberg.NestedField(1, "b", iceberg.BooleanType(), required=True),
    iceberg.NestedField(2, "i", iceberg.IntegerType(), required=False),
    iceberg.NestedField(3, "l", iceberg.LongType(), required=False),
    iceberg.NestedField(4, "f", iceberg.FloatType(), required=False),
    iceberg.NestedField(5, "d", iceberg.DoubleType(), required=False),
    iceberg.NestedField(6, "m", iceberg.DecimalType(38, 18), required=False),
    iceberg.NestedField(7, "day", iceberg.DateType(), required=False),
    iceberg.NestedField(8, "ntz", iceberg.TimestampType(), required=False),
    iceberg.NestedField(9, "tz", iceberg.TimestamptzType(), required=False),
    iceberg.NestedField(10, "s", iceberg.StringType(), required=False),
    iceberg.NestedField(11, "raw", iceberg.BinaryType(), required=False),
    iceberg.NestedField(
        12,
        "deep",
        iceberg.StructType(
            iceberg.NestedField(
                15,
                "list",
                iceberg.ListType(
                    17,
                    iceberg.StructType(
                        iceberg.NestedField(18, "x", iceberg.LongType(), required=True)
                    ),
                    element_required=True,
                ),
                required=False,
            ),
            iceberg.NestedField(
                16,
                "map",
                iceberg.MapType(
                    19, iceberg.StringType(), 20, iceberg.DateType(), value_required=False
                ),
                required=True,
            ),
        ),
        required=False,
    ),
)


def test_every_field_of_a_struct_carries_its_id_at_any_depth():
    made = to_spark(WIDE)
    assert [field.metadata[FIELD_ID] for field in made.fields] == list(range(1, 13))
    deep = made["deep"].dataType
    assert isinstance(deep, spark.StructType)
    assert [field.metadata[FIELD_ID] for field in deep.fields] == [15, 16]
    held = deep["list"].dataType
    assert isinstance(held, spark.ArrayType)
    assert isinstance(held.elementType, spark.StructType)
    assert held.elementType["x"].metadata == {FIELD_ID: 18}
    assert not held.containsNull
    bare = to_spark(WIDE, ids=False)
    assert all(field.metadata == {} for field in bare.fields)


def test_required_fields_are_never_null_and_others_may_be():
    made = to_spark(WIDE)
    assert [field.nullable for field in made.fields] == [False] + [True] * 11
    assert all(field.nullable for field in nullable(made).fields)


def test_a_schema_that_goes_to_spark_comes_back_the_same():
    required = [
        name
        for name in WIDE.column_names
        if WIDE.find_field(name).required and not name.endswith(".key")
    ]
    assert len(required) == 4
    back = to_iceberg(to_spark(WIDE), required)
    assert [str(field.field_type) for field in back.fields[:11]] == [
        str(field.field_type) for field in WIDE.fields[:11]
    ]
    assert to_spark(back, ids=False) == to_spark(WIDE, ids=False)


def test_everything_may_be_null_unless_it_is_asked_for():
    """Literals and ids from a range are never null, and the rows that come later may be."""
    inner = spark.StructType([spark.StructField("x", spark.LongType(), False)])
    frame = spark.StructType(
        [
            spark.StructField("id", spark.LongType(), False),
            spark.StructField("s", inner, False),
            spark.StructField("l", spark.ArrayType(inner, False), False),
            spark.StructField("m", spark.MapType(spark.StringType(), inner, False), False),
        ]
    )
    made = to_iceberg(frame)
    keys = {name for name in made.column_names if made.find_field(name).required}
    # Iceberg knows no map with a key that may be NULL.
    assert keys == {"m.key"}
    some = ["id", "s.x", "l.element", "m.value.x"]
    required = to_iceberg(frame, some)
    assert {
        name for name in required.column_names if required.find_field(name).required
    } == keys | {*some}
    for wrong in ("gone", "s.y", "l.x", "", "m.valu"):
        with pytest.raises(Invalid, match="no such column"):
            to_iceberg(frame, [wrong])


def test_fresh_ids_are_counted_level_by_level():
    pair = spark.StructType().add("x", "integer").add("y", "integer")
    made = to_iceberg(spark.StructType().add("s", pair).add("n", "long"))
    assert [field.field_id for field in made.fields] == [1, 2]
    (struct, _) = made.fields
    assert isinstance(struct.field_type, iceberg.StructType)
    assert [field.field_id for field in struct.field_type.fields] == [3, 4]


def test_uuids_are_texts_for_people_and_bytes_in_files():
    schema = Schema(
        iceberg.NestedField(1, "u", iceberg.UUIDType(), required=False),
        iceberg.NestedField(2, "x", iceberg.FixedType(8), required=False),
    )
    assert [str(field.dataType) for field in to_spark(schema).fields] == [
        "StringType()",
        "BinaryType()",
    ]
    stored = to_spark(schema, stored=True)
    assert [str(field.dataType) for field in stored.fields] == ["BinaryType()", "BinaryType()"]


def test_small_integers_and_fixed_texts_fit_into_wider_types():
    kinds = spark.StructType(
        [
            spark.StructField("a", spark.ByteType()),
            spark.StructField("b", spark.ShortType()),
            spark.StructField("c", spark.CharType(3)),
            spark.StructField("d", spark.VarcharType(3)),
        ]
    )
    made = [str(field.field_type) for field in to_iceberg(kinds).fields]
    assert made == ["int", "int", "string", "string"]


@pytest.mark.parametrize(
    "kind",
    [
        iceberg.TimeType(),
        iceberg.TimestampNanoType(),
        iceberg.TimestamptzNanoType(),
        iceberg.UnknownType(),
        iceberg.GeometryType(),
        iceberg.GeographyType(),
    ],
)
def test_types_that_spark_has_not_are_refused_with_the_column(kind):
    inner = iceberg.StructType(iceberg.NestedField(2, "b", kind, required=False))
    schema = Schema(iceberg.NestedField(1, "a", inner, required=False))
    with pytest.raises(Invalid, match=r"column a\.b: Spark has no type"):
        to_spark(schema)


@pytest.mark.parametrize(
    "kind",
    [
        spark.NullType(),
        spark.VariantType(),
        spark.DayTimeIntervalType(),
        spark.ArrayType(spark.NullType()),
    ],
)
def test_types_that_iceberg_has_not_are_refused_with_the_column(kind):
    with pytest.raises(Invalid, match=r"column a(\.element)?: Iceberg has no type"):
        to_iceberg(spark.StructType([spark.StructField("a", kind)]))


def test_frames_without_columns_or_with_two_of_one_name_are_refused():
    twice = spark.StructType().add("b", spark.LongType()).add("b", spark.StringType())
    with pytest.raises(Invalid, match="two columns are called b;"):
        to_iceberg(twice)
    with pytest.raises(Invalid, match="two columns in a are called b;"):
        to_iceberg(spark.StructType().add("a", twice))
    with pytest.raises(Invalid, match="the frame has no column"):
        to_iceberg(spark.StructType())


def test_defaults_are_found_at_any_depth():
    inner = iceberg.NestedField(2, "x", iceberg.LongType(), required=False, initial_default=5)
    schema = Schema(
        iceberg.NestedField(1, "s", iceberg.StructType(inner), required=False),
        iceberg.NestedField(3, "n", iceberg.LongType(), required=False),
    )
    assert find_defaults(schema) == ["s.x"]
    assert find_defaults(WIDE) == []
