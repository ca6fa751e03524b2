"""Filters that are given as expressions of PyIceberg: the condition on files, and that on rows.

An expression means what the same comparison means in Spark's SQL: a comparison with NULL chooses
nothing, NaN is larger than every number, a column of floats is compared as doubles, and a number
is never rounded to the type of its column. Filters that are given as text are read by Spark;
`sql_conditions` reads the part of them that can choose files.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, Final, cast

from pyiceberg import types as iceberg
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    SetPredicate,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import (
    DecimalLiteral,
    DoubleLiteral,
    FloatLiteral,
    LongLiteral,
    StringLiteral,
)
from pyiceberg.schema import Schema
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid
from lochan.spark.read.comparands import (
    DECIMAL_DIGITS_MAX,
    LONG_BITS,
    SqlLiteral,
    Zone,
    comparands,
    is_beyond,
    prefix_comparand,
)
from lochan.spark.read.domains import FLOATS, uuid_of
from lochan.spark.read.filters import (
    FALSE,
    TRUE,
    Comparand,
    Constant,
    Junction,
    Leaf,
    Negation,
    Node,
    Unread,
)
from lochan.spark.read.sql_conditions import null_leaf
from lochan.spark.schemas import column_at, field_paths
from lochan.spark.trees import fold

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS: Final = (iceberg.IntegerType, iceberg.LongType, iceberg.DecimalType, *FLOATS)
_NUMERIC_LITERALS: Final = (LongLiteral, DoubleLiteral, FloatLiteral, DecimalLiteral, StringLiteral)
# Expressions that are no predicates.
_JOINED: Final = (AlwaysTrue, AlwaysFalse, Not, And, Or)
# Each predicate that is the opposite of another one.
_OPPOSITES: Final[dict[Any, Any]] = {
    NotNull: IsNull,
    NotNaN: IsNaN,
    NotIn: In,
    NotEqualTo: EqualTo,
    NotStartsWith: StartsWith,
}
_OPERATORS: Final[dict[Any, tuple[str, Callable[[Any, Any], Column]]]] = {
    EqualTo: ("=", operator.eq),
    LessThan: ("<", operator.lt),
    LessThanOrEqual: ("<=", operator.le),
    GreaterThan: (">", operator.gt),
    GreaterThanOrEqual: (">=", operator.ge),
    StartsWith: ("prefix", lambda column, value: column.startswith(value)),
    In: ("in", lambda column, values: column.isin(values)),
}


class ExpressionFilter:
    """A filter that is given as an expression on the columns of one schema."""

    def __init__(
        self, expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
    ) -> None:
        self._expression = expression
        self._schema = schema
        self._case_sensitive = case_sensitive
        self.paths: Final = field_paths(schema)

    def field_ids(self) -> set[int]:
        """Returns the ids of the fields that the filter names."""

        def ids(expression: BooleanExpression, found: list[set[int]]) -> set[int]:
            is_predicate = not isinstance(expression, _JOINED)
            return set().union(*found, [self._field(expression).field_id] if is_predicate else [])

        return fold(self._expression, _inside, ids)

    def node(self, zone: Zone) -> Node:
        """Returns the condition on files."""
        return fold(self._expression, _inside, lambda each, parts: self._node(each, parts, zone))

    def column(self) -> Column:
        """Returns the condition that Spark checks on every row."""
        return fold(self._expression, _inside, self._column)

    def _field(self, predicate: Any) -> iceberg.NestedField:
        if not isinstance(predicate, UnboundPredicate):
            raise Invalid(f"a filter names columns, but {predicate} is bound to those of a table")
        name = cast("Reference", predicate.term).name
        try:
            field = self._schema.find_field(name, self._case_sensitive)
        except ValueError:
            raise Invalid(f"the filter does not fit the table: there is no column {name}") from None
        if field.field_id not in self.paths:
            raise Invalid(f"the filter names {name}, which is inside a list or a map")
        return field

    def _node(self, predicate: Any, parts: list[Node], zone: Zone) -> Node:
        match predicate:
            case AlwaysTrue() | AlwaysFalse():
                return Constant(TRUE if isinstance(predicate, AlwaysTrue) else FALSE)
            case Not():
                return Negation(parts[0])
            case And() | Or():
                return Junction(tuple(parts), isinstance(predicate, And))
        field, kind = self._field(predicate), _positive(predicate)
        number, is_float = field.field_id, isinstance(field.field_type, FLOATS)
        found: Node
        if kind is IsNaN:
            found = Leaf(number, "nan") if is_float else Constant(FALSE)
        elif kind is IsNull:
            found = null_leaf(field)
        else:
            found = _leaf(field, kind, _values(predicate, field), zone)
        return found if kind is type(predicate) else Negation(found)

    def _column(self, predicate: Any, parts: list[Column]) -> Column:
        match predicate:
            case AlwaysTrue() | AlwaysFalse():
                return F.lit(isinstance(predicate, AlwaysTrue))
            case Not():
                return ~parts[0]
            case And() | Or():
                return reduce(operator.and_ if isinstance(predicate, And) else operator.or_, parts)
        field, kind = self._field(predicate), _positive(predicate)
        column = column_at(self.paths[field.field_id])
        if kind is IsNull:
            found = column.isNull()
        elif kind is IsNaN:
            found = F.isnan(column) if isinstance(field.field_type, FLOATS) else F.lit(False)
        else:
            values = _values(predicate, field)
            columns = [_literal(field.field_type, each) for each in values]
            found = _OPERATORS[kind][1](column, columns if kind is In else columns[0])
            if is_beyond(field.field_type, _literals(field.field_type, values)):
                found = F.when(column.isNotNull(), found)
        return found if kind is type(predicate) else ~found


def _inside(expression: BooleanExpression) -> list[BooleanExpression]:
    """Returns the expressions that an expression is made of."""
    if isinstance(expression, And | Or):
        return [expression.left, expression.right]
    return [expression.child] if isinstance(expression, Not) else []


def _positive(predicate: Any) -> Any:
    """Returns the kind of a predicate, or the kind that it is the opposite of."""
    return _OPPOSITES.get(type(predicate), type(predicate))


def _values(predicate: Any, field: iceberg.NestedField) -> list[Any]:
    """Returns the values of a predicate: numbers as they are, others as the column holds them."""
    is_set = isinstance(predicate, SetPredicate)
    literals = predicate.literals if is_set else [predicate.literal]
    try:
        return [_value(each, field.field_type) for each in literals]
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Invalid(f"the filter does not fit the table: {field.name}: {error}") from None


def _value(literal: Any, kind: iceberg.IcebergType) -> Any:
    if not isinstance(kind, _NUMBERS):
        return literal.to(kind).value
    if not isinstance(literal, _NUMERIC_LITERALS):
        raise TypeError(f"{literal.value!r} is no number")
    value = Decimal(literal.value) if isinstance(literal, StringLiteral) else literal.value
    is_double = isinstance(kind, FLOATS) or _is_too_long(value)
    return float(value) if is_double else value


def _is_too_long(value: Any) -> bool:
    """Returns whether Spark has neither a whole number nor a decimal of as many digits."""
    if not isinstance(value, Decimal | int):
        return False
    _, digits, exponent = Decimal(value).as_tuple()
    return max(len(digits), -int(exponent), len(digits) + int(exponent)) > DECIMAL_DIGITS_MAX


def _leaf(field: iceberg.NestedField, kind: Any, values: Sequence[Any], zone: Zone) -> Node:
    """Returns a comparison as a condition on files."""
    column, operator_ = field.field_type, _OPERATORS[kind][0]
    if isinstance(column, _NUMBERS):
        literals = _literals(column, values)
        several = comparands(column, literals, zone)
        if several is None or kind is StartsWith:
            return Unread()
        return Leaf(field.field_id, operator_, several, is_any_for_null=is_beyond(column, literals))
    if kind is StartsWith:
        is_text = isinstance(column, iceberg.StringType)
        found = [prefix_comparand(values[0])] if is_text else []
    elif isinstance(column, iceberg.UUIDType):
        found = [Comparand(str(each), str(each), None, each) for each in map(uuid_of, values)]
    else:
        plain = [bytes(each) if isinstance(each, bytearray) else each for each in values]
        found = [Comparand(each, each, None, each) for each in plain]
    return Leaf(field.field_id, operator_, tuple(found)) if found else Unread()


def _literals(column: iceberg.IcebergType, values: Sequence[Any]) -> list[SqlLiteral]:
    """Returns numbers as SQL would write them; none for a column of something else."""
    kinds = {int: "integer", float: "double", Decimal: "decimal"}
    return [SqlLiteral(kinds[type(each)], each) for each in values if isinstance(column, _NUMBERS)]


def _literal(kind: iceberg.IcebergType, value: Any) -> Column:
    """Returns a value as Spark holds it; Iceberg counts days and microseconds from 1970."""
    match kind:
        case iceberg.DateType():
            return F.date_from_unix_date(F.lit(value))
        case iceberg.TimestamptzType():
            return F.timestamp_micros(F.lit(value))
        case iceberg.TimestampType():
            moment = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None)
            return F.expr(f"TIMESTAMP_NTZ '{moment.isoformat(sep=' ')}'")
        case iceberg.UUIDType():
            return F.lit(str(uuid_of(value)))
        case iceberg.BinaryType() | iceberg.FixedType():
            return F.unhex(F.lit(bytes(value).hex()))
        case _ if isinstance(value, int) and abs(value) >= 1 << LONG_BITS:
            return F.lit(Decimal(value))
        case _:
            return F.lit(value)
