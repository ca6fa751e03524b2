"""Columns of Spark as texts that `sql_conditions` reads.

Through Connect a column is a tree in Python, and is written down exactly. In a classic session it
is an object of the JVM, of which only its own description is asked: names and numbers are not
quoted there, so that less of it can be read. Whether this Spark describes columns in the way that
is known here is tried once.
"""

from __future__ import annotations

import functools
import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.limits.spark_reads import FILTER_CHARACTERS_MAX, FILTER_DEPTH_MAX
from lochan.spark.sql_tokens import condition_tokens, cut_at

# A sign that no condition has a meaning for.
_UNKNOWN: Final = "?"
_SHOWN: Final = re.compile(r"Column<'(.*)'>", re.DOTALL)
_SIGNS: Final = ("=", "==", "<", "<=", ">", ">=", "<=>")
_WORDS: Final = {"and": "and", "or": "or", "in": "in", "not": "!", "!": "!"}
_SIMPLE: Final = re.compile(r"\w+(\.\w+)*")


def text_of(column: Column) -> tuple[str, bool] | None:
    """Returns a column as a text, and whether names are quoted in it; None if it is no text."""
    # Not by its name: every other name of a column is that of a field in it.
    tree = vars(column).get("_expr")
    if tree is not None:
        return _written(tree, 0), True
    if not _is_known_form():
        return None
    found = _SHOWN.fullmatch(str(column))
    if found is None or len(found[1]) > FILTER_CHARACTERS_MAX:
        return None
    return found[1], False


@functools.cache
def _is_known_form() -> bool:
    """Returns whether texts are quoted in the description of a column, and names are not."""
    column = (F.col("a b") == "c, d") & F.col("e").isin("f'g", 5)
    return str(column) == r"Column<'and(=(a b, 'c, d'), in(e, 'f\'g', 5))'>"


def _written(tree: Any, depth: int) -> str:
    """Returns a tree of Connect as a text; what is not known in it is a question mark."""
    if depth > FILTER_DEPTH_MAX:
        return _UNKNOWN
    match type(tree).__name__:
        case "UnresolvedFunction":
            return _function(tree, depth)
        case "ColumnReference":
            name = str(getattr(tree, "_unparsed_identifier", ""))
            if not _SIMPLE.fullmatch(name):
                return _UNKNOWN
            return ".".join(f"`{part}`" for part in name.split("."))
        case "LiteralExpression":
            return _literal(getattr(tree, "_value", None), getattr(tree, "_dataType", None))
        case "SQLExpression":
            # It may hold anything, but what is around it holds still.
            return f"({tree._expr})" if _is_closed(str(tree._expr)) else _UNKNOWN  # noqa: SLF001
        case _:
            return _UNKNOWN


def _is_closed(text: str) -> bool:
    """Returns whether brackets in a text cannot reach what is around it."""
    tokens = condition_tokens(text)
    return tokens is not None and cut_at(tokens, lambda _: False) is not None


def _function(tree: Any, depth: int) -> str:
    name = str(getattr(tree, "_name", ""))
    arguments = [_written(each, depth + 1) for each in getattr(tree, "_args", ())]
    if name in _WORDS:
        return f"{_WORDS[name]}({', '.join(arguments)})"
    if name in _SIGNS and len(arguments) == 2:
        return f"{name}({', '.join(arguments)})"
    if name in ("isNull", "isNotNull") and len(arguments) == 1:
        return f"{arguments[0]} IS {'NOT ' if name == 'isNotNull' else ''}NULL"
    if name == "like" and len(arguments) == 2:
        return f"{arguments[0]} LIKE {arguments[1]}"
    if name == "startsWith" and len(arguments) == 2 and arguments[1].startswith("'"):
        # Only files are left out by it, so that it may match more.
        return f"{arguments[0]} LIKE '{arguments[1][1:-1]}%'"
    return _UNKNOWN


def _literal(value: Any, kind: Any) -> str:
    match type(kind).__name__:
        case "NullType":
            return "NULL"
        case _ if value is None:
            return _UNKNOWN
        case "BooleanType":
            return "TRUE" if value else "FALSE"
        case "ByteType" | "ShortType" | "IntegerType" | "LongType":
            return str(value)
        case "DoubleType" | "FloatType" if math.isfinite(value):
            return f"{value!r}{'D' if type(kind).__name__ == 'DoubleType' else 'F'}"
        case "DecimalType":
            return f"{value:f}BD"
        case "StringType" if "'" not in value and "\\" not in value:
            return f"'{value}'"
        case "BinaryType":
            return f"X'{bytes(value).hex()}'"
        case "DateType" | "TimestampType" | "TimestampNTZType" as name:
            return _moment(value, name)
        case _:
            return _UNKNOWN


def _moment(value: int, name: str) -> str:
    """Returns days or microseconds since 1970 as a literal."""
    try:
        if name == "DateType":
            return f"DATE '{date(1970, 1, 1) + timedelta(days=value)}'"
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    except OverflowError:
        return _UNKNOWN
    text = moment.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return f"TIMESTAMP '{text}Z'" if name == "TimestampType" else f"TIMESTAMP_NTZ '{text}'"
