"""Expressions of PyIceberg as filters: they choose rows as the same comparison in SQL."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from pyiceberg import expressions
from pyiceberg import types as iceberg
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid
from lochan.spark.read.filters import Domain, can_match
from lochan.spark.read.predicates import ExpressionFilter
from lochan.spark.schemas import to_spark
from tests.profile import counted

# The stubs know only names of arguments that are never written.
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
VALUES = {
    "i": [None, -(2**31), 0, 5, 2**31 - 1],
    "l": [None, -(2**63), 5, 2**63 - 1],
    "f": [None, -math.inf, 0.0, TENTH, 5.0, math.inf],
    "d": [None, -math.inf, -0.0, 0.1, 5.0, math.inf],
    "m": [None, Decimal("-9999999.99"), Decimal("5.00"), Decimal("9999999.99")],
}


def utc() -> str:
    return "UTC"


BEYOND = {"i": 3 * 10**9, "l": 10**19, "f": 10**39, "d": 10**39, "m": 99999999999}


def filter_of(where: str | BooleanExpression, schema: Schema = COLUMNS) -> ExpressionFilter:
    expression = parse(where) if isinstance(where, str) else where
    return ExpressionFilter(expression, schema, case_sensitive=True)


Where = str | BooleanExpression


class Finder:
    """Finds the values of a column that filters choose; all filters of a test run in one job."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __call__(self, where: Where, column: str, values: list | None = None) -> list:
        return self.each([where], column, values)[0]

    def each(self, wheres: Sequence[Where], column: str, values: list | None = None) -> list[list]:
        """Returns what each filter chooses; no file with one of these values is left out."""
        frame = self._spark.createDataFrame(
            [
                dict.fromkeys(COLUMNS.column_names) | {column: each}
                for each in (VALUES[column] if values is None else values)
            ],
            to_spark(COLUMNS, ids=False),
        ).coalesce(1)
        filters = [filter_of(where) for where in wheres]
        parts = [
            frame.where(each.column()).select(F.lit(at).alias("at"), F.col(column))
            for at, each in enumerate(filters)
        ]
        rows: list[list] = [[] for _ in filters]
        for row in reduce(lambda one, two: one.unionAll(two), parts).collect():
            rows[row["at"]].append(row[column])
        for chosen, where, found in zip(filters, wheres, rows, strict=True):
            check_files(chosen, where, column, found)
        return rows

    def check(self, expected: dict[str, list], column: str, values: list | None = None) -> None:
        """Compares what filters choose with what is expected of each."""
        found = self.each(list(expected), column, values)
        assert dict(zip(expected, found, strict=True)) == expected


def check_files(chosen: ExpressionFilter, where: Where, column: str, rows: list) -> None:
    """Checks that a file with nothing but one of these values is read."""
    field = COLUMNS.find_field(column)
    for value in rows:
        is_nan = isinstance(value, float) and math.isnan(value)
        end = None if is_nan else value
        alone = Domain(end, end, end is None, may_be_null=value is None, may_be_nan=is_nan)
        domains = {each.field_id: Domain(is_empty=True) for each in COLUMNS.fields}
        domains[field.field_id] = alone
        assert can_match(chosen.node(utc), domains.__getitem__), (where, value)


@pytest.fixture
def found(spark):
    return Finder(spark)


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


@pytest.mark.parametrize("column", list(VALUES)[:: counted(2, 1)])
def test_a_value_beyond_its_column_means_what_it_means_in_sql(found, column):
    beyond = BEYOND[column]
    below, above = numbers(column, "<"), numbers(column, ">")
    there = numbers(column)
    found.check(
        {
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
        },
        column,
    )


@pytest.mark.parametrize("column", list(VALUES)[:: counted(2, 1)])
def test_not_leaves_null_out_where_a_value_is_beyond_its_column(found, column):
    beyond = BEYOND[column]
    below, above = numbers(column, "<"), numbers(column, ">")
    there = numbers(column)
    found.check(
        {
            f"not {column} < {beyond}": above,
            f"not {column} > {beyond}": below,
            f"not {column} = {beyond}": there,
            f"not {column} != {beyond}": [],
            f"not ({column} < {beyond} or {column} is null)": above,
            f"not not {column} < {beyond}": below,
        },
        column,
    )


@pytest.mark.parametrize("column", list(VALUES)[:: counted(2, 1)])
def test_a_set_has_only_values_that_its_column_can_have(found, column):
    beyond, there = BEYOND[column], numbers(column)
    rest = [each for each in there if each != 5]
    found.check(
        {
            f"{column} in ({beyond}, 5)": [5],
            f"{column} in ({beyond}, -{beyond})": [],
            f"{column} in ({beyond}, -{beyond}, 5, 6)": [5],
            f"{column} not in ({beyond}, 5)": rest,
            f"not ({column} in ({beyond}, 5) or {column} is null)": rest,
            f"{column} not in ({beyond}, -{beyond})": there,
            f"not {column} not in ({beyond}, 5)": [5],
        },
        column,
    )


def test_a_float_is_compared_as_a_double(found):
    found.check(
        {
            "f = 0.1": [],
            "f in (0.1, 5.0)": [5.0],
            "f >= 0.1": [TENTH, 5.0, math.inf],
            "f > 0.1": [TENTH, 5.0, math.inf],
            "f <= 0.1": [-math.inf, 0.0],
            "f < 0.1": [-math.inf, 0.0],
            "f != 0.1": [-math.inf, 0.0, TENTH, 5.0, math.inf],
            "f not in (0.1, 5.0)": [-math.inf, 0.0, TENTH, math.inf],
        },
        "f",
    )
    tiny = (X.EqualTo("f", TENTH), X.LessThan("f", 1e-60), X.LessThan("f", -1e-60))
    expected = [[TENTH], [-math.inf, 0.0], [-math.inf], [0.0, TENTH, 5.0, math.inf]]
    assert found.each([*tiny, X.GreaterThan("f", -1e-60)], "f") == expected


@pytest.mark.parametrize("column", ["f", "d"])
def test_infinity_is_a_number_too(found, column):
    filters = [X.EqualTo(column, math.inf), X.In(column, [-math.inf, 5.0])]
    assert found.each(filters, column) == [[math.inf], [-math.inf, 5.0]]


@pytest.mark.parametrize("column", ["f", "d"])
def test_zero_is_not_one_of_many_values_that_are_looked_up(found, column):
    zeros, many = [0.0, -0.0], [float(each) for each in range(20, 40)]
    filters = [
        made
        for value in zeros
        for made in (
            X.EqualTo(column, value),
            X.In(column, [value, *many]),
            X.NotIn(column, [value, *many]),
            X.LessThan(column, value),
        )
    ]
    chosen = [zeros, zeros, [1.0, -1.0], [-1.0]] * 2
    assert found.each(filters, column, [*zeros, 1.0, -1.0]) == chosen


@pytest.mark.parametrize("column", ["f", "d"])
def test_nan_is_chosen_by_what_it_is_larger_than_and_by_what_it_is_not(found, column):
    choosing = (">= 5", "> 5", "!= 5", "not in (1.0, 5.0)", f"> {10**39}", f"!= {10**39}")
    others = ("<= 5", "< 5", "= 5", "in (1.0, 5.0)", f"< {10**39}", "is null")
    filters = [X.IsNaN(column), *(f"{column} {where}" for where in (*choosing, *others))]
    counts = [len(each) for each in found.each(filters, column, [math.nan])]
    assert counts == [1] * (1 + len(choosing)) + [0] * len(others)
    assert found(X.NotNaN(column), column, [math.nan, 1.0, None]) == [1.0, None]


def test_no_whole_number_and_no_text_is_nan(found):
    assert found.each([X.IsNaN("i"), X.NotNaN("i")], "i") == [[], VALUES["i"]]
    assert found(X.IsNaN("s"), "s", ["a", None]) == []


def test_texts_are_compared_and_found_by_their_beginnings(found):
    texts = ["", "a", "ab", "b", None]
    filters = [X.StartsWith("s", "a"), X.NotStartsWith("s", "a"), X.GreaterThan("s", "a")]
    assert found.each(filters, "s", texts) == [["a", "ab"], ["", "b"], ["ab", "b"]]


def test_a_number_is_not_rounded_to_its_column(found):
    filters = [X.GreaterThan("i", 4.5), X.EqualTo("i", 4.5), X.EqualTo("i", "5")]
    assert found.each(filters, "i") == [[5, 2**31 - 1], [], [5]]
    filters = [X.LessThan("m", Decimal("5.001")), X.EqualTo("m", 5.0)]
    assert found.each(filters, "m") == [[Decimal("-9999999.99"), 5], [5]]


@pytest.mark.parametrize("value", ["five", True, b"5"])
def test_what_is_no_number_is_not_compared_with_one(value):
    with pytest.raises(Invalid, match="the filter does not fit the table: i: "):
        filter_of(X.EqualTo("i", value)).node(utc)


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


def test_what_is_required_in_a_struct_may_be_null_with_the_struct(spark):
    frame = spark.createDataFrame(
        [(None, 1), ((1, None), 2), ((None, None), 3)], "s struct<r: int, o: int>, id int"
    )
    for where, expected in {"s.r is null": [1, 3], "s.r < 3000000000": [2]}.items():
        rows = frame.where(filter_of(where, NESTED).column()).select(F.col("id")).collect()
        assert [row["id"] for row in rows] == expected, where


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
        node = filter_of(where, NESTED).node(utc)
        assert can_match(node, known.__getitem__) == is_kept, where
