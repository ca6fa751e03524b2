"""Random conditions on columns of every type, as texts of SQL and as columns of Spark."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

SIGNS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>")
NUMBERS = [
    *("0", "1", "-1", "4", "5", "-5", "-6", "1000", "16777217", "-2147483648", "2147483647"),
    *("2147483648", "9007199254740993", "-9223372036854775808", "9223372036854775807"),
    *("9223372036854775808", "99999999999999999999999999999999999999", "0.5", "1.0", "1.1"),
    *("-0.5", "1.10", "0.0000000001", "0.1", "-1.5", "16777216.5", "9999999.99", "1e0", "1e18"),
    *("1e40", "-1e40", "9.223372036854775807e18", "1.1D", "0.1f", "1.1f", "5L", "5S", "1.5BD"),
    *("0.30000000000000004D", "-0.0D", "0D", "5e-324D", "3.4028235e38", "0.3", "-0.01", "15.0"),
]
DATES = (
    *("0001-01-01", "1582-10-15", "1969-12-31", "1970-01-01", "2024-02-29", "2026-01-01"),
    *("2026-01-15", "9999-12-31", "9999-12-01"),
)
TIMES = ("00:00:00", "12:00:00.000345", "23:59:59.999999", "00:00:00.000001")
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "Z",
    "é",
    "a/b=c d",
    "1",
    "\U0001f600x",
    "2026-01-01",
    "zz",
)
PATTERNS = ("a%", "ab%", "%b", "a_b", "abc", "", "%", "a%b", "Z%", "\U0001f600%", "_%")
UUIDS = [
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "12345678-90ab-cdef-1234-567890abcdef",
    "80000000-0000-0000-0000-000000000000",
    "12345678-90AB-CDEF-1234-567890ABCDEF",
    "8",
]


class Filters:
    """Makes conditions by chance, the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)

    def several(self, kind: str, count: int) -> Iterator[str | Column]:
        """Yields conditions on the column of a kind, and on `w`."""
        for number in range(count):
            if number % 5 == 4:
                column = self._column(kind)
                if column is not None:
                    yield column
                    continue
            yield self._condition(kind, 2)

    def _condition(self, kind: str, depth: int) -> str:
        chance = self._chance
        if depth == 0 or chance.random() < 0.4:
            return self._simple(kind)
        form = chance.choice(
            ["({}) and ({})", "({}) or ({})", "not ({})", "{} and {}", "{} or {}", "NOT {}"]
        )
        inside = [self._condition(kind, depth - 1) for _ in range(form.count("{}"))]
        # Without brackets only what holds together by itself.
        if "(" not in form:
            inside = [self._simple(kind) for _ in inside]
        return form.format(*inside)

    def _simple(self, kind: str) -> str:
        chance = self._chance
        name = kind
        if chance.random() < 0.15:
            kind, name = "int", "w"
        roll = chance.random()
        if roll < 0.1:
            return f"{name} is {chance.choice(['', 'not '])}null"
        if roll < 0.5:
            sign, value = chance.choice(SIGNS), self._literal(kind)
            if chance.random() < 0.2:
                return f"{value} {sign} {name}"
            return f"{name.upper() if chance.random() < 0.1 else name} {sign} {value}"
        if roll < 0.7:
            return self._in(kind, name)
        if roll < 0.85:
            low, high = self._literal(kind), self._literal(kind)
            return f"{name} {chance.choice(['', 'not '])}between {low} and {high}"
        return self._odd(kind, name)

    def _in(self, kind: str, name: str) -> str:
        chance = self._chance
        values = [self._literal(kind) for _ in range(chance.randint(1, 4))]
        if chance.random() < 0.2:
            values.append("NULL")
        return f"{name} {chance.choice(['', 'not '])}in ({', '.join(values)})"

    def _odd(self, kind: str, name: str) -> str:
        """What belongs to one type, or is not read by us."""
        chance = self._chance
        forms = [f"{name} = null", f"coalesce({name} is null, true)", f"{name} <=> null"]
        if kind == "text":
            pattern = chance.choice(PATTERNS)
            forms += [f"{name} {each} '{pattern}'" for each in ("like", "not like", "LIKE")]
            forms += [f"upper({name}) = 'AB'", rf"{name} = 'it\'s'", f"{name} = 'a' 'b'"]
        elif kind == "boolean":
            forms += [name, f"not {name}", f"{name} is true"]
        elif kind in ("float", "double"):
            forms += [f"isnan({name})", f"{name} {chance.choice(SIGNS)} double('NaN')"]
            forms += [f"{name} < float('inf')", f"{name} > double('-Infinity')"]
        elif kind in ("int", "long"):
            forms += [f"cast({name} as string) = '5'", f"{name} % 2 = 0", f"{name} = '5'"]
        elif kind in ("date", "ts", "local"):
            forms += [f"year({name}) = 2026", f"cast({name} as string) > '2026'"]
        return chance.choice(forms)

    def _literal(self, kind: str) -> str:
        chance = self._chance
        match kind:
            case "boolean":
                return chance.choice(["true", "false", "TRUE"])
            case "date":
                day = chance.choice(DATES)
                return chance.choice([f"'{day}'", f"DATE '{day}'", f"date'{day}'", self._moment()])
            case "ts" | "local":
                return self._moment()
            case "text":
                return f"'{chance.choice(TEXTS)}'"
            case "uuid":
                return f"'{chance.choice(UUIDS)}'"
            case "binary" | "fixed":
                word = chance.choice(["", "00", "616263", "ff", "80007f", "00000000", "ffffffff"])
                return f"X'{word}'"
            case _:
                return chance.choice(NUMBERS)

    def _moment(self) -> str:
        chance = self._chance
        day, time = chance.choice(DATES), chance.choice(TIMES)
        between = chance.choice([" ", "T"])
        zone = chance.choice(["", "", "Z", "+05:30", "-08:00"])
        if chance.random() < 0.2:
            return chance.choice([f"'{day}'", f"DATE '{day}'", f"TIMESTAMP '{day} {time}'"])
        word = chance.choice(["", "", "TIMESTAMP ", "TIMESTAMP_NTZ "])
        return f"{word}'{day}{between}{time}{'' if 'NTZ' in word else zone}'"

    def _column(self, kind: str) -> Column | None:
        """A condition as a column, with values of Python."""
        chance, column = self._chance, F.col(kind)
        values = self._values(kind)
        if not values:
            return None
        one, two = chance.choice(values), chance.choice(values)
        simple = [
            column == one,
            column != one,
            column < one,
            column >= one,
            column.isin(one, two),
            column.between(one, two),
            column.eqNullSafe(one),
            column.isNull(),
            F.lit(one) > column,
            F.expr(self._simple(kind)),
        ]
        first, second = chance.choice(simple), chance.choice([*simple, F.col("w") == 1])
        return chance.choice([first, ~first, first & second, first | second, ~(first | second)])

    def _values(self, kind: str) -> list[Any]:
        match kind:
            case "boolean":
                return [True, False]
            case "int" | "long" | "decimal9" | "decimal18" | "decimal38":
                return [0, 5, -5, 2**31 - 1, -(2**31), 2**40, 1.5, 1e18, Decimal("1.10")]
            case "float" | "double":
                return [0.0, -0.0, 1.1, 0.1, 1, math.inf, 1e40, Decimal("1.1"), -1.5]
            case "date":
                # Python writes the year 1 without zeros, and Java does not read that.
                return [dt.date.fromisoformat(each) for each in DATES[1:]] + ["2026-01-01"]
            case "ts" | "local":
                days = [dt.datetime.fromisoformat(each) for each in DATES[2:-2]]
                return [*days, *(each.replace(tzinfo=dt.UTC) for each in days), "2026-01-01"]
            case "text":
                return ["a", "ab", "it's", "a AND w = 1", "é", "", "a', 'b", "a\\"]
            case "binary":
                return [b"", b"abc", b"\xff"]
            case _:
                return []
