"""A frame in the shape of a table: columns by name, safe widening, nothing lost without a word.

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

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from lochan.base.errors import Invalid
from lochan.spark.read.conditions import quoted
from lochan.spark.schemas import nullable, to_spark

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

_Pair = tuple[str, spark.DataType, spark.DataType]


def check_shape(table: str, frame: spark.StructType, schema: Schema, *, whole: bool) -> None:
    """Raises Invalid, with all that is wrong, if a frame does not fit a table.

    `whole` refuses frames that lack any column, or any field of a struct.
    """
    wanted = to_spark(schema, ids=False)
    names = [field.name for field in frame.fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Invalid(f"the frame for {table} has {', '.join(twice)} more than once")
    wrong = [*_missing(frame, schema, whole=whole), *_mismatches(frame, wanted, whole=whole)]
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


def _mismatches(frame: spark.StructType, wanted: spark.StructType, *, whole: bool) -> list[str]:
    wrong: list[str] = []
    todo: list[_Pair] = [("", frame, wanted)]
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
    # Spark itself fills what is missing with NULL, at any depth, where NULL is allowed.
    return frame.to(nullable(to_spark(schema, ids=False)))


def with_ids(schema: Schema) -> list[Column]:
    """Returns a table's columns with their ids, as the very last thing that is done to a frame.

    Spark forgets ids that are given earlier: where it replaces a column by its constant.
    """
    return [
        F.col(quoted(field.name)).cast(field.dataType).alias(field.name, metadata=field.metadata)
        for field in nullable(to_spark(schema)).fields
    ]


def missing_values(schema: Schema, keys: Sequence[str] = ()) -> dict[str, Column]:
    """Returns counts of NULL in keys and required fields, by path, for those outside of lists.

    What is in lists and maps is looked at by the writer, which is then pyarrow.
    """
    found: dict[str, Column] = {}
    above = F.lit(True)
    todo = [(field.name, F.col(quoted(field.name)), above, field) for field in schema.fields]
    while todo:
        path, column, outside, field = todo.pop()
        if field.required or path in keys:
            found[path] = F.count(F.when(outside & column.isNull(), 1))
        if isinstance(field.field_type, iceberg.StructType):
            inside = outside & column.isNotNull()
            todo += [
                (f"{path}.{each.name}", column.getField(each.name), inside, each)
                for each in field.field_type.fields
            ]
    return found


def free_name(name: str, taken: Iterable[str]) -> str:
    """Returns a name for a column that none of the others has, in any case."""
    known = {each.lower() for each in taken}
    while name in known:
        name += "_"
    return name
