"""Checks of rows as columns beside a write: what is counted, and what the counts mean.

The statistics of the written files have the number of rows, of missing values, and the range of
whole numbers; to use them costs nothing. Other measures are computed by Spark while rows are
written (`observe`), without a job of their own. Where neither is known, the same measures are
computed over the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from types import NoneType
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import (
    AtomicType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    NumericType,
    StructType,
)

from lochan.base.errors import Bug, Invalid
from lochan.spark.audit.findings import Finding, bounds_text, is_between, value_text
from lochan.spark.checks import Check, Expression, InRange, InSet, Matches, NotNull, RowCount
from lochan.spark.write.statistics import ColumnFacts, join_facts

_GOOD_PATTERNS: Final[set[str]] = set()
"""Patterns that Java has taken already, in this process."""

Figures = Mapping[str, Any]
"""What was measured, by the names that `measures` gives."""


class WriteFacts(msgspec.Struct, frozen=True):
    """The facts of the rows of one write.

    `rows` and `columns` are from the statistics of its files, `counted` was measured by Spark.
    """

    rows: int
    columns: Mapping[str, ColumnFacts]
    counted: Figures


def is_answered_by_files(check: Check, schema: StructType) -> bool:
    """Returns whether the files of a frame of this schema will answer a check."""
    match check:
        case RowCount():
            return True
        case NotNull():
            return all(_is_kind(schema, column, AtomicType) for column in check.columns)
        case InRange():
            return _are_numbers(check) and _is_kind(schema, check.column, IntegralType)
    return False


def _are_numbers(check: InRange) -> bool:
    return all(isinstance(end, (int, float, NoneType)) for end in (check.min, check.max))


def _is_kind(schema: StructType, column: str, kind: type) -> bool:
    return column in schema.names and isinstance(schema[column].dataType, kind)


def watch(checks: Sequence[Check], frame: DataFrame) -> list[Column]:
    """Returns the measures to be computed while a frame is written, as its files lack them."""
    schema = frame.schema
    counted = {
        number: check
        for number, check in enumerate(checks)
        if not is_answered_by_files(check, schema)
    }
    try:
        found = measures(counted, frame)
        # Spark is asked for the type of the figures, so that it looks at all columns now.
        _ = frame.agg(F.count(F.lit(1)), *found).schema
    except AnalysisException as error:
        named = ", ".join(check.label() for check in counted.values())
        raise Invalid(
            f"the frame lacks what its checks look at ({named}): {str(error).splitlines()[0]}"
        ) from error
    return found


def measures(checks: Mapping[int, Check], frame: DataFrame) -> list[Column]:
    """Returns the columns to be computed for numbered checks."""
    found: list[Column] = []
    for number, check in checks.items():
        # Not `count_if`, which evaluates its condition twice for each row.
        found.append(F.count(F.when(_breaks(check, frame), 1)).alias(f"bad_{number}"))
        if isinstance(check, InRange):
            # As texts, because Python has no years beyond 9999, and wrong data does.
            is_number = isinstance(_type_of(check.column, frame), NumericType)
            for name, end in (("min", F.min(check.column)), ("max", F.max(check.column))):
                found.append((end if is_number else end.cast("string")).alias(f"{name}_{number}"))
    return found


def find_by_files(check: Check, writes: Sequence[WriteFacts]) -> Finding | None:
    """Returns the finding of a check by the files of all writes, None if they lack the figures."""
    rows = sum(write.rows for write in writes)
    match check:
        case RowCount():
            expected = bounds_text(check.min, check.max, " rows")
            return Finding(is_between(rows, check.min, check.max), f"{rows:,} rows", expected)
        case NotNull():
            known = [_facts_of(writes, column) for column in check.columns]
            nulls = sum(facts.nulls for facts in known if facts is not None)
            finding = Finding(nulls == 0, f"{nulls:,} NULL in {rows:,} rows", expectation(check))
            return None if None in known else finding
        case InRange():
            facts = _facts_of(writes, check.column)
            return None if facts is None else _find_range(check, facts, rows)
    return None


def _find_range(check: InRange, facts: ColumnFacts, rows: int) -> Finding | None:
    if not _are_numbers(check):
        return None
    if facts.least is None or facts.greatest is None:
        # No value at all, or values whose range is not in the files.
        none = Finding(True, f"no value in {rows:,} rows", expectation(check))
        return none if facts.nulls == rows else None
    low, high = facts.least, facts.greatest
    passed = is_between(low, check.min, None) and is_between(high, None, check.max)
    values = f"values from {value_text(facts.least)} to {value_text(facts.greatest)}"
    return Finding(passed, f"{rows:,} rows; {values}", expectation(check))


def _facts_of(writes: Sequence[WriteFacts], column: str) -> ColumnFacts | None:
    found = [write.columns[column] for write in writes if column in write.columns]
    return join_facts(found) if len(found) == len(writes) else None


def find_counted(check: Check, number: int, writes: Sequence[WriteFacts]) -> Finding | None:
    """Returns the finding by the counts of Spark during all writes, None if there are none."""
    if any(f"bad_{number}" not in write.counted for write in writes):
        return None
    rows = sum(write.rows for write in writes)
    return find_rows(check, number, rows, [write.counted for write in writes])


def find_rows(check: Check, number: int, rows: int, watched: Sequence[Figures]) -> Finding:
    """Returns the finding of the check with this number by the figures of some rows."""
    bad = sum(int(figures[f"bad_{number}"]) for figures in watched)
    seen = f"{bad:,} of {rows:,} rows break it"
    if isinstance(check, InRange):
        ends = [(figures[f"min_{number}"], figures[f"max_{number}"]) for figures in watched]
        low = min((low for low, _ in ends if low is not None), key=_far, default=None)
        high = max((high for _, high in ends if high is not None), key=_far, default=None)
        if low is not None and high is not None:
            seen += f"; values from {value_text(low)} to {value_text(high)}"
    return Finding(bad == 0, seen, expectation(check))


def _far(end: Any) -> tuple[bool, Any]:
    """Returns the sort key of an end; the text of a year beyond 9999 begins with a plus."""
    return str(end).startswith("+"), end


def expectation(check: Check) -> str:
    """Returns what a check of rows expects, in words."""
    match check:
        case NotNull():
            return f"a value in {', '.join(check.columns)}"
        case InRange():
            return f"{check.column} {bounds_text(check.min, check.max)}"
        case Matches():
            return f"{check.column} like {check.pattern}"
        case InSet():
            return f"{check.column} one of {', '.join(value_text(value) for value in check.values)}"
        case Expression():
            return check.sql
    raise Bug(f"{check.kind} is no check of rows")


def _breaks(check: Check, frame: DataFrame) -> Column:
    """Returns a condition that is true, never NULL, for each row that breaks the check."""
    match check:
        case NotNull():
            return reduce(or_, [F.col(column).isNull() for column in check.columns])
        case InRange():
            return _wrong(check.column, _outside(check, frame))
        case Matches():
            check_pattern(frame.sparkSession, check)
            return _wrong(check.column, ~F.col(check.column).rlike(_whole(check.pattern)))
        case InSet():
            return _wrong(check.column, ~F.col(check.column).isin(list(check.values)))
        case Expression():
            return ~F.coalesce(F.expr(check.sql), F.lit(False))
    raise Bug(f"{check.kind} is no check of rows")


def check_pattern(spark: SparkSession, check: Matches) -> None:
    """Refuses a pattern that Java does not take by itself, or not with the ends around it.

    One that closes a group which it has not opened would leave the ends: `a)|(?:.*`. What is a
    pattern alone is read in the same way between the ends, unless it ends inside a quotation or a
    comment of its own; then it would take in the closing one, and Java refuses that.
    """
    if check.pattern in _GOOD_PATTERNS:
        return
    both = (check.pattern, _whole(check.pattern))
    try:
        spark.range(1).select(*(F.lit("").rlike(pattern) for pattern in both)).collect()
    except (PySparkException, Py4JError) as error:
        raise Invalid(
            f"{check.label()}: {check.pattern!r} is no pattern by itself: close in it what it "
            r"opens, groups, classes, \Q and comments, and nothing else"
        ) from error
    _GOOD_PATTERNS.add(check.pattern)


def _whole(pattern: str) -> str:
    """Returns a pattern that must match a whole value, not a part of it."""
    return rf"\A(?:{pattern})\z"


def _wrong(column: str, condition: Column) -> Column:
    """Returns a condition on the values of a column; a value for which it is NULL breaks it."""
    # A text that is no number has none against a bound, unless Spark is in ANSI mode.
    return F.col(column).isNotNull() & F.coalesce(condition, F.lit(True))


def _outside(check: InRange, frame: DataFrame) -> Column:
    column = F.col(check.column)
    parts = []
    if check.min is not None:
        parts.append(column < F.lit(check.min))
    if check.max is not None:
        parts.append(column > F.lit(check.max))
    if isinstance(_type_of(check.column, frame), (FloatType, DoubleType)):
        # For Spark NaN is larger than everything, so it would pass where there is no maximum.
        parts.append(F.isnan(column))
    return reduce(or_, parts)


def _type_of(column: str, frame: DataFrame) -> DataType:
    return frame.select(column).schema[0].dataType
