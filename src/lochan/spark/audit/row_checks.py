"""Checks of rows as columns beside a write: what is counted, and what the counts mean.

Spark computes the measures while the rows pass by (`observe`), so they cost no job of their own.
The same measures over a whole table are the answer where a write was not watched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import DoubleType, FloatType

from lochan.base.errors import Bug
from lochan.spark.audit.findings import Finding, bounds_text, is_between, shown
from lochan.spark.checks import Check, Expression, InRange, InSet, Matches, NotNull, RowCount

ROWS: Final = "rows"

Figures = Mapping[str, Any]
"""What was measured, by the names that `measures` gives."""


def measures(checks: Sequence[Check], frame: DataFrame) -> list[Column]:
    """Returns the columns to be computed for these checks, the number of rows first."""
    found = [F.count(F.lit(1)).alias(ROWS)]
    for number, check in enumerate(checks):
        if isinstance(check, RowCount):
            continue
        found.append(F.count_if(_breaks(check, frame)).alias(f"bad_{number}"))
        if isinstance(check, InRange):
            found.append(F.min(check.column).alias(f"min_{number}"))
            found.append(F.max(check.column).alias(f"max_{number}"))
    return found


def find_rows(check: Check, number: int, watched: Sequence[Figures]) -> Finding:
    """Returns what the figures of all writes say of the check with this number."""
    rows = sum(int(one[ROWS]) for one in watched)
    bad = sum(int(one[f"bad_{number}"]) for one in watched)
    seen = f"{bad:,} of {rows:,} rows break it"
    if isinstance(check, InRange):
        low = [one[f"min_{number}"] for one in watched if one[f"min_{number}"] is not None]
        high = [one[f"max_{number}"] for one in watched if one[f"max_{number}"] is not None]
        if low and high:
            seen += f"; values from {shown(min(low))} to {shown(max(high))}"
    return Finding(bad == 0, seen, wanted(check))


def find_count(check: RowCount, rows: int) -> Finding:
    """Returns whether so many rows were to be written."""
    expected = bounds_text(check.min, check.max, " rows")
    return Finding(is_between(rows, check.min, check.max), f"{rows:,} rows", expected)


def wanted(check: Check) -> str:
    """Returns what a check of rows wants, in words."""
    match check:
        case NotNull():
            return f"a value in {', '.join(check.columns)}"
        case InRange():
            return f"{check.column} {bounds_text(check.min, check.max)}"
        case Matches():
            return f"{check.column} like {check.pattern}"
        case InSet():
            return f"{check.column} one of {', '.join(shown(one) for one in check.values)}"
        case Expression():
            return check.sql
    raise Bug(f"{check.kind} is no check of rows")


def _breaks(check: Check, frame: DataFrame) -> Column:
    """Returns a condition that is true, never NULL, for each row that breaks the check."""
    match check:
        case NotNull():
            return reduce(or_, [F.col(one).isNull() for one in check.columns])
        case InRange():
            return _wrong(check.column, _outside(check, frame))
        case Matches():
            # Without the ends a pattern would be satisfied by a part of the value.
            whole = rf"\A(?:{check.pattern})\z"
            return _wrong(check.column, ~F.col(check.column).rlike(whole))
        case InSet():
            return _wrong(check.column, ~F.col(check.column).isin(list(check.values)))
        case Expression():
            return ~F.coalesce(F.expr(check.sql), F.lit(False))
    raise Bug(f"{check.kind} is no check of rows")


def _wrong(column: str, condition: Column) -> Column:
    """Returns a condition on the values of a column; where it has no answer, a value is wrong."""
    # A text that is no number has none against a bound, unless Spark is told to be strict.
    return F.col(column).isNotNull() & F.coalesce(condition, F.lit(True))


def _outside(check: InRange, frame: DataFrame) -> Column:
    column = F.col(check.column)
    parts = []
    if check.min is not None:
        parts.append(column < F.lit(check.min))
    if check.max is not None:
        parts.append(column > F.lit(check.max))
    if isinstance(frame.select(column).schema[0].dataType, (FloatType, DoubleType)):
        # For Spark NaN is larger than everything, so it would pass where there is no maximum.
        parts.append(F.isnan(column))
    return reduce(or_, parts)
