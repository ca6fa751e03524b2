"""Filters as columns of Spark: what a bound expression means for rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pyiceberg import types as iceberg
from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, visit
from pyiceberg.schema import Schema
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_column(bound: BooleanExpression, schema: Schema) -> Column:
    """Returns the condition that Spark checks on every row."""
    return visit(bound, _Conditions(field_paths(schema)))


def field_paths(schema: Schema) -> Mapping[int, tuple[str, ...]]:
    """Returns the way to every field that is reached through structs alone."""
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
    """Returns the column at the end of a way; names may hold dots and quotes."""
    column = F.col(quoted(path[0]))
    for name in path[1:]:
        column = column.getField(name)
    return column


def quoted(name: str) -> str:
    """Returns a name as Spark takes it literally."""
    return "`" + name.replace("`", "``") + "`"


class _Conditions(BoundBooleanExpressionVisitor[Column]):
    """Makes a Spark condition of a bound expression."""

    def __init__(self, paths: Mapping[int, tuple[str, ...]]) -> None:
        self._paths = paths

    def _column(self, term: BoundTerm) -> Column:
        return column_at(self._paths[term.ref().field.field_id])

    def _value(self, term: BoundTerm, literal: Any) -> Column:
        return _literal(term.ref().field.field_type, literal)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> Column:
        """Returns the condition that a column has one of some values."""
        return self._column(term).isin([self._value(term, each) for each in literals])

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> Column:
        """Returns the condition that a column has none of some values."""
        return ~self.visit_in(term, literals)

    def visit_is_nan(self, term: BoundTerm) -> Column:
        """Returns the condition that a column is NaN."""
        return F.isnan(self._column(term))

    def visit_not_nan(self, term: BoundTerm) -> Column:
        """Returns the condition that a column is not NaN."""
        return ~F.isnan(self._column(term))

    def visit_is_null(self, term: BoundTerm) -> Column:
        """Returns the condition that a column is null."""
        return self._column(term).isNull()

    def visit_not_null(self, term: BoundTerm) -> Column:
        """Returns the condition that a column is not null."""
        return self._column(term).isNotNull()

    def visit_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column has a value."""
        if isinstance(_plain(literal), float) and _plain(literal) == 0:
            at_most = self.visit_less_than_or_equal(term, literal)
            return self.visit_greater_than_or_equal(term, literal) & at_most
        return self._column(term) == self._value(term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column has another value."""
        return self._column(term) != self._value(term, literal)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is at least a value."""
        least = self._value(term, _zero_with(literal, -1.0))
        return self._column(term) >= least

    def visit_greater_than(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is more than a value."""
        return self._column(term) > self._value(term, literal)

    def visit_less_than(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is less than a value."""
        return self._column(term) < self._value(term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is at most a value."""
        return self._column(term) <= self._value(term, _zero_with(literal, 1.0))

    def visit_starts_with(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a text begins with another."""
        return self._column(term).startswith(self._value(term, literal))

    def visit_not_starts_with(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a text begins otherwise."""
        return ~self.visit_starts_with(term, literal)

    def visit_true(self) -> Column:
        """Returns the condition that always holds."""
        return F.lit(True)

    def visit_false(self) -> Column:
        """Returns the condition that never holds."""
        return F.lit(False)

    def visit_not(self, child_result: Column) -> Column:
        """Returns the opposite."""
        return ~child_result

    def visit_and(self, left_result: Column, right_result: Column) -> Column:
        """Returns that both hold."""
        return left_result & right_result

    def visit_or(self, left_result: Column, right_result: Column) -> Column:
        """Returns that one of both holds."""
        return left_result | right_result


def _plain(literal: Any) -> Any:
    return literal.value if isinstance(literal, Literal) else literal


def _zero_with(literal: Any, sign: float) -> Any:
    """Returns a value, and zero with a sign.

    Rows are the same either way. But Spark asks the dictionaries of files, and in these negative
    zero is another value than zero, and less.
    """
    value = _plain(literal)
    return math.copysign(0.0, sign) if isinstance(value, float) and value == 0 else value


def _literal(kind: iceberg.IcebergType, literal: Any) -> Column:
    """Returns a value as Spark holds it; Iceberg counts days and microseconds from 1970."""
    value = _plain(literal)
    match kind:
        case iceberg.DateType():
            return F.date_from_unix_date(F.lit(value))
        case iceberg.TimestamptzType():
            return F.timestamp_micros(F.lit(value))
        case iceberg.TimestampType():
            moment = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None)
            return F.expr(f"TIMESTAMP_NTZ '{moment.isoformat(sep=' ')}'")
        case iceberg.UUIDType():
            return F.lit(str(value if isinstance(value, UUID) else UUID(bytes=bytes(value))))
        case iceberg.BinaryType() | iceberg.FixedType():
            return F.unhex(F.lit(bytes(value).hex()))
        case iceberg.DecimalType():
            return F.lit(value).cast(f"decimal({kind.precision}, {kind.scale})")
        case iceberg.FloatType():
            return F.lit(value).cast("float")
        case _:
            return F.lit(value)
