"""Filters: one text or expression that chooses both files, by PyIceberg, and rows, by Spark.

Both are made from one parsed expression, so that they can never mean different things. Comparisons
with NULL choose nothing, as in SQL. NaN is larger than every number and equal to itself, as in
Spark; the bounds of files do not count it, nor do those of their row groups, so who asks for what
is larger or another value asks for NaN in words. A column of floats is compared with the float that
is nearest to a value, so that what was written as 0.1 is found by it.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, cast

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
    NotNull,
    Or,
    SetPredicate,
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
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import (
    BindVisitor,
    BooleanExpressionVisitor,
    extract_field_ids,
    rewrite_not,
    visit,
)
from pyiceberg.schema import Schema
from pyparsing import ParseException

from lochan.base.errors import Invalid

_EXACT: Final = Context(prec=100, traps=[Inexact, InvalidOperation])
_NUMBERS: Final = (iceberg.IntegerType, iceberg.LongType, iceberg.DecimalType)
_FLOATS: Final = (iceberg.FloatType, iceberg.DoubleType)
# What NaN is chosen by, whatever the number is: it is larger than all and none of them.
_CHOOSING_NAN: Final = (GreaterThan, GreaterThanOrEqual, NotEqualTo, NotIn)
# What is quoted, a name or a text, and whether a text is the pattern of a LIKE.
_QUOTED: Final = re.compile(
    r"""(?P<like>\blike\s*)?'(?P<text>(?:[^']|'')*)'|"[^"]*"|\\""", re.IGNORECASE
)


def parse_filter(where: str | BooleanExpression | None) -> BooleanExpression:
    """Returns the expression of a filter; everything matches where there is none."""
    if where is None:
        return AlwaysTrue()
    if isinstance(where, BooleanExpression):
        return where
    _check_quoted(where)
    try:
        return parse(where)
    except (ParseException, ValueError) as error:
        raise Invalid(
            f"the filter {where!r} is not understood: {error}; for more than comparisons of "
            "columns with values filter the frame: lake.read(…).where(…)"
        ) from None


def _check_quoted(where: str) -> None:
    """Refuses what means something in SQL that PyIceberg's parser does not know."""
    for found in _QUOTED.finditer(where):
        text = found["text"] or ""
        if found["like"] and "_" in text:
            raise Invalid(
                f"the filter {where!r} has a LIKE with an underscore, which would have to match "
                "any character; filter the frame instead: lake.read(…).where(…)"
            )
        # Spark takes a backslash for the beginning of something else, PyIceberg takes it as it is.
        rest = text.replace("\\%", "") if found["like"] else found[0]
        if "\\" in rest:
            raise Invalid(
                f"the filter {where!r} has a backslash; give a value that has one as an "
                "expression, for example EqualTo('column', 'value')"
            )


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


def file_filter(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Returns what of a fitted expression may choose files; rows are looked at with all of it.

    PyIceberg compares the uuid of a partition with the bytes of another, and finds none. And what
    is required it takes to be there always, although a struct that it is in may be NULL.
    """
    top = {field.field_id for field in schema.fields}

    def is_asked(predicate: Any) -> bool:
        field = _find_field(predicate.term.name, schema, case_sensitive=case_sensitive)
        if isinstance(predicate, IsNull) and field.required:
            return field.field_id in top
        return not isinstance(field.field_type, iceberg.UUIDType)

    return weaken(expression, is_asked)


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
    if isinstance(value, AboveMax | BelowMin):
        return _beyond(predicate, field.field_type, is_above=isinstance(value, AboveMax))
    return cast("BooleanExpression", type(predicate)(predicate.term, value))


def _fit_set(predicate: Any, values: list[Any]) -> BooleanExpression:
    """Returns a predicate on those values that the column can have at all.

    Zero is asked for apart, as readers that look values up tell it from negative zero.
    """
    is_in, term = isinstance(predicate, In), predicate.term
    inside = [each for each in values if not isinstance(each, AboveMax | BelowMin)]
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
    """Returns the nearest float of 32 bits, as bounds of files are compared as they are."""
    try:
        return FloatLiteral(*struct.unpack("<f", struct.pack("<f", value)))
    except OverflowError:
        return IntAboveMax() if value > 0 else IntBelowMin()


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
