"""New values of an update: expressions that are cast as Spark casts what is stored in a table.

Spark calls these rules store assignment by ANSI: numbers become other numbers if they fit, dates
and timestamps each other, whatever has one value becomes text; anything else is refused before a
row is read. A number that does not fit is an error, whether the session is in ANSI mode or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.schema import Schema
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from lochan.base.errors import Invalid
from lochan.spark.schemas import nullable, quoted, to_spark

Assignments = Mapping[str, Any]
"""New values by column: a text is an expression of SQL; other than texts and Columns are values."""

# The message of errors that are raised in a query by expressions of this module.
DOES_NOT_FIT: Final = "a value does not fit"

_DATETIMES: Final = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)


def check_assignments(
    table: str, assignments: Assignments, schema: Schema, *, case_sensitive: bool
) -> dict[str, Any]:
    """Returns new values by the names that columns have in a table; Invalid if one has not."""
    if not assignments or not isinstance(assignments, Mapping):
        raise Invalid(
            f"an update of {table} needs new values by column, for example "
            'set={"amount": "amount * 2"}'
        )
    known = {field.name: field.name for field in schema.fields}
    if not case_sensitive:
        known = {name.lower(): name for name in known} | known
    found: dict[str, Any] = {}
    for given, value in assignments.items():
        name = known.get(given) or (None if case_sensitive else known.get(given.lower()))
        if name is None:
            raise Invalid(
                f"{table} has no column {given} to set; there are "
                f"{', '.join(field.name for field in schema.fields)}. For a field of a struct set "
                "the whole column, for example by Column.withField"
            )
        if name in found:
            raise Invalid(f"{name} is set twice")
        found[name] = value
    return found


def assigned(
    table: str, frame: DataFrame, schema: Schema, values: Mapping[str, Any], chosen: str
) -> DataFrame:
    """Returns a frame with new values in the rows where the column `chosen` is true."""
    types = {field.name: field.dataType for field in nullable(to_spark(schema, ids=False)).fields}
    news = {name: _column(table, name, value) for name, value in values.items()}
    types_given = explained(table, frame, [each.alias(name) for name, each in news.items()])
    for name, new in news.items():
        news[name] = _stored(table, name, new, types_given[name].dataType, types[name])
    columns = []
    for field in schema.fields:
        old = F.col(quoted(field.name))
        if field.name in news:
            old = F.when(F.col(quoted(chosen)), news[field.name]).otherwise(old)
        columns.append(old.alias(field.name))
    return frame.select(*columns)


def explained(table: str, frame: DataFrame, columns: list[Column]) -> spark.StructType:
    """Returns the types of columns; Invalid, in one line, if Spark does not understand them."""
    try:
        return frame.select(*columns).schema
    except PySparkException as error:
        raise not_understood(table, error) from error


def not_understood(table: str, error: PySparkException) -> Invalid:
    """Returns an error with the first line of Spark's message about an expression."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return Invalid(f"Spark cannot do what is asked of {table}: {reason}")


def _column(table: str, name: str, value: Any) -> Column:
    try:
        if isinstance(value, Column):
            return value
        return F.expr(value) if isinstance(value, str) else F.lit(value)
    except PySparkException as error:
        raise Invalid(f"{name} of {table} cannot be set: {not_understood(table, error)}") from error


def _stored(
    table: str, name: str, new: Column, have: spark.DataType, want: spark.DataType
) -> Column:
    if _same(have, want):
        return new.cast(want)
    if not _may_be_stored(have, want):
        raise Invalid(
            f"{name} of {table} is {want.simpleString()} and cannot be set to "
            f"{have.simpleString()}; cast it, if that is meant"
        )
    # try_cast knows what does not fit in every mode of a session; cast only in ANSI mode.
    fitted = new.try_cast(want)
    value_text = F.substring(F.coalesce(new.cast("string"), F.lit("NULL")), 1, 100)
    message = F.concat(
        F.lit(f"{DOES_NOT_FIT} {name}, which is {want.simpleString()}: "), value_text
    )
    return F.when(new.isNotNull() & fitted.isNull(), F.raise_error(message)).otherwise(fitted)


def _same(have: spark.DataType, want: spark.DataType) -> bool:
    wrapped = [spark.StructType([spark.StructField("it", each)]) for each in (have, want)]
    return nullable(wrapped[0]) == nullable(wrapped[1])


def _may_be_stored(have: spark.DataType, want: spark.DataType) -> bool:
    if isinstance(have, spark.NullType):
        return True
    if isinstance(have, spark.NumericType) and isinstance(want, spark.NumericType):
        return True
    if isinstance(have, _DATETIMES) and isinstance(want, _DATETIMES):
        return True
    return isinstance(have, spark.AtomicType) and isinstance(want, spark.StringType)
