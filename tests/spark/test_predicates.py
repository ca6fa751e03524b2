"""Filters, fitted to the columns that they look at; no session is needed to see what they mean."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import expressions
from pyiceberg import types as iceberg
from pyiceberg.expressions import AlwaysFalse, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from lochan.spark.read.filters import Domain, can_match
from lochan.spark.read.predicates import bind_filter, fit_filter, node_of

# The stubs know only names of arguments that nobody writes.
X: Any = expressions
TENTH = struct.unpack("<f", struct.pack("<f", 0.1))[0]
COLUMNS = Schema(
    iceberg.NestedField(1, "i", iceberg.IntegerType(), required=False),
    iceberg.NestedField(2, "l", iceberg.LongType(), required=False),
    iceberg.NestedField(3, "f", iceberg.FloatType(), required=False),
    iceberg.NestedField(4, "d", iceberg.DoubleType(), required=False),
    iceberg.NestedField(5, "m", iceberg.DecimalType(9, 2), required=False),
    iceberg.NestedField(6, "s", iceberg.StringType(), required=False),
)
NAMES = COLUMNS.column_names
VALUES = {
    "i": [None, -(2**31), 0, 5, 2**31 - 1],
    "l": [None, -(2**63), 5, 2**63 - 1],
    "f": [None, -math.inf, 0.0, TENTH, 5.0, math.inf],
    "m": [None, Decimal("-9999999.99"), Decimal("5.00"), Decimal("9999999.99")],
}
BEYOND = {"i": 3 * 10**9, "l": 10**19, "f": 10**39, "m": 99999999999}


def fitted(where: str | BooleanExpression) -> BooleanExpression:
    expression = parse(where) if isinstance(where, str) else where
    return fit_filter(expression, COLUMNS, case_sensitive=True)


def found(where: str | BooleanExpression, column: str) -> list:
    """The values of a column that a filter chooses, by PyIceberg: it lets NULL differ from 5."""
    is_chosen = expression_evaluator(COLUMNS, fitted(where), case_sensitive=True)
    rows = [
        Record(*[each if name == column else None for name in NAMES]) for each in VALUES[column]
    ]
    return [row[NAMES.index(column)] for row in rows if is_chosen(row)]


def numbers(column: str, sign: str = "!=") -> list:
    """What SQL finds, never NULL, by a comparison with what is beyond the column, or below it."""
    beyond = BEYOND[column]
    meant = {
        "<": lambda each: each < beyond,
        ">": lambda each: each > beyond,
        "< -": lambda each: each < -beyond,
        "> -": lambda each: each > -beyond,
        "!=": lambda each: each != beyond,
    }
    return [each for each in VALUES[column] if each is not None and meant[sign](each)]


@pytest.mark.parametrize("column", VALUES)
def test_a_value_beyond_its_column_means_what_it_means_in_sql(column):
    beyond = BEYOND[column]
    below, above = numbers(column, "<"), numbers(column, ">")
    there = numbers(column)
    for where, expected in {
        f"{column} < {beyond}": below,
        f"{column} <= {beyond}": below,
        f"{column} > {beyond}": above,
        f"{column} >= {beyond}": above,
        f"{column} = {beyond}": [],
        f"{column} != {beyond}": there,
        f"{column} > -{beyond}": numbers(column, "> -"),
        f"{column} >= -{beyond}": numbers(column, "> -"),
        f"{column} < -{beyond}": numbers(column, "< -"),
        f"{column} <= -{beyond}": numbers(column, "< -"),
        f"{column} = -{beyond}": [],
        f"{column} != -{beyond}": there,
    }.items():
        assert found(where, column) == expected, where


@pytest.mark.parametrize("column", VALUES)
def test_not_leaves_null_out_where_a_value_is_beyond_its_column(column):
    beyond = BEYOND[column]
    below, above = numbers(column, "<"), numbers(column, ">")
    there = numbers(column)
    for where, expected in {
        f"not {column} < {beyond}": above,
        f"not {column} > {beyond}": below,
        f"not {column} = {beyond}": there,
        f"not {column} != {beyond}": [],
        f"not ({column} < {beyond} or {column} is null)": above,
        f"not not {column} < {beyond}": below,
    }.items():
        assert found(where, column) == expected, where


@pytest.mark.parametrize("column", VALUES)
def test_a_set_has_only_values_that_its_column_can_have(column):
    beyond, there = BEYOND[column], numbers(column)
    rest = [each for each in there if each != 5]
    for where, expected in {
        f"{column} in ({beyond}, 5)": [5],
        f"{column} in ({beyond}, -{beyond})": [],
        f"{column} in ({beyond}, -{beyond}, 5, 6)": [5],
        f"{column} not in ({beyond}, 5) and {column} is not null": rest,
        f"not ({column} in ({beyond}, 5) or {column} is null)": rest,
        f"{column} not in ({beyond}, -{beyond})": there,
        f"not {column} not in ({beyond}, 5)": [5],
    }.items():
        assert found(where, column) == expected, where
    assert isinstance(fitted(f"{column} in ({beyond}, -{beyond})"), AlwaysFalse)


def test_a_float_is_compared_as_a_double():
    for where, expected in {
        "f = 0.1": [],
        "f in (0.1, 5.0)": [5.0],
        "f >= 0.1": [TENTH, 5.0, math.inf],
        "f > 0.1": [TENTH, 5.0, math.inf],
        "f <= 0.1": [-math.inf, 0.0],
        "f < 0.1": [-math.inf, 0.0],
        "f != 0.1 and f is not null": [-math.inf, 0.0, TENTH, 5.0, math.inf],
        "f not in (0.1, 5.0) and f is not null": [-math.inf, 0.0, TENTH, math.inf],
    }.items():
        assert found(where, "f") == expected, where
    assert found(X.EqualTo("f", TENTH), "f") == [TENTH]
    bound: Any = bind_filter(fitted(X.LessThan("f", 0.1)), COLUMNS, case_sensitive=True)
    assert bound.literal.value < 0.1 < TENTH
    assert found(X.LessThan("f", 1e-60), "f") == [-math.inf, 0.0]
    assert found(X.LessThan("f", -1e-60), "f") == [-math.inf]
    assert found(X.GreaterThan("f", -1e-60), "f") == [0.0, TENTH, 5.0, math.inf]


def test_infinity_is_a_float_too():
    assert found(X.EqualTo("f", math.inf), "f") == [math.inf]
    assert found(X.In("f", [-math.inf, 5.0]), "f") == [-math.inf, 5.0]


@pytest.mark.parametrize("column", ["f", "d"])
def test_zero_is_not_one_of_many_values_that_are_looked_up(column):
    assert fitted(X.In(column, [0.0, 1.0, 2.0])) == fitted(
        f"{column} = 0.0 or {column} in (1.0, 2.0)"
    )
    apart: Any = fitted(X.NotIn(column, [-0.0, 1.0, 2.0]))
    none_of_them: Any = fitted(f"{column} != 0.0 and {column} not in (1.0, 2.0)")
    assert apart.left == X.And(none_of_them.left.left, none_of_them.right.left)


@pytest.mark.parametrize("column", ["f", "d"])
def test_nan_is_chosen_by_what_it_is_larger_than_and_by_what_it_is_not(column):
    is_nan = X.IsNaN(column)
    for where in (">= 5", "> 5", "!= 5", "not in (1.0, 5.0)", f"> {10**39}", f"!= {10**39}"):
        expression: Any = fitted(f"{column} {where}")
        assert (type(expression), expression.right) == (X.Or, is_nan), where
    for where in ("<= 5", "< 5", "= 5", "in (1.0, 5.0)", f"< {10**39}", "is null", "is not null"):
        assert "IsNaN" not in repr(fitted(f"{column} {where}")), where
    assert "IsNaN" not in repr(fitted("i > 5 or m != 5 or s > 'a'"))


NESTED = Schema(
    iceberg.NestedField(
        1,
        "s",
        iceberg.StructType(
            iceberg.NestedField(2, "r", iceberg.IntegerType(), required=True),
            iceberg.NestedField(3, "o", iceberg.IntegerType(), required=False),
        ),
        required=False,
    ),
    iceberg.NestedField(4, "id", iceberg.IntegerType(), required=True),
)


def test_what_is_required_in_a_struct_may_be_null_with_the_struct():
    for where, expected in {
        "s.r is null": X.BoundIsNull,
        "s.r < 3000000000": X.BoundNotNull,
    }.items():
        fitting = fit_filter(parse(where), NESTED, case_sensitive=True)
        assert isinstance(bind_filter(fitting, NESTED, case_sensitive=True), expected), where


def test_files_are_left_out_only_by_what_is_known_of_them():
    known = {
        2: Domain(1, 5, may_be_nan=False),
        3: Domain(1, 5, may_be_null=False, may_be_nan=False),
        4: Domain(7, 7, may_be_nan=False),
    }
    for where, is_kept in {
        "s.r is null": True,
        "s.r is null and s.o = 9": False,
        "s.r is null or s.o = 9": True,
        "s.o is null": False,
        "not s.o in (2, 3)": True,
        "id not in (7, 8)": False,
        "id != 7 or s.r > 5": False,
        "not (id = 7 and s.r > 1)": True,
    }.items():
        fitting = fit_filter(parse(where), NESTED, case_sensitive=True)
        node = node_of(fitting, NESTED, case_sensitive=True)
        assert can_match(node, known.__getitem__) == is_kept, where
