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

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, cast

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema, SchemaVisitor, assign_fresh_schema_ids, visit
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

_NULLABLE: Final = ("nullable", "containsNull", "valueContainsNull")


def to_spark(schema: Schema, *, stored: bool = False, ids: bool = True) -> spark.StructType:
    """Returns the Spark schema of a table: as users see it, or as its files hold it (`stored`)."""
    return cast("spark.StructType", visit(schema, _ToSpark(stored=stored, ids=ids)))


def nullable(schema: spark.StructType) -> spark.StructType:
    """Returns a schema that allows NULL everywhere: what is required is counted, not believed."""
    return spark.StructType.fromJson(json.loads(schema.json(), object_hook=_optional))


def _optional(node: dict[str, Any]) -> dict[str, Any]:
    return node | {key: True for key in _NULLABLE if key in node}


def spark_type(
    field: iceberg.NestedField,
    *,
    stored: bool = False,
    ids: bool = True,
    names: Mapping[int, str] | None = None,
) -> spark.DataType:
    """Returns the Spark type of a column; `names` are those that fields inside it get, by id."""
    return visit(field.field_type, _ToSpark((field.name,), stored=stored, ids=ids, names=names))


class _ToSpark(SchemaVisitor[spark.DataType]):
    """Makes Spark types of Iceberg types, from the innermost outwards."""

    def __init__(
        self,
        where: Sequence[str] = (),
        *,
        stored: bool,
        ids: bool,
        names: Mapping[int, str] | None = None,
    ) -> None:
        self._where = list(where)
        self._stored = stored
        self._ids = ids
        self._names = names

    def before_field(self, field: iceberg.NestedField) -> None:
        """Goes down, so that an error can tell where it is."""
        self._where.append(field.name)

    def after_field(self, field: iceberg.NestedField) -> None:  # noqa: ARG002
        """Comes up again."""
        self._where.pop()

    def schema(
        self,
        schema: Schema,  # noqa: ARG002
        struct_result: spark.DataType,
    ) -> spark.DataType:
        """Returns the type of a table."""
        return struct_result

    def struct(
        self,
        struct: iceberg.StructType,  # noqa: ARG002
        field_results: list[spark.DataType],
    ) -> spark.DataType:
        """Returns the type of a struct."""
        return spark.StructType(cast("list[spark.StructField]", field_results))

    def field(self, field: iceberg.NestedField, field_result: spark.DataType) -> spark.DataType:
        """Returns a field; what a file does not have gets a name that no file has."""
        name = field.name
        if self._names is not None:
            name = self._names.get(field.field_id, f"lochan field {field.field_id}")
        metadata = {FIELD_ID: field.field_id} if self._ids else None
        return spark.StructField(name, field_result, not field.required, metadata)

    def list(self, list_type: iceberg.ListType, element_result: spark.DataType) -> spark.DataType:
        """Returns the type of a list."""
        return spark.ArrayType(element_result, not list_type.element_required)

    def map(
        self,
        map_type: iceberg.MapType,
        key_result: spark.DataType,
        value_result: spark.DataType,
    ) -> spark.DataType:
        """Returns the type of a map."""
        return spark.MapType(key_result, value_result, not map_type.value_required)

    def primitive(self, primitive: iceberg.PrimitiveType) -> spark.DataType:
        """Returns the type of a value; Invalid if Spark has none."""
        if isinstance(primitive, iceberg.DecimalType):
            return spark.DecimalType(primitive.precision, primitive.scale)
        if isinstance(primitive, iceberg.UUIDType):
            return spark.BinaryType() if self._stored else spark.StringType()
        found = _SIMPLE.get(type(primitive))
        if found is None:
            raise Invalid(
                f"column {'.'.join(self._where)}: Spark has no type for Iceberg's {primitive}; "
                "leave the column out (columns=[…]) or read the table with PyIceberg"
            )
        return found


_Path = tuple[int, ...]


def to_iceberg(schema: spark.StructType, required: Sequence[str] = ()) -> Schema:
    """Returns the Iceberg schema of a frame, with fresh ids in the order in which Iceberg counts.

    Everything may be null unless it is named in `required`: `id`, `address.zip`, `tags.element`.
    What Spark knows never to be null says nothing of the rows that will follow.
    """
    # From the outermost inwards, then built in the opposite order: what is inside is there first.
    found: list[tuple[_Path, str, spark.DataType]] = []
    waiting: list[tuple[_Path, str, spark.DataType]] = [((), "", schema)]
    while waiting:
        path, where, kind = waiting.pop()
        found.append((path, where, kind))
        prefix = f"{where}." if where else ""
        waiting += [
            ((*path, number), prefix + name, inner)
            for number, (name, inner) in enumerate(_inside(kind))
        ]
    numbers = count(1)
    made: dict[_Path, iceberg.IcebergType] = {}
    for path, where, kind in reversed(found):
        inner = [made[*path, number] for number in range(len(_inside(kind)))]
        made[path] = _iceberg_type(kind, inner, where, numbers, required)
    whole = cast("iceberg.StructType", made[()])
    check_required(required, [where for _, where, _ in found if where])
    return assign_fresh_schema_ids(Schema(*whole.fields))


def check_required(required: Sequence[str], names: Iterable[str]) -> None:
    """Refuses names of columns that there are not."""
    known = set(names)
    for name in required:
        if name not in known:
            raise Invalid(
                f"required names {name!r}, and there is no such column; fields of structs are "
                "named with dots, elements of lists as tags.element, values of maps as counts.value"
            )


def _inside(kind: spark.DataType) -> list[tuple[str, spark.DataType]]:
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
    wanted: Sequence[str],
) -> iceberg.IcebergType:
    """Returns the type of what has these types inside; ids are only told apart for now."""
    prefix = f"{where}." if where else ""
    match kind:
        case spark.StructType():
            _check_names(kind, where)
            fields = [
                iceberg.NestedField(
                    next(numbers), field.name, each, required=prefix + field.name in wanted
                )
                for field, each in zip(kind.fields, inner, strict=True)
            ]
            return iceberg.StructType(*fields)
        case spark.ArrayType():
            return iceberg.ListType(next(numbers), inner[0], f"{where}.element" in wanted)
        case spark.MapType():
            required = f"{where}.value" in wanted
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


def shown(column: Column, kind: iceberg.IcebergType) -> Column:
    """Returns a column of a file as users see it: uuids, at any depth, become texts."""
    change = visit(kind, _Shown())
    return column if change is None else change(column)


_Change = Callable[[Column], Column] | None


class _Shown(SchemaVisitor[_Change]):
    """Finds what must be done to a column; None where it is shown as it is."""

    def schema(self, schema: Schema, struct_result: _Change) -> _Change:  # noqa: ARG002
        """Returns what a table needs."""
        return struct_result

    def struct(self, struct: iceberg.StructType, field_results: list[_Change]) -> _Change:
        """Returns what a struct needs; one that is null stays so."""
        if not any(field_results):
            return None
        changes = dict(zip((field.name for field in struct.fields), field_results, strict=True))

        def change(column: Column) -> Column:
            fields = [
                _changed(each, column.getField(name)).alias(name) for name, each in changes.items()
            ]
            return F.when(column.isNotNull(), F.struct(*fields))

        return change

    def field(self, field: iceberg.NestedField, field_result: _Change) -> _Change:  # noqa: ARG002
        """Returns what a field needs."""
        return field_result

    def list(self, list_type: iceberg.ListType, element_result: _Change) -> _Change:  # noqa: ARG002
        """Returns what a list needs."""
        change = element_result
        return None if change is None else (lambda column: F.transform(column, change))

    def map(
        self,
        map_type: iceberg.MapType,  # noqa: ARG002
        key_result: _Change,
        value_result: _Change,
    ) -> _Change:
        """Returns what a map needs."""
        if key_result is None and value_result is None:
            return None

        def entry(pair: Column) -> Column:
            key = _changed(key_result, pair["key"]).alias("key")
            return F.struct(key, _changed(value_result, pair["value"]).alias("value"))

        return lambda column: F.map_from_entries(F.transform(F.map_entries(column), entry))

    def primitive(self, primitive: iceberg.PrimitiveType) -> _Change:
        """Returns what a value needs: a uuid its digits and dashes."""
        if not isinstance(primitive, iceberg.UUIDType):
            return None
        return lambda column: F.regexp_replace(F.lower(F.hex(column)), _UUID_DIGITS, _UUID_DASHED)


def _changed(change: _Change, column: Column) -> Column:
    return column if change is None else change(column)


def find_defaults(schema: Schema) -> list[str]:
    """Returns the columns that read as something else than NULL where a file lacks them."""
    names = schema.column_names
    return [name for name in names if schema.find_field(name).initial_default is not None]
