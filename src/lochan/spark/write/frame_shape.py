"""A frame in the shape of a table: columns by name, safe widening, no silent loss.

| the frame | what happens |
|---|---|
| lacks an optional column | it is NULL (not in `merge`, which replaces whole rows) |
| lacks a required column | refused |
| has a column that the table lacks | refused, with words on how to add it |
| has a narrower number, or a narrower decimal of the same scale | widened |
| has any other type | refused |
| has NULL in a required column | counted while it is written, and refused before the commit |

The same holds for the fields of structs, wherever they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from lochan.base.errors import Invalid
from lochan.spark.schemas import nullable, quoted, to_spark

_WIDER: Final[Mapping[type[spark.DataType], tuple[type[spark.DataType], ...]]] = {
    spark.ByteType: (spark.IntegerType, spark.LongType),
    spark.ShortType: (spark.IntegerType, spark.LongType),
    spark.IntegerType: (spark.LongType,),
    spark.FloatType: (spark.DoubleType,),
    spark.CharType: (spark.StringType,),
    spark.VarcharType: (spark.StringType,),
}

_REQUIRED: Final = "which the table requires"
_WHOLE: Final = "rows that match are replaced whole, so add it, as NULL if that is meant"

_NOT_OF_TYPE: Final = ("nullable", "containsNull", "valueContainsNull", "metadata")

_Pair = tuple[str, spark.DataType, spark.DataType]
_Test = Callable[[Column], Column]
_Some = Callable[[_Test], Column]
"""Returns the condition that a test is true for some value at a path of a row."""


def check_shape(table: str, frame: spark.StructType, schema: Schema, *, whole: bool) -> None:
    """Raises Invalid, with all that is wrong, if a frame does not fit a table.

    `whole` refuses frames that lack any column, or any field of a struct.
    """
    target = to_spark(schema, ids=False)
    names = [field.name for field in frame.fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Invalid(f"the frame for {table} has {', '.join(twice)} more than once")
    wrong = [*_missing(frame, schema, whole=whole), *_mismatches(frame, target, whole=whole)]
    if wrong:
        raise Invalid(f"the frame does not fit {table}: {'; '.join(wrong)}")


def _missing(frame: spark.StructType, schema: Schema, *, whole: bool) -> list[str]:
    wrong: list[str] = []
    for field in schema.fields:
        if field.name in frame.names:
            continue
        if field.write_default is not None:
            wrong.append(f"{field.name} is missing, and its default {field.write_default!r} is not")
        elif field.required:
            wrong.append(f"{field.name} is missing, {_REQUIRED}")
        elif whole:
            wrong.append(f"{field.name} is missing; {_WHOLE}")
    return wrong


def _mismatches(frame: spark.StructType, target: spark.StructType, *, whole: bool) -> list[str]:
    wrong: list[str] = []
    todo: list[_Pair] = [("", frame, target)]
    while todo:
        where, have, want = todo.pop()
        match have, want:
            case spark.StructType(), spark.StructType():
                pairs, missing = _fields(where, have, want, whole=whole)
                todo += pairs
                wrong += missing
            case spark.ArrayType(), spark.ArrayType():
                todo.append((f"{where}.element", have.elementType, want.elementType))
            case spark.MapType(), spark.MapType():
                todo.append((f"{where}.key", have.keyType, want.keyType))
                todo.append((f"{where}.value", have.valueType, want.valueType))
            case _ if not _is_safe(have, want):
                wrong.append(
                    f"{where} is {have.simpleString()} and the table has {want.simpleString()}; "
                    "cast it, if that is meant"
                )
    return sorted(wrong)


def _fields(
    where: str, have: spark.StructType, want: spark.StructType, *, whole: bool
) -> tuple[list[_Pair], list[str]]:
    prefix = f"{where}." if where else ""
    pairs: list[_Pair] = []
    wrong: list[str] = []
    there = {field.name: field for field in want.fields}
    for field in have.fields:
        path = prefix + field.name
        if field.name in there:
            pairs.append((path, field.dataType, there[field.name].dataType))
            continue
        alike = [name for name in there if name.lower() == field.name.lower()]
        hint = f"did you mean {alike[0]}? Else drop it" if alike else "drop it"
        wrong.append(
            f"{path} is no column of the table; {hint}, or add the column first, for example "
            f"lake.catalog.at(BRANCH).load_table(TABLE).update_schema().add_column({path!r}, TYPE)"
            ".commit()"
        )
    for field in want.fields if where else ():
        if field.name not in have.names and not field.nullable:
            wrong.append(f"{prefix}{field.name} is missing, {_REQUIRED}")
        elif field.name not in have.names and whole:
            wrong.append(f"{prefix}{field.name} is missing; {_WHOLE}")
    return pairs, wrong


def _is_safe(have: spark.DataType, want: spark.DataType) -> bool:
    if isinstance(have, spark.NullType) or have == want:
        return True
    if isinstance(have, spark.DecimalType) and isinstance(want, spark.DecimalType):
        return have.scale == want.scale and have.precision <= want.precision
    if isinstance(have, spark.StringType) and isinstance(want, spark.StringType):
        # Another collation orders and compares differently, and is stored all the same.
        return True
    return isinstance(want, _WIDER.get(type(have), ()))


def shape(frame: DataFrame, schema: Schema) -> DataFrame:
    """Returns a frame that was checked with the columns of a table, in its order and types."""
    target = nullable(to_spark(schema, ids=False))
    have = {field.name: field.dataType for field in frame.schema.fields}
    columns = [_shaped(have.get(field.name, spark.NullType()), field) for field in target.fields]
    found = [column for column in columns if column is not None]
    if len(found) == len(columns):
        return frame.select(*found)
    # Spark itself fills what is missing with NULL, at any depth, where NULL is allowed. It builds
    # every struct of the frame anew for that, those in lists one by one, which takes its time.
    return frame.to(target)


def _shaped(have: spark.DataType, want: spark.StructField) -> Column | None:
    """Returns a column of a frame as a table has it, None if what is in it must be rearranged."""
    if isinstance(have, spark.NullType):
        return F.lit(None).cast(want.dataType).alias(want.name)
    column = F.col(quoted(want.name))
    if _bare(have) == _bare(want.dataType):
        return column
    if isinstance(have, spark.StructType | spark.ArrayType | spark.MapType):
        return None
    return column.cast(want.dataType).alias(want.name)


def _bare(kind: spark.DataType) -> Any:
    """Returns a type without nullability and metadata, to be compared."""
    return json.loads(
        kind.json(),
        object_hook=lambda node: {key: node[key] for key in node if key not in _NOT_OF_TYPE},
    )


def with_ids(schema: Schema) -> list[Column]:
    """Returns a table's columns with their ids, as the very last thing that is done to a frame.

    Spark forgets ids that are given earlier: where it replaces a column by its constant.
    """
    return [
        F.col(quoted(field.name)).cast(field.dataType).alias(field.name, metadata=field.metadata)
        for field in nullable(to_spark(schema)).fields
    ]


def missing_values(schema: Schema, keys: Sequence[str] = ()) -> dict[str, Column]:
    """Returns counts of rows with NULL in keys or in what is required, by path.

    What is in a struct, list or map that is NULL itself is not missing.
    """
    found: dict[str, Column] = {}
    todo = [_top(field) for field in schema.fields]
    while todo:
        path, kind, required, some = todo.pop()
        if required or path in keys:
            found[path] = F.count(F.when(some(F.isnull), 1))
        match kind:
            case iceberg.StructType():
                todo += [
                    (f"{path}.{each.name}", each.field_type, each.required, _field(some, each.name))
                    for each in kind.fields
                ]
            case iceberg.ListType():
                inside = _item(some, lambda values: values)
                todo.append((f"{path}.element", kind.element_type, kind.element_required, inside))
            case iceberg.MapType():
                # Spark itself has no key that is NULL, but fields of one may be.
                todo.append((f"{path}.key", kind.key_type, False, _item(some, F.map_keys)))
                inside = _item(some, F.map_values)
                todo.append((f"{path}.value", kind.value_type, kind.value_required, inside))
    return found


def _top(field: iceberg.NestedField) -> tuple[str, iceberg.IcebergType, bool, _Some]:
    column = F.col(quoted(field.name))
    return field.name, field.field_type, field.required, lambda test: test(column)


def _field(some: _Some, name: str) -> _Some:
    return lambda test: some(lambda above: above.isNotNull() & test(above.getField(name)))


def _item(some: _Some, values: _Test) -> _Some:
    return lambda test: some(lambda above: F.exists(values(above), test))


def free_name(name: str, taken: Iterable[str]) -> str:
    """Returns a column name that is not taken, whatever the case of letters."""
    known = {each.lower() for each in taken}
    while name in known:
        name += "_"
    return name
