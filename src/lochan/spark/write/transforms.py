"""Partition transforms: from words to specs, groups of rows on Spark, values of files in executors.

Three things, and the last one decides. `build_spec` reads words such as `day(ts)`. `group_of` is
an expression that is equal for rows of one partition; Spark lays rows out by it, no more.
`values_of` computes a file's partition from the file's own columns by pyiceberg's transforms and
finds out if there is more than one, so that a wrong group could never become a wrong partition.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    parse_transform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    StringType,
    TimestampType,
    TimestamptzType,
    UnknownType,
    UUIDType,
)
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf

from lochan.base.errors import Invalid
from lochan.spark.schemas import field_paths, quoted

_CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*")
_WIDTH: Final = re.compile(r"[1-9][0-9]{0,8}")
_PLAIN: Final = {
    "identity": "identity",
    "year": "year",
    "years": "year",
    "month": "month",
    "months": "month",
    "day": "day",
    "days": "day",
    "hour": "hour",
    "hours": "hour",
    "void": "void",
}
_WITH_WIDTH: Final = ("bucket", "truncate")
_DAY_MICROS: Final = 86_400_000_000
_HOUR_MICROS: Final = 3_600_000_000
_TYPES: Final = TypeAdapter(IcebergType)


def build_spec(schema: Schema, words: Sequence[str]) -> PartitionSpec:
    """Returns the spec of words such as `region`, `day(ts)`, `bucket(16, id)`, `truncate(4, s)`."""
    fields: list[PartitionField] = []
    for number, word in enumerate(words):
        transform, source = _parse(schema, word)
        name = _name_of(transform, source)
        clash = any(field.name == name for field in fields)
        if clash or (name in schema.column_names and not isinstance(transform, IdentityTransform)):
            raise Invalid(f"partition_by {word!r}: the name {name!r} is taken")
        fields.append(
            PartitionField(
                source_id=schema.find_field(source).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=transform,
                name=name,
            )
        )
    return PartitionSpec(*fields)


def _parse(schema: Schema, word: str) -> tuple[Transform[Any, Any], str]:
    match = _CALL.fullmatch(word)
    kind, inside = (match[1].lower(), match[2]) if match else ("identity", word.strip())
    if kind in _PLAIN:
        text, source = _PLAIN[kind], inside
    elif kind in _WITH_WIDTH:
        text, source = _with_width(kind, inside, word)
    else:
        known = ", ".join(["bucket(N, c)", "truncate(W, c)", *(f"{each}(c)" for each in _PLAIN)])
        raise Invalid(f"partition_by {word!r}: there is no {kind}; known are c, {known}")
    try:
        field = schema.find_field(source)
    except ValueError:
        raise Invalid(f"partition_by {word!r}: there is no column {source!r}") from None
    transform = parse_transform(text)
    is_void, is_usable = isinstance(transform, VoidTransform), field.field_type.is_primitive
    if not is_usable or not (is_void or transform.can_transform(field.field_type)):
        raise Invalid(f"partition_by {word!r}: {kind} does not take {field.field_type}")
    path_of(schema, field.field_id)
    return transform, source


def _with_width(kind: str, inside: str, word: str) -> tuple[str, str]:
    """Reads `16, id`, and `id, 16`, which some engines write."""
    first, comma, second = (each.strip() for each in inside.partition(","))
    if _WIDTH.fullmatch(second):
        first, second = second, first
    if not comma or not _WIDTH.fullmatch(first):
        raise Invalid(f"partition_by {word!r}: write {kind}(NUMBER, column)")
    return f"{kind}[{int(first)}]", second


def _name_of(transform: Transform[Any, Any], source: str) -> str:
    if isinstance(transform, IdentityTransform):
        return source
    if isinstance(transform, BucketTransform):
        return f"{source}_bucket_{transform.num_buckets}"
    if isinstance(transform, TruncateTransform):
        return f"{source}_trunc_{transform.width}"
    return f"{source}_{'null' if isinstance(transform, VoidTransform) else transform}"


def path_of(schema: Schema, field_id: int) -> tuple[str, ...]:
    """Returns the names that lead to a field through structs; Invalid if there are none."""
    path = field_paths(schema).get(field_id)
    if path is None:
        raise Invalid(f"field {field_id} is no column, and no field of a struct")
    return path


def paths_of_sources(schema: Schema, spec: PartitionSpec) -> list[tuple[str, ...]]:
    """Returns the paths of the sources of a spec; () for void, whose source may be dropped."""
    return [
        () if isinstance(field.transform, VoidTransform) else path_of(schema, field.source_id)
        for field in spec.fields
    ]


def group_of(schema: Schema, spec: PartitionSpec) -> Column | None:
    """Returns a number that rows of one partition share; None if all rows are of one partition."""
    parts: list[Column] = []
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            continue
        source = schema.find_field(field.source_id).field_type
        column = F.col(".".join(quoted(name) for name in path_of(schema, field.source_id)))
        part = _part_of(field.transform, source, column)
        # A hash passes over NULL, so that (NULL, 'a') and ('a', NULL) would be the same.
        parts += [part, F.isnull(part)]
    return F.xxhash64(*parts) if parts else None


def _part_of(transform: Transform[Any, Any], source: IcebergType, column: Column) -> Column:
    if isinstance(transform, IdentityTransform):
        return column
    if isinstance(transform, BucketTransform):
        return _by_pyiceberg(column, transform, source, "int")
    if isinstance(transform, TruncateTransform):
        return _truncate(column, source, transform)
    match str(transform):
        case "year":
            return F.year(_date(column, source))
        case "month":
            day = _date(column, source)
            return F.year(day) * 12 + F.month(day)
        case "day":
            return _date(column, source)
        case "hour" if isinstance(source, TimestamptzType):
            return _units(column, _HOUR_MICROS)
        case "hour":
            return F.unix_date(F.to_date(column)) * 24 + F.hour(column)
        case other:
            raise Invalid(f"tables that are partitioned by {other} cannot be written")


def _date(column: Column, source: IcebergType) -> Column:
    """Returns the day, of an instant in UTC whatever the session's zone is."""
    if isinstance(source, DateType):
        return column
    if isinstance(source, TimestampType):
        return F.to_date(column)
    return F.date_from_unix_date(_units(column, _DAY_MICROS).cast("int"))


def _units(column: Column, micros: int) -> Column:
    """Returns whole units since 1970, rounded down before 1970 too."""
    instant = F.unix_micros(column)
    return F.call_function("div", instant - F.pmod(instant, F.lit(micros)), F.lit(micros))


def _truncate(column: Column, source: IcebergType, transform: TruncateTransform[Any]) -> Column:
    if isinstance(source, StringType | BinaryType):
        return F.substring(column, 1, transform.width)
    if isinstance(source, DecimalType):
        # As a text, because the smallest get a digit more than their type has; see `encode_values`.
        return _by_pyiceberg(column, transform, source, "string")
    whole = column.cast("bigint")
    # At the edge of the range this is NULL where Iceberg overflows; the check of files finds it.
    return F.try_subtract(whole, F.pmod(whole, F.lit(transform.width).cast("bigint")))


def _by_pyiceberg(
    column: Column, transform: Transform[Any, Any], source: IcebergType, result: str
) -> Column:
    """Returns the result of pyiceberg's transform, computed in executors."""
    words = (str(transform), str(source))

    def transformed(values: pa.Array) -> pa.Array:
        from lochan.spark.write.transforms import transform_array

        changed = transform_array(*words, values)
        return changed.cast(pa.string()) if result == "string" else changed

    # The kind of function is taken from its types; to name it, too, would be a warning.
    result_column: Column = arrow_udf(transformed, result)(column)  # type: ignore[call-overload]
    return result_column


def transform_array(transform: str, source: str, values: pa.Array) -> pa.Array:
    """Returns the transformed values; instants are taken in UTC, whatever zone they have.

    Uuids may be 16 bytes or a text; one that is none of those is NULL, for the writer to refuse.
    """
    if pa.types.is_timestamp(values.type):
        if transform == "day":
            return _days(values.cast(pa.int64()))
        if values.type.tz not in (None, "UTC"):
            values = values.cast(pa.timestamp("us", "UTC"))
    if source == "uuid" and pa.types.is_string(values.type):
        values = pa.array([_uuid_bytes(each) for each in values.to_pylist()], pa.binary(16))
    # Spark sends arrays aligned to 8 bytes, and pyiceberg's core panics unless decimals are to 16.
    values = pa.concat_arrays([values, values.slice(0, 0)])
    function = parse_transform(transform).pyarrow_transform(_TYPES.validate_python(source))
    return function(values)


def _days(micros: pa.Array) -> pa.Array:
    """Returns days since 1970, rounded down; pyiceberg's core rounds up in a day's last second."""
    day = pa.scalar(_DAY_MICROS, pa.int64())
    # Arrow rounds towards zero.
    days = pc.divide(micros, day)
    is_late = pc.greater(pc.multiply(days, day), micros)
    return pc.subtract(days, is_late.cast(pa.int64())).cast(pa.int32())


def _uuid_bytes(text: str | None) -> bytes | None:
    try:
        return None if text is None else uuid.UUID(text).bytes
    except ValueError:
        return None


def values_of(
    schema: Schema, spec: PartitionSpec, columns: Sequence[pa.Array | pa.ChunkedArray]
) -> list[list[Any]]:
    """Returns for each field of a spec the distinct partition values of its source's column.

    Days and microseconds are numbers, as manifests hold them: not all are in Python's years.
    """
    found: list[list[Any]] = []
    for field, column in zip(spec.fields, columns, strict=True):
        if isinstance(field.transform, VoidTransform):
            found.append([None])
            continue
        source = schema.find_field(field.source_id).field_type
        if isinstance(source, UUIDType):
            # Arrow cannot compute the distinct values of an extension type.
            column = column.cast(pa.binary(16))
        distinct = pc.unique(column)
        if isinstance(source, FloatType | DoubleType):
            # Spark groups -0.0 and 0.0 together, which are different for arrow.
            distinct = pc.unique(pc.add(distinct, pa.scalar(0.0, distinct.type)))
        changed = transform_array(str(field.transform), str(source), distinct)
        if pa.types.is_temporal(changed.type):
            changed = changed.view(f"int{changed.type.bit_width}")
        found.append(pc.unique(changed).to_pylist())
    return found


def encode_values(schema: Schema, spec: PartitionSpec, values: Sequence[Any]) -> list[bytes | None]:
    """Returns partition values as bytes, to be sent by executors; Invalid if one has none."""
    found: list[bytes | None] = []
    for field, kind, value in zip(spec.fields, _result_types(schema, spec), values, strict=True):
        try:
            # The type of a column that was dropped is not known, and nothing reads its values.
            is_lost = value is None or isinstance(kind, UnknownType)
            found.append(None if is_lost else to_bytes(kind, value))
        except ValueError:
            raise Invalid(
                f"the partition {field.name} would be {value}, which {kind} cannot hold"
            ) from None
    return found


def decode_values(schema: Schema, spec: PartitionSpec, raw: Sequence[bytes | None]) -> list[Any]:
    """Returns the partition values that an executor has sent."""
    types = _result_types(schema, spec)
    return [
        None if each is None else from_bytes(kind, each)
        for kind, each in zip(types, raw, strict=True)
    ]


def _result_types(schema: Schema, spec: PartitionSpec) -> list[Any]:
    return [field.field_type for field in spec.partition_type(schema).fields]
