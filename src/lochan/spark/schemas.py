"""Schemas of Iceberg and of Spark, from one to the other, with field ids; paths of fields.

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

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar, cast

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from lochan.base.errors import Invalid
from lochan.spark.trees import fold

Kind = TypeVar("Kind")
Built = TypeVar("Built")

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

_NULLABLE: Final = ("nullable", "containsNull", "valueContainsNull")


def to_spark(schema: Schema, *, stored: bool = False, ids: bool = True) -> spark.StructType:
    """Returns the Spark schema of a table: as users see it, or as its files hold it (`stored`)."""
    whole = iceberg.NestedField(0, "", schema.as_struct())
    return cast("spark.StructType", spark_type(whole, stored=stored, ids=ids))


def nullable(schema: spark.StructType) -> spark.StructType:
    """Returns a schema that allows NULL everywhere; required columns are checked by counting."""

    def optional(node: dict[str, Any]) -> dict[str, Any]:
        return node | {key: True for key in _NULLABLE if key in node}

    return spark.StructType.fromJson(json.loads(schema.json(), object_hook=optional))


def spark_type(
    field: iceberg.NestedField,
    *,
    stored: bool = False,
    ids: bool = True,
    names: Mapping[int, str] | None = None,
) -> spark.DataType:
    """Returns the Spark type of a column; `names` are those that fields inside it get, by id."""
    build = partial(_spark_type, stored=stored, ids=ids, names=names)
    kind: iceberg.IcebergType = field.field_type
    return cast("spark.DataType", _fold(kind, field.name, _inside_iceberg, build))


def _fold(
    kind: Kind,
    path: str,
    inside: Callable[[Kind], list[tuple[str, Kind]]],
    build: Callable[[Kind, str, list[Built]], Built],
) -> Built:
    """Builds a value for a type from the values for the types inside of it, innermost first.

    `build` is given a type, its path as dotted names, and the values for what is inside.
    """

    def parts(node: tuple[str, Kind]) -> list[tuple[str, Kind]]:
        prefix = f"{node[0]}." if node[0] else ""
        return [(prefix + name, inner) for name, inner in inside(node[1])]

    return fold((path, kind), parts, lambda node, inner: build(node[1], node[0], inner))


def _inside_iceberg(kind: iceberg.IcebergType) -> list[tuple[str, iceberg.IcebergType]]:
    match kind:
        case iceberg.StructType():
            return [(field.name, field.field_type) for field in kind.fields]
        case iceberg.ListType():
            return [("element", kind.element_type)]
        case iceberg.MapType():
            return [("key", kind.key_type), ("value", kind.value_type)]
    return []


def _spark_type(
    kind: iceberg.IcebergType,
    path: str,
    inner: list[spark.DataType],
    *,
    stored: bool,
    ids: bool,
    names: Mapping[int, str] | None,
) -> spark.DataType:
    """Returns the Spark type of an Iceberg type; Invalid if Spark has none."""
    match kind:
        case iceberg.StructType():
            fields = []
            for field, inside in zip(kind.fields, inner, strict=True):
                number, name = field.field_id, field.name
                if names is not None:
                    # What a file does not have gets a name that no file has.
                    name = names.get(number, f"lochan field {number}")
                metadata = {FIELD_ID: number} if ids else None
                fields.append(spark.StructField(name, inside, not field.required, metadata))
            return spark.StructType(fields)
        case iceberg.ListType():
            return spark.ArrayType(inner[0], not kind.element_required)
        case iceberg.MapType():
            return spark.MapType(inner[0], inner[1], not kind.value_required)
        case iceberg.DecimalType():
            return spark.DecimalType(kind.precision, kind.scale)
        case iceberg.UUIDType():
            return spark.BinaryType() if stored else spark.StringType()
    if type(kind) not in _SIMPLE:
        raise Invalid(
            f"column {path}: Spark has no type for Iceberg's {kind}; "
            "leave the column out (columns=[…]) or read the table with PyIceberg"
        )
    return _SIMPLE[type(kind)]


def to_iceberg(schema: spark.StructType, required: Sequence[str] = ()) -> Schema:
    """Returns the Iceberg schema of a frame, with fresh ids in the order in which Iceberg counts.

    Everything may be null unless it is named in `required`: `id`, `address.zip`, `tags.element`.
    That the rows of this frame are never null does not hold for the rows that will follow.
    """
    numbers = count(1)
    paths: list[str] = []

    def build(
        kind: spark.DataType, path: str, inner: list[iceberg.IcebergType]
    ) -> iceberg.IcebergType:
        paths.append(path)
        return _iceberg_type(kind, inner, path, numbers, required)

    outermost: spark.DataType = schema
    whole = cast("iceberg.StructType", _fold(outermost, "", _inside_spark, build))
    check_required(required, filter(None, paths))
    return assign_fresh_schema_ids(Schema(*whole.fields))


def check_required(required: Sequence[str], names: Iterable[str]) -> None:
    """Raises Invalid for a name that is no column."""
    known = set(names)
    for name in required:
        if name not in known:
            raise Invalid(
                f"required names {name!r}, and there is no such column; fields of structs are "
                "named with dots, elements of lists as tags.element, values of maps as counts.value"
            )


def _inside_spark(kind: spark.DataType) -> list[tuple[str, spark.DataType]]:
    match kind:
        case spark.StructType():
            return [(field.name, field.dataType) for field in kind.fields]
        case spark.ArrayType():
            return [("element", kind.elementType)]
        case spark.MapType():
            return [("key", kind.keyType), ("value", kind.valueType)]
        case _:
            return []


def _iceberg_type(
    kind: spark.DataType,
    inner: list[iceberg.IcebergType],
    where: str,
    numbers: Iterator[int],
    required_paths: Sequence[str],
) -> iceberg.IcebergType:
    """Returns the type that has these types inside; the ids are unique and not yet final."""
    prefix = f"{where}." if where else ""
    match kind:
        case spark.StructType():
            _check_names(kind, where)
            fields = [
                iceberg.NestedField(
                    next(numbers), field.name, each, required=prefix + field.name in required_paths
                )
                for field, each in zip(kind.fields, inner, strict=True)
            ]
            return iceberg.StructType(*fields)
        case spark.ArrayType():
            return iceberg.ListType(next(numbers), inner[0], f"{where}.element" in required_paths)
        case spark.MapType():
            required = f"{where}.value" in required_paths
            return iceberg.MapType(next(numbers), inner[0], next(numbers), inner[1], required)
        case spark.DecimalType():
            return iceberg.DecimalType(kind.precision, kind.scale)
        case _:
            simple = _BACK.get(type(kind))
    if simple is None:
        raise Invalid(
            f"column {where}: Iceberg has no type for Spark's {kind.simpleString()}; "
            "cast or drop the column before writing"
        )
    return simple


def _check_names(kind: spark.StructType, where: str) -> None:
    if not kind.names and not where:
        raise Invalid("the frame has no column; a table has at least one")
    twice = [name for name, number in Counter(kind.names).items() if number > 1]
    if twice:
        inside = f" in {where}" if where else ""
        raise Invalid(f"two columns{inside} are called {twice[0]}; give one of them another name")


def as_users_see(column: Column, kind: iceberg.IcebergType) -> Column:
    """Returns a column of a file as users see it: uuids, at any depth, become texts."""
    return _changed(_fold(kind, "", _inside_iceberg, _change), column)


_Change = Callable[[Column], Column] | None


def _change(kind: iceberg.IcebergType, _path: str, inner: list[_Change]) -> _Change:
    """Returns the change that makes a column readable for users; None if it needs none."""
    if isinstance(kind, iceberg.UUIDType):
        return lambda column: F.regexp_replace(F.lower(F.hex(column)), _UUID_DIGITS, _UUID_DASHED)
    if not any(inner):
        return None
    names = [name for name, _ in _inside_iceberg(kind)]

    def members(column: Column) -> Column:
        parts = zip(names, inner, strict=True)
        return F.struct(
            *(_changed(each, column.getField(name)).alias(name) for name, each in parts)
        )

    if isinstance(kind, iceberg.StructType):
        # One that is NULL stays so.
        return lambda column: F.when(column.isNotNull(), members(column))
    if isinstance(kind, iceberg.ListType):
        return lambda column: F.transform(column, lambda item: _changed(inner[0], item))
    return lambda column: F.map_from_entries(F.transform(F.map_entries(column), members))


def _changed(change: _Change, column: Column) -> Column:
    return column if change is None else change(column)


def has_types(schema: Schema, *kinds: type[iceberg.IcebergType]) -> bool:
    """Returns whether a table has a column, or something in one, of one of some types."""
    return any(isinstance(schema.find_type(number), kinds) for number in schema.field_ids)


def find_defaults(schema: Schema) -> list[str]:
    """Returns the columns with a default for files that lack them."""
    names = schema.column_names
    return [name for name in names if schema.find_field(name).initial_default is not None]


def field_paths(schema: Schema) -> Mapping[int, tuple[str, ...]]:
    """Returns the path of every field that is reached through structs alone, by id."""
    paths: dict[int, tuple[str, ...]] = {}
    waiting: list[tuple[tuple[str, ...], iceberg.NestedField]]
    waiting = [((), field) for field in schema.fields]
    while waiting:
        above, field = waiting.pop()
        path = (*above, field.name)
        paths[field.field_id] = path
        if isinstance(field.field_type, iceberg.StructType):
            waiting.extend((path, inner) for inner in field.field_type.fields)
    return paths


def column_at(path: tuple[str, ...]) -> Column:
    """Returns the column at a path; names may contain dots and quotes."""
    column = F.col(quoted(path[0]))
    for name in path[1:]:
        column = column.getField(name)
    return column


def quoted(name: str) -> str:
    """Returns a name in backticks, which Spark takes literally."""
    return "`" + name.replace("`", "``") + "`"
