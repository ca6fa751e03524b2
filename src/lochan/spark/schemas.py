"""Schemas of Iceberg and of Spark, from one to the other, with field ids at every level.

| Iceberg | Spark |
|---|---|
| boolean, int, long, float, double, decimal, date, string, binary, list, map, struct | the same |
| timestamptz, timestamp | timestamp, timestamp_ntz |
| uuid | string of 36 characters; in files 16 bytes |
| fixed | binary |
| time, timestamps of nanoseconds, unknown, geometry, geography | refused: Spark has none |

Spark keeps ids on the fields of structs only: an element of a list, and a key or value of a map,
need none, as there is just one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from lochan.base.errors import Invalid

# The name under which Spark's Parquet reader and writer look for the id of a field.
FIELD_ID: Final = "parquet.field.id"

_SIMPLE: Final[Mapping[type[iceberg.IcebergType], spark.DataType]] = {
    iceberg.BooleanType: spark.BooleanType(),
    iceberg.IntegerType: spark.IntegerType(),
    iceberg.LongType: spark.LongType(),
    iceberg.FloatType: spark.FloatType(),
    iceberg.DoubleType: spark.DoubleType(),
    iceberg.DateType: spark.DateType(),
    iceberg.TimestampType: spark.TimestampNTZType(),
    iceberg.TimestamptzType: spark.TimestampType(),
    iceberg.StringType: spark.StringType(),
    iceberg.BinaryType: spark.BinaryType(),
    iceberg.FixedType: spark.BinaryType(),
}

_BACK: Final[Mapping[type[spark.DataType], iceberg.IcebergType]] = {
    spark.BooleanType: iceberg.BooleanType(),
    spark.ByteType: iceberg.IntegerType(),
    spark.ShortType: iceberg.IntegerType(),
    spark.IntegerType: iceberg.IntegerType(),
    spark.LongType: iceberg.LongType(),
    spark.FloatType: iceberg.FloatType(),
    spark.DoubleType: iceberg.DoubleType(),
    spark.DateType: iceberg.DateType(),
    spark.TimestampNTZType: iceberg.TimestampType(),
    spark.TimestampType: iceberg.TimestamptzType(),
    spark.StringType: iceberg.StringType(),
    spark.CharType: iceberg.StringType(),
    spark.VarcharType: iceberg.StringType(),
    spark.BinaryType: iceberg.BinaryType(),
}

# 16 bytes as their 32 digits, with the four dashes that people expect.
_UUID_DIGITS: Final = "(.{8})(.{4})(.{4})(.{4})(.{12})"
_UUID_DASHED: Final = "$1-$2-$3-$4-$5"


def to_spark(schema: Schema, *, stored: bool = False, ids: bool = True) -> spark.StructType:
    """Returns the Spark schema of a table: as users see it, or as its files hold it (`stored`)."""
    fields = [spark_field(each, each.name, stored=stored, ids=ids) for each in schema.fields]
    return spark.StructType(fields)


def nullable(kind: spark.StructType) -> spark.StructType:
    """Returns a schema in which every column may be null, as one of rows that were read."""
    fields = [
        spark.StructField(each.name, each.dataType, True, each.metadata) for each in kind.fields
    ]
    return spark.StructType(fields)


def spark_field(
    field: iceberg.NestedField, where: str, *, stored: bool = False, ids: bool = True
) -> spark.StructField:
    """Returns the Spark field of a field; `where` is its full name, for errors."""
    kind = spark_type(field.field_type, where, stored=stored, ids=ids)
    metadata = {FIELD_ID: field.field_id} if ids else None
    return spark.StructField(field.name, kind, not field.required, metadata)


def spark_type(
    kind: iceberg.IcebergType, where: str = "", *, stored: bool = False, ids: bool = True
) -> spark.DataType:
    """Returns the Spark type of a type; `where` names the column, for errors."""

    def inside(inner: iceberg.IcebergType, name: str) -> spark.DataType:
        return spark_type(inner, f"{where}.{name}", stored=stored, ids=ids)

    match kind:
        case iceberg.DecimalType():
            return spark.DecimalType(kind.precision, kind.scale)
        case iceberg.UUIDType():
            return spark.BinaryType() if stored else spark.StringType()
        case iceberg.StructType():
            fields = [
                spark_field(each, f"{where}.{each.name}", stored=stored, ids=ids)
                for each in kind.fields
            ]
            return spark.StructType(fields)
        case iceberg.ListType():
            element = inside(kind.element_type, "element")
            return spark.ArrayType(element, not kind.element_required)
        case iceberg.MapType():
            key, value = inside(kind.key_type, "key"), inside(kind.value_type, "value")
            return spark.MapType(key, value, not kind.value_required)
        case _:
            found = _SIMPLE.get(type(kind))
    if found is None:
        raise Invalid(
            f"column {where}: Spark has no type for Iceberg's {kind}; leave the column out "
            "(columns=[…]) or read the table with PyIceberg"
        )
    return found


def to_iceberg(schema: spark.StructType) -> Schema:
    """Returns the Iceberg schema of a frame, with fresh ids in the order in which Iceberg counts.

    Fields that Spark knows never to be null become required.
    """
    rough = iceberg.StructType(*_fields(schema, "", _Numbers()))
    return assign_fresh_schema_ids(Schema(*rough.fields))


class _Numbers:
    """Ids that are unique for the time being."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last += 1
        return self._last


def _fields(
    schema: spark.StructType, where: str, number: Callable[[], int]
) -> list[iceberg.NestedField]:
    prefix = f"{where}." if where else ""
    return [
        iceberg.NestedField(
            number(),
            field.name,
            iceberg_type(field.dataType, prefix + field.name, number),
            required=not field.nullable,
        )
        for field in schema.fields
    ]


def iceberg_type(
    kind: spark.DataType, where: str = "", number: Callable[[], int] | None = None
) -> iceberg.IcebergType:
    """Returns the Iceberg type of a Spark type; `where` names the column for errors."""
    count = number or _Numbers()
    match kind:
        case spark.DecimalType():
            return iceberg.DecimalType(kind.precision, kind.scale)
        case spark.StructType():
            return iceberg.StructType(*_fields(kind, where, count))
        case spark.ArrayType():
            return iceberg.ListType(
                element_id=count(),
                element_type=iceberg_type(kind.elementType, f"{where}.element", count),
                element_required=not kind.containsNull,
            )
        case spark.MapType():
            return iceberg.MapType(
                key_id=count(),
                key_type=iceberg_type(kind.keyType, f"{where}.key", count),
                value_id=count(),
                value_type=iceberg_type(kind.valueType, f"{where}.value", count),
                value_required=not kind.valueContainsNull,
            )
        case _:
            found = _BACK.get(type(kind))
    if found is None:
        raise Invalid(
            f"column {where}: Iceberg has no type for Spark's {kind.simpleString()}; "
            "cast or drop the column before writing"
        )
    return found


def shown(column: Column, kind: iceberg.IcebergType) -> Column:
    """Returns a column of a file as users see it: uuids, at any depth, become texts."""
    if not _holds_uuid(kind):
        return column
    match kind:
        case iceberg.UUIDType():
            return F.regexp_replace(F.lower(F.hex(column)), _UUID_DIGITS, _UUID_DASHED)
        case iceberg.ListType():
            return F.transform(column, _inside(kind.element_type))
        case iceberg.MapType():
            keys, values = _inside(kind.key_type), _inside(kind.value_type)
            entries = F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    keys(entry["key"]).alias("key"), values(entry["value"]).alias("value")
                ),
            )
            return F.map_from_entries(entries)
        case iceberg.StructType():
            fields = [
                shown(column.getField(field.name), field.field_type).alias(field.name)
                for field in kind.fields
            ]
            return F.when(column.isNotNull(), F.struct(*fields))
        case _:
            return column


def _inside(kind: iceberg.IcebergType) -> Callable[[Column], Column]:
    return lambda column: shown(column, kind)


def _holds_uuid(kind: iceberg.IcebergType) -> bool:
    match kind:
        case iceberg.UUIDType():
            return True
        case iceberg.StructType():
            return any(_holds_uuid(field.field_type) for field in kind.fields)
        case iceberg.ListType():
            return _holds_uuid(kind.element_type)
        case iceberg.MapType():
            return _holds_uuid(kind.key_type) or _holds_uuid(kind.value_type)
        case _:
            return False


def find_defaults(schema: Schema) -> list[str]:
    """Returns the columns that read as something else than NULL where a file lacks them."""
    names = schema.column_names
    return [name for name in names if schema.find_field(name).initial_default is not None]
