"""Filters that are given as expressions of PyIceberg: what they mean for files, and for rows.

They mean what they mean in SQL. Comparisons with NULL choose nothing. NaN is larger than every
number and equal to itself. A column of floats is compared as doubles: what was written as 0.1 is
no double 0.1. Filters that are given as text are not read here but by Spark (`sql_text` reads what
of them can choose files).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, cast
from uuid import UUID

import msgspec
from pyiceberg import types as iceberg
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    BoundReference,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    Or,
    Reference,
    SetPredicate,
    StartsWith,
    UnaryPredicate,
)
from pyiceberg.expressions.literals import (
    AboveMax,
    BelowMin,
    DecimalLiteral,
    FloatLiteral,
    IntAboveMax,
    IntBelowMin,
)
from pyiceberg.expressions.visitors import (
    BindVisitor,
    BooleanExpressionVisitor,
    extract_field_ids,
    rewrite_not,
    visit,
)
from pyiceberg.schema import Schema

from lochan.base.errors import Invalid
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
    fold,
)
from lochan.spark.read.sql_text import prefix_of

_EXACT: Final = Context(prec=100, traps=[Inexact, InvalidOperation])
_NUMBERS: Final = (iceberg.IntegerType, iceberg.LongType, iceberg.DecimalType)
_FLOATS: Final = (iceberg.FloatType, iceberg.DoubleType)
_ASKED: Final = (iceberg.IntegerType, iceberg.LongType, iceberg.StringType, iceberg.DateType)
_INT_BITS: Final = 31
_BY_OPERATOR: Final[dict[str, Any]] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "in": In,
}
_LEAST_FLOAT: Final = 2.0**-149
_OPERATORS: Final = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
# What NaN is chosen by, whatever the number is: it is larger than all and none of them.
_CHOOSING_NAN: Final = (GreaterThan, GreaterThanOrEqual, NotEqualTo, NotIn)


def fit_filter(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Returns an expression whose values its columns can have, with the meaning that it has in SQL.

    PyIceberg alone rounds 1.5 for a column of whole numbers, knows no decimal of fewer digits than
    the column has, and lets NULL be less than a number that is too large for the column. NOT
    is resolved first: the opposite of what was fitted would choose NULL.
    """
    try:
        straight = rewrite_not(expression)
    except (ValueError, TypeError) as error:
        raise Invalid(f"the filter does not fit the table: {error}") from None

    def fit(predicate: Any) -> BooleanExpression:
        if isinstance(predicate, BoundPredicate):
            raise Invalid(f"a filter names columns, but {predicate} is bound to those of a table")
        if isinstance(predicate, UnaryPredicate):
            return predicate
        return _fit_predicate(predicate, schema, case_sensitive=case_sensitive)

    return visit(straight, _Rebuilding(fit))


def node_of(expression: BooleanExpression, schema: Schema, *, case_sensitive: bool) -> Node:
    """Returns a fitted expression as one that chooses files."""
    return visit(expression, _Nodes(schema, case_sensitive))


class _Nodes(BooleanExpressionVisitor[Node]):
    """Makes what chooses files of an expression without NOT."""

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def visit_true(self) -> Node:
        """Returns what always holds."""
        return Constant(TRUE)

    def visit_false(self) -> Node:
        """Returns what never holds."""
        return Constant(FALSE)

    def visit_not(self, child_result: Node) -> Node:
        """Returns the opposite."""
        return Negation(child_result)

    def visit_and(self, left_result: Node, right_result: Node) -> Node:
        """Returns that both hold."""
        return Junction((left_result, right_result), True)

    def visit_or(self, left_result: Node, right_result: Node) -> Node:
        """Returns that one of both holds."""
        return Junction((left_result, right_result), False)

    def visit_bound_predicate(self, predicate: Any) -> Node:
        """Refuses: there is none."""
        raise Invalid(f"a filter names columns, but {predicate} is bound to those of a table")

    def visit_unbound_predicate(self, predicate: Any) -> Node:
        """Returns what a predicate says of a column."""
        field = _find_field(predicate.term.name, self._schema, case_sensitive=self._case_sensitive)
        number, kind = field.field_id, field.field_type
        if any(_is_nan(each) for each in _literals(predicate)):
            return Unread()
        match predicate:
            case IsNull() if isinstance(kind, iceberg.PrimitiveType):
                return Leaf(number, "null")
            case NotNull() if isinstance(kind, iceberg.PrimitiveType):
                return Negation(Leaf(number, "null"))
            case IsNaN():
                return Leaf(number, "nan")
            case NotNaN():
                return Negation(Leaf(number, "nan"))
            case In():
                return Leaf(number, "in", tuple(_comparand(kind, e) for e in predicate.literals))
            case NotIn():
                several = tuple(_comparand(kind, each) for each in predicate.literals)
                return Negation(Leaf(number, "in", several))
            case StartsWith():
                return Leaf(number, "prefix", (prefix_of(predicate.literal.value),))
            case NotEqualTo():
                return Negation(Leaf(number, "=", (_comparand(kind, predicate.literal),)))
            case EqualTo() | LessThan() | LessThanOrEqual() | GreaterThan() | GreaterThanOrEqual():
                value = _comparand(kind, predicate.literal)
                return Leaf(number, _OPERATORS[type(predicate)], (value,))
            case _:
                return Unread()


def _literals(predicate: Any) -> list[Any]:
    if isinstance(predicate, UnaryPredicate):
        return []
    return list(predicate.literals) if isinstance(predicate, SetPredicate) else [predicate.literal]


def _is_nan(literal: Any) -> bool:
    return isinstance(literal.value, float) and math.isnan(literal.value)


def _comparand(kind: iceberg.IcebergType, literal: Any) -> Comparand:
    value = literal.value
    if isinstance(kind, iceberg.UUIDType):
        held = value if isinstance(value, UUID) else UUID(bytes=bytes(value))
        return Comparand(str(held), str(held), None, held)
    if isinstance(value, bytes | bytearray):
        value = bytes(value)
    return Comparand(value, value, None, value)


def asked_of(node: Node, schema: Schema) -> BooleanExpression:
    """Returns what of a condition PyIceberg's reader may leave out rows by.

    Rows that pass are asked by Spark with all of it. Only comparisons are taken that mean the same
    for every reader: of whole numbers, texts and days with a value of that kind.
    """
    return fold(node, lambda each: _asked(each, schema), _asked_together)


def _asked_together(
    node: Negation | Junction, several: list[BooleanExpression]
) -> BooleanExpression:
    if isinstance(node, Negation):
        return AlwaysTrue()
    return And(*several) if node.is_and else Or(*several)


def _asked(node: Unread | Constant | Leaf, schema: Schema) -> BooleanExpression:
    if not isinstance(node, Leaf) or node.has_null or node.is_loose or node.is_any_for_null:
        return AlwaysTrue()
    field = schema.find_field(node.field_id)
    values = [each.exact for each in node.comparands if each.exact is not None]
    if isinstance(field.field_type, iceberg.IntegerType):
        values = [each for each in values if abs(each) < 1 << _INT_BITS]
    kind = _BY_OPERATOR.get(node.operator)
    is_top = schema.find_column_name(node.field_id) == field.name
    if not is_top or kind is None or len(values) < len(node.comparands):
        return AlwaysTrue()
    if not isinstance(field.field_type, _ASKED):
        return AlwaysTrue()
    made: BooleanExpression = kind(Reference(field.name), values if kind is In else values[0])
    return made


def weaken(expression: BooleanExpression, is_asked: Callable[[Any], bool]) -> BooleanExpression:
    """Returns an expression without NOT in which any row passes what is not to be asked."""
    return visit(expression, _Rebuilding(lambda each: each if is_asked(each) else AlwaysTrue()))


class _Rebuilding(BooleanExpressionVisitor[BooleanExpression]):
    """Puts an expression together again from what its predicates became."""

    def __init__(self, change: Callable[[Any], BooleanExpression]) -> None:
        self._change = change

    def visit_true(self) -> BooleanExpression:
        """Returns what always holds."""
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        """Returns what never holds."""
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        """Refuses: there is none left."""
        raise Invalid(f"the filter has the opposite of {child_result} where none can be")

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
        """Returns what became of a predicate that names its column."""
        return self._change(predicate)

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        """Returns what became of a predicate that has its field."""
        return self._change(predicate)


def _fit_predicate(predicate: Any, schema: Schema, *, case_sensitive: bool) -> BooleanExpression:
    field = _find_field(predicate.term.name, schema, case_sensitive=case_sensitive)
    fitted = _fit_values(predicate, field)
    if isinstance(field.field_type, _FLOATS) and isinstance(predicate, _CHOOSING_NAN):
        return Or(fitted, IsNaN(term=predicate.term))
    return fitted


def _fit_values(predicate: Any, field: iceberg.NestedField) -> BooleanExpression:
    if isinstance(predicate, SetPredicate):
        return _fit_set(predicate, [_fit_literal(each, field) for each in predicate.literals])
    value = _fit_literal(predicate.literal, field)
    if isinstance(value, _BetweenFloats):
        return value.fit(predicate)
    if isinstance(value, AboveMax | BelowMin):
        return _beyond(predicate, field.field_type, is_above=isinstance(value, AboveMax))
    return cast("BooleanExpression", type(predicate)(predicate.term, value))


def _fit_set(predicate: Any, values: list[Any]) -> BooleanExpression:
    """Returns a predicate on those values that the column can have at all.

    Zero is asked for apart, as readers that look values up tell it from negative zero.
    """
    is_in, term = isinstance(predicate, In), predicate.term
    outside = (AboveMax, BelowMin, _BetweenFloats)
    inside = [each for each in values if not isinstance(each, outside)]
    zeros = [each for each in inside if isinstance(each.value, float) and each.value == 0]
    others = [each for each in inside if not isinstance(each.value, float) or each.value != 0]
    if not inside:
        return AlwaysFalse() if is_in else NotNull(term=term)
    fitting = type(predicate)(term, others)
    if zeros:
        zero = zeros[0]
        apart = EqualTo(term=term, value=zero) if is_in else NotEqualTo(term=term, value=zero)
        return Or(apart, fitting) if is_in else And(apart, fitting)
    return cast("BooleanExpression", fitting)


def _beyond(predicate: Any, kind: iceberg.IcebergType, *, is_above: bool) -> BooleanExpression:
    """Returns what a comparison with a value means that is above, or below, all of the column.

    Of floats infinity is even further out.
    """
    term, is_float = predicate.term, isinstance(kind, iceberg.FloatType)
    infinity = FloatLiteral(math.inf if is_above else -math.inf)
    below, above = (LessThan, LessThanOrEqual), (GreaterThan, GreaterThanOrEqual)
    towards, away = (below, above) if is_above else (above, below)
    if isinstance(predicate, towards):
        return towards[0](term=term, value=infinity) if is_float else NotNull(term=term)
    if isinstance(predicate, NotEqualTo):
        return NotNull(term=term)
    if is_float and isinstance(predicate, away):
        return EqualTo(term=term, value=infinity)
    return AlwaysFalse()


def _find_field(name: str, schema: Schema, *, case_sensitive: bool) -> iceberg.NestedField:
    try:
        return schema.find_field(name, case_sensitive)
    except ValueError:
        raise Invalid(f"the filter does not fit the table: there is no column {name}") from None


def _fit_literal(literal: Any, field: iceberg.NestedField) -> Any:
    """Returns a value as a column has it, AboveMax or BelowMin if it is out of its range.

    Invalid if a number would have to be rounded that is not one of floats.
    """
    value, kind = literal.value, field.field_type
    if isinstance(value, Decimal | float | str) and isinstance(kind, _NUMBERS):
        scale = kind.scale if isinstance(kind, iceberg.DecimalType) else 0
        try:
            digits = Decimal(1).scaleb(-scale)
            literal = DecimalLiteral(Decimal(str(value)).quantize(digits, context=_EXACT))
        except ArithmeticError:
            raise Invalid(f"the column {field.name} is {kind} and never {value}") from None
    try:
        if isinstance(kind, iceberg.FloatType):
            return _fit_float(literal.to(iceberg.DoubleType()).value)
        fitting = literal.to(kind)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Invalid(f"the filter does not fit the table: {error}") from None
    if isinstance(kind, iceberg.DecimalType):
        if fitting.value.copy_abs() >= Decimal(1).scaleb(kind.precision - kind.scale):
            return IntAboveMax() if fitting.value > 0 else IntBelowMin()
    return fitting


def _fit_float(value: float) -> Any:
    """Returns a value as a column of floats of 32 bits has it, or the two that it lies between."""
    try:
        (nearest,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return IntAboveMax() if value > 0 else IntBelowMin()
    if nearest == value or math.isnan(value):
        return FloatLiteral(nearest)
    if nearest < value:
        return _BetweenFloats(nearest, _next_float(nearest, 1))
    return _BetweenFloats(_next_float(nearest, -1), nearest)


def _next_float(value: float, direction: int) -> float:
    """Returns the float of 32 bits that follows one, or is before it."""
    if value == 0:
        return direction * _LEAST_FLOAT
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    bits += direction if value > 0 else -direction
    found: float = struct.unpack("<f", struct.pack("<i", bits))[0]
    return found


class _BetweenFloats(msgspec.Struct, frozen=True):
    """A number that no float of 32 bits is, and the two that are next to it."""

    below: float
    above: float

    def fit(self, predicate: Any) -> BooleanExpression:
        """Returns what a comparison with the number means for floats."""
        term = predicate.term
        if isinstance(predicate, LessThan | LessThanOrEqual):
            return LessThanOrEqual(term=term, value=FloatLiteral(self.below))
        if isinstance(predicate, GreaterThan | GreaterThanOrEqual):
            return GreaterThanOrEqual(term=term, value=FloatLiteral(self.above))
        return NotNull(term=term) if isinstance(predicate, NotEqualTo) else AlwaysFalse()


def bind_filter(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Returns an expression whose columns are those of a schema and whose values fit them."""
    try:
        return visit(rewrite_not(expression), _Binding(schema, case_sensitive))
    except (ValueError, TypeError) as error:
        raise Invalid(f"the filter does not fit the table: {error}") from None


class _Binding(BindVisitor):
    """Binds a filter, but lets what is required be NULL, as it is where its struct is NULL."""

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        """Returns a predicate with the field that it names."""
        if not isinstance(predicate, IsNull | NotNull):
            return super().visit_unbound_predicate(predicate)
        found: Any = predicate.term.bind(self.schema, self.case_sensitive)
        field = found.field.model_copy(update={"required": False})
        kind: Any = predicate.as_bound
        return cast("BooleanExpression", kind(BoundReference(field, found.accessor)))


def filtered_fields(bound: BooleanExpression) -> set[int]:
    """Returns the ids of the fields that a filter looks at."""
    return set(extract_field_ids(bound))
