"""Checks of tables as they will be published: each one looks at one commit and at nothing else.

A table is always read by the hash of the commit that is judged, never by the name of a branch, so
what is seen here cannot change before it is published.
"""

from __future__ import annotations

import logging
import operator
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import reduce
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType

from lochan.base.errors import Bug, Invalid
from lochan.base.limits.audits import FRESH_AHEAD_S_MAX, FRESH_DATE_AHEAD_S_MAX
from lochan.iceberg.names import key_of
from lochan.spark.audit.findings import Finding, bounds_text, is_between, value_text
from lochan.spark.checks import (
    Check,
    Custom,
    Fresh,
    Query,
    RefersTo,
    Schema,
    TableRows,
    Unique,
)

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_DAY_S: Final = 86_400

# Names of views that there never are begin so.
_ABSENT: Final = "lochan_audit_absent_"

# Under this name Spark logs errors of SQL.
_LOGGER: Final = "SQLQueryContextLogger"

_ALIASES: Final = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "bool": "boolean",
    "text": "string",
}

_COMPARE: Final[dict[str, tuple[str, Callable[[Any, Any], Any]]]] = {
    "equals": ("", operator.eq),
    "at_least": ("at least ", operator.ge),
    "at_most": ("at most ", operator.le),
}


class CheckContext(msgspec.Struct, frozen=True):
    """What a check reads: a commit, and the state of the target that it is compared with."""

    lake: Lake
    commit: str
    target: str

    def table(self, name: str) -> DataFrame:
        """Returns a table as it will be published."""
        return self.lake.read(name, ref=self.commit)

    def target_table(self, name: str) -> DataFrame | None:
        """Returns a table as the target has it, None if it has none."""
        found, _ = self.lake.client.contents.get_many(self.target, [key_of(name)])
        return self.lake.read(name, ref=self.target) if found else None


def find_state(check: Check, context: CheckContext) -> Finding:
    """Runs a check on tables and returns its finding; errors are raised as they are."""
    find = _FINDERS.get(type(check))
    if find is None:
        raise Bug(f"{check.kind} is no check of tables")
    return find(check, context)


def _table_rows(check: TableRows, context: CheckContext) -> Finding:
    rows = context.table(check.table).count()
    passed = is_between(rows, check.min, check.max)
    expected = []
    if check.min is not None or check.max is not None:
        expected.append(bounds_text(check.min, check.max, " rows"))
    observed = f"{rows:,} rows"
    if check.percent_of_target is not None:
        target = context.target_table(check.table)
        before = 0 if target is None else target.count()
        passed = passed and rows * 100 >= before * check.percent_of_target
        expected.append(f"at least {check.percent_of_target:g} % of the target's {before:,} rows")
    return Finding(passed, observed, ", ".join(expected))


def _schema(check: Schema, context: CheckContext) -> Finding:
    found = {
        field.name: field.dataType.simpleString() for field in context.table(check.table).schema
    }
    columns = {name: _type_text(text) for name, text in check.columns.items()}
    wrong = [
        f"{name} is {found.get(name, 'missing')}"
        for name, text in columns.items()
        if found.get(name) != text
    ]
    if check.exact:
        wrong += [f"{name} is surplus" for name in found if name not in columns]
    expected = ", ".join(f"{name} {text}" for name, text in columns.items())
    observed = "; ".join(wrong) or f"{len(found)} columns, as wanted"
    return Finding(not wrong, value_text(observed), value_text(expected))


def _unique(check: Unique, context: CheckContext) -> Finding:
    # Under names of our own, because a column may have any.
    named = [F.col(column).alias(f"c{number}") for number, column in enumerate(check.columns)]
    keyed = context.table(check.table).select(*named)
    groups = keyed.groupBy(*keyed.columns).agg(F.count(F.lit(1)).alias("times"))
    twice = groups.where("times > 1").agg(F.count(F.lit(1)), F.sum(F.col("times") - 1)).collect()
    keys, surplus = twice[0]
    expected = f"{', '.join(check.columns)} only once"
    if not keys:
        return Finding(True, "no key occurs more than once", expected)
    seen = f"{keys:,} keys occur more than once, {surplus:,} rows too many"
    return Finding(False, seen, expected)


def _fresh(check: Fresh, context: CheckContext) -> Finding:
    expected = f"not older than {check.age_s_max:,.0f} s"
    times = context.table(check.table).select(F.col(check.column).alias("time"))
    kind = times.schema[0].dataType
    latest_s = _latest_s(times, kind)
    if latest_s is None:
        return Finding(False, "no time at all", expected)
    age_s = time.time() - latest_s
    ahead_s_max = FRESH_DATE_AHEAD_S_MAX if isinstance(kind, DateType) else FRESH_AHEAD_S_MAX
    if age_s < -ahead_s_max:
        # A wrong unit or a wrong clock would make the table fresh for years.
        return Finding(False, f"{-age_s:,.0f} s in the future", expected)
    return Finding(age_s <= check.age_s_max, f"{age_s:,.0f} s old", expected)


def _latest_s(times: DataFrame, kind: DataType) -> float | None:
    """Returns the latest time in seconds since 1970, None if there is none.

    What has no zone is taken as UTC, whatever the zone of the session is.
    """
    latest = F.max("time")
    match kind:
        case TimestampType():
            found = times.select(F.unix_micros(latest)).collect()[0][0]
            return None if found is None else float(found / 1e6)
        case TimestampNTZType():
            found = times.select(latest).collect()[0][0]
            return None if found is None else float(found.replace(tzinfo=UTC).timestamp())
        case DateType():
            found = times.select(F.unix_date(latest)).collect()[0][0]
            return None if found is None else float(found * _DAY_S)
    raise Invalid(f"a fresh column is a date or a timestamp, not {kind.simpleString()}")


def _refers_to(check: RefersTo, context: CheckContext) -> Finding:
    names = [f"c{number}" for number in range(len(check.columns))]
    left = context.table(check.table).select(
        *(F.col(column).alias(name) for column, name in zip(check.columns, names, strict=True))
    )
    there = check.other_columns or check.columns
    right = context.table(check.other).select(
        *(F.col(column).alias(name) for column, name in zip(there, names, strict=True))
    )
    whole = reduce(operator.and_, [F.col(name).isNotNull() for name in names])
    lost = left.where(whole).join(right.distinct(), names, "left_anti").count()
    return Finding(
        lost == 0, f"{lost:,} rows refer to nothing", f"every row found in {check.other}"
    )


def _query(check: Query, context: CheckContext) -> Finding:
    spark = context.lake.spark
    views: dict[tuple[bool, str], str] = {}
    try:
        for is_target, table in dict.fromkeys(check.places()):
            frame = context.target_table(table) if is_target else context.table(table)
            if frame is None:
                # The target has no such table yet: it is compared with none of its rows.
                frame = context.table(table).limit(0)
            views[is_target, table] = f"lochan_audit_{token_hex(8)}"
            frame.createOrReplaceTempView(views[is_target, table])
        _check_read(check, spark, views)
        found = spark.sql(check.filled(views))
        if not check.bounds():
            rows = found.count()
            return Finding(rows == 0, f"{rows:,} rows", "no rows")
        return _value(check, found)
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


def _is_unwanted(record: logging.LogRecord) -> bool:
    """Returns whether a log record is not about one of our absent views."""
    return _ABSENT not in record.getMessage()


def _check_read(check: Query, spark: SparkSession, views: Mapping[tuple[bool, str], str]) -> None:
    """Refuses a query that names a table and does not read it, for example as an alias.

    Spark itself is asked: without the view of that table it cannot understand the query.
    """
    # Spark writes errors of queries to standard error, and these are wanted.
    PySparkLogger.getLogger(_LOGGER).addFilter(_is_unwanted)
    for place in views:
        absent = f"{_ABSENT}{token_hex(8)}"
        try:
            # The columns are asked for, because through Connect nothing else is looked at yet.
            _ = spark.sql(check.filled({**views, place: absent})).schema
        except AnalysisException:
            continue
        raise Invalid(f"the query names {place[1]} and does not read it")


def _value(check: Query, found: DataFrame) -> Finding:
    rows = found.limit(2).collect()
    if len(rows) != 1 or len(rows[0]) != 1:
        raise Invalid("the query must return one row of one column")
    value = rows[0][0]
    expected = {f"{_COMPARE[name][0]}{value_text(bound)}" for name, bound in check.bounds().items()}
    passed = value is not None and all(
        bool(_COMPARE[name][1](value, bound)) for name, bound in check.bounds().items()
    )
    return Finding(passed, value_text(value), ", ".join(sorted(expected)))


def _custom(check: Custom, context: CheckContext) -> Finding:
    answer = check.function(context.table(check.table))
    passed, observed = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    if not _is_truth_value(passed):
        raise Invalid(f"the function returned {type(passed).__name__}; it must be True or False")
    return Finding(bool(passed), value_text(bool(passed) if observed is None else observed), "true")


def _is_truth_value(value: object) -> bool:
    """Returns whether a value is True or False, of Python or of numpy, and no number."""
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def _type_text(text: str) -> str:
    plain = "".join(text.split())
    # Names of fields inside a struct keep their case.
    return plain if "<" in plain else _ALIASES.get(plain.lower(), plain.lower())


_FINDERS: Final[Mapping[type[Check], Callable[[Any, CheckContext], Finding]]] = {
    TableRows: _table_rows,
    Schema: _schema,
    Unique: _unique,
    Fresh: _fresh,
    RefersTo: _refers_to,
    Query: _query,
    Custom: _custom,
}
