"""Filters: one text or expression that chooses both files, by PyIceberg, and rows, by Spark.

Both are made from one parsed expression, so that they can never mean different things. Comparisons
with NULL choose nothing, as in SQL. NaN is neither larger nor smaller than a number, as in Iceberg:
Spark alone calls it the largest, but the bounds of files do not count it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, cast
from uuid import UUID

from pyiceberg import types as iceberg
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundTerm,
    LiteralPredicate,
    Not,
    NotNull,
    Or,
    SetPredicate,
)
from pyiceberg.expressions.literals import DecimalLiteral, Literal
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import (
    BooleanExpressionVisitor,
    BoundBooleanExpressionVisitor,
    bind,
    extract_field_ids,
    rewrite_not,
    visit,
)
from pyiceberg.schema import Schema
from pyparsing import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT: Final = Context(prec=100, traps=[Inexact, InvalidOperation])
_NUMBERS: Final = (iceberg.IntegerType, iceberg.LongType, iceberg.DecimalType)
_FLOATS: Final = (iceberg.FloatType, iceberg.DoubleType)
# In SQL an underscore of a pattern stands for any character; PyIceberg's LIKE takes it literally.
_WILD_LIKE: Final = re.compile(r"\blike\s+'(?:[^']|'')*_", re.IGNORECASE)


def parse_filter(where: str | BooleanExpression | None) -> BooleanExpression:
    """Returns the expression of a filter; everything matches where there is none."""
    if where is None:
        return AlwaysTrue()
    if isinstance(where, BooleanExpression):
        return where
    if _WILD_LIKE.search(where):
        raise Invalid(
            f"the filter {where!r} has a LIKE with an underscore, which would have to match any "
            "character; filter the frame instead: lake.read(…).where(…)"
        )
    try:
        return parse(where)
    except (ParseException, ValueError) as error:
        raise Invalid(
            f"the filter {where!r} is not understood: {error}; for more than comparisons of "
            "columns with values filter the frame: lake.read(…).where(…)"
        ) from None


def fit_filter(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Returns an expression whose values its columns can have, with the meaning that it has in SQL.

    PyIceberg alone rounds 1.5 for a column of whole numbers, knows no decimal of fewer digits than
    the column has, and lets NULL be less than a number that is too large for the column.
    """
    return visit(expression, _Fitting(schema, case_sensitive=case_sensitive))


class _Fitting(BooleanExpressionVisitor[BooleanExpression]):
    """Puts an expression together again from predicates that fit."""

    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def visit_true(self) -> BooleanExpression:
        """Returns what always holds."""
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        """Returns what never holds."""
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        """Returns the opposite."""
        return Not(child_result)

    def visit_and(
        self, left_result: BooleanExpression, right_result: BooleanExpression
    ) -> BooleanExpression:
        """Returns that both hold."""
        return And(left_result, right_result)

    def visit_or(
        self, left_result: BooleanExpression, right_result: BooleanExpression
    ) -> BooleanExpression:
        """Returns that one of both holds."""
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        """Returns a predicate with values that fit."""
        if not isinstance(predicate, LiteralPredicate | SetPredicate):
            return cast("BooleanExpression", predicate)
        return _fit_predicate(predicate, self._schema, case_sensitive=self._case_sensitive)

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        """Refuses: it belongs to some schema already."""
        raise Invalid(f"a filter names columns, but {predicate} is bound to those of a table")


def _fit_predicate(predicate: Any, schema: Schema, *, case_sensitive: bool) -> BooleanExpression:
    field = _find_field(predicate.term.name, schema, case_sensitive=case_sensitive)
    if isinstance(predicate, SetPredicate):
        values = {_fit_literal(each, field) for each in predicate.literals}
        return cast("BooleanExpression", type(predicate)(predicate.term, values))
    fitting = type(predicate)(predicate.term, _fit_literal(predicate.literal, field))
    try:
        if isinstance(fitting.bind(schema, case_sensitive), AlwaysTrue):
            return NotNull(term=predicate.term)
    except (ValueError, TypeError) as error:
        raise Invalid(f"the filter does not fit the table: {error}") from None
    return cast("BooleanExpression", fitting)


def _find_field(name: str, schema: Schema, *, case_sensitive: bool) -> iceberg.NestedField:
    try:
        return schema.find_field(name, case_sensitive)
    except ValueError:
        raise Invalid(f"the filter does not fit the table: there is no column {name}") from None


def _fit_literal(literal: Any, field: iceberg.NestedField) -> Any:
    """Returns a value as a column has it; Invalid if it would have to be rounded."""
    value, kind, name = literal.value, field.field_type, field.name
    if not isinstance(value, Decimal | float | str) or not isinstance(kind, _NUMBERS):
        return literal
    try:
        exact = Decimal(str(value))
        if isinstance(kind, iceberg.DecimalType):
            return DecimalLiteral(exact.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT))
    except ArithmeticError:
        raise Invalid(f"the column {name} is {kind} and never {value}") from None
    if exact != exact.to_integral_value():
        raise Invalid(f"the column {name} is {kind} and never {value}")
    return literal


def bind_filter(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Returns an expression whose columns are those of a schema and whose values fit them."""
    try:
        return bind(schema, rewrite_not(expression), case_sensitive)
    except (ValueError, TypeError) as error:
        raise Invalid(f"the filter does not fit the table: {error}") from None


def filtered_fields(bound: BooleanExpression) -> set[int]:
    """Returns the ids of the fields that a filter looks at."""
    return set(extract_field_ids(bound))


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

    def _is_number(self, term: BoundTerm) -> Column:
        if isinstance(term.ref().field.field_type, _FLOATS):
            return ~F.isnan(self._column(term))
        return F.lit(True)

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
        return self._column(term) == self._value(term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column has another value."""
        return self._column(term) != self._value(term, literal)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is at least a value."""
        return (self._column(term) >= self._value(term, literal)) & self._is_number(term)

    def visit_greater_than(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is more than a value."""
        return (self._column(term) > self._value(term, literal)) & self._is_number(term)

    def visit_less_than(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is less than a value."""
        return self._column(term) < self._value(term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Any) -> Column:
        """Returns the condition that a column is at most a value."""
        return self._column(term) <= self._value(term, literal)

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


def _literal(kind: iceberg.IcebergType, literal: Any) -> Column:
    """Returns a value as Spark holds it; Iceberg counts days and microseconds from 1970."""
    value = literal.value if isinstance(literal, Literal) else literal
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
