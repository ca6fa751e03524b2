"""Literals of SQL, and what Spark makes of them and of a column before it compares both.

Only what holds both in ANSI mode and without it is returned; everything else is None, and then the
comparison chooses no files. Where Spark compares as double, the column's ends are made doubles,
and moved one further out where that may round.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec
from pyiceberg import types as iceberg

from lochan.spark.read.domains import DAY_MICROS, EXACT, FLOATS, day_of
from lochan.spark.read.filters import Comparand
from lochan.spark.write.bounds import upper_of_text

DECIMAL_DIGITS_MAX: Final = 38
LONG_BITS: Final = 63
_INT_BITS: Final = 31
_FLOAT_STEP: Final = 2.0**-22
_FLOAT_LEAST: Final = 2.0**-149
# How many digits Spark gives to whole numbers before it compares them with decimals.
_WHOLE_DIGITS: Final[dict[Any, int]] = {iceberg.IntegerType: 10, iceberg.LongType: 20}
# The furthest that a zone may be from UTC, as Java has it.
_ZONE_MICROS_MAX: Final = 18 * 3_600_000_000
_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SqlLiteral(msgspec.Struct, frozen=True):
    """A value in a text of SQL.

    Kinds: integer, decimal, double, float, number (one of the three before, not known which), text,
    date, timestamp (in the zone of the session or its own), local (without zone), somewhere (in a
    zone that is not known), boolean, bytes.
    """

    kind: str
    value: Any


Zone = Callable[[], str]
"""Returns the time zone of a session, which is asked for only where it matters."""

# Zones in which times without a zone are those of UTC.
_UTC: Final = ("UTC", "ETC/UTC", "GMT", "Z", "UTC+00:00", "+00:00")


def comparands(
    kind: iceberg.IcebergType, literals: Sequence[SqlLiteral], zone: Zone
) -> tuple[Comparand, ...] | None:
    """Returns what a column is compared with, for literals that Spark compares as one type."""
    if not literals:
        return None
    kinds = {each.kind for each in literals}
    if isinstance(kind, iceberg.IntegerType | iceberg.LongType | iceberg.DecimalType):
        if kinds <= {"integer", "decimal"}:
            return _as_decimals(kind, literals)
        return _all(_as_double(each) for each in literals) if kinds == {"double"} else None
    if len(literals) > 1 and len(kinds) > 1:
        return None
    return _all(_single(kind, each, zone) for each in literals)


def alternatives(
    kind: iceberg.IcebergType, literal: SqlLiteral, zone: Zone
) -> tuple[Comparand, ...] | None:
    """Returns what a column may be compared with: several if the literal's type is not known."""
    if literal.kind != "number":
        return comparands(kind, [literal], zone)
    several = [
        comparands(kind, [SqlLiteral(each, _number(literal.value, each))], zone)
        for each in ("decimal", "double", "float")
        # Spark compares whole numbers and decimals with a float as it does with a double.
        if each != "float" or isinstance(kind, FLOATS)
    ]
    found = _all(None if each is None else each[0] for each in several)
    if found is None or isinstance(kind, FLOATS):
        return found
    as_float = _as_double(SqlLiteral("double", _number(literal.value, "float")))
    return None if as_float is None else (*found, as_float)


def is_beyond(kind: iceberg.IcebergType, literals: Sequence[SqlLiteral]) -> bool:
    """Returns whether whole numbers are compared with a number outside of their range.

    Spark answers such a comparison for all rows alike, those with NULL too.
    """
    is_whole = isinstance(kind, iceberg.IntegerType | iceberg.LongType)
    return is_whole and any(
        each.kind in ("integer", "decimal", "number") and abs(Decimal(each.value)) >= 1 << _INT_BITS
        for each in literals
        if each.kind != "integer" or abs(each.value) >= 1 << LONG_BITS
    )


def prefix_comparand(text: str) -> Comparand:
    """Returns the range of texts that begin with a text; its upper end may be None."""
    return Comparand(text, upper_of_text(text + "\0", len(text)))


def _number(text: str, kind: str) -> Any:
    if kind == "decimal":
        return Decimal(text)
    return to_float(text) if kind == "float" else float(text)


def to_float(text: str) -> float:
    """Returns the float of 32 bits that a text means."""
    try:
        found: float = struct.unpack("<f", struct.pack("<f", float(text)))[0]
    except OverflowError:
        return math.copysign(math.inf, float(text))
    return found


def _all(found: Any) -> tuple[Comparand, ...] | None:
    several = tuple(found)
    return None if any(each is None for each in several) else several


def _as_decimals(
    kind: iceberg.IcebergType, literals: Sequence[SqlLiteral]
) -> tuple[Comparand, ...] | None:
    """Returns exact comparands, if one decimal type holds all literals and the column."""
    if isinstance(kind, iceberg.DecimalType):
        whole, scale = kind.precision - kind.scale, kind.scale
    else:
        whole, scale = _WHOLE_DIGITS[type(kind)], 0
    for each in literals:
        digits = _digits(each)
        whole, scale = max(whole, digits[0]), max(scale, digits[1])
    if whole + scale > DECIMAL_DIGITS_MAX:
        return None
    return tuple(Comparand(each.value, each.value, None, _held(kind, each)) for each in literals)


def _digits(literal: SqlLiteral) -> tuple[int, int]:
    """Returns digits before and after the point, as many as Spark gives to a literal at most."""
    _, digits, exponent = Decimal(literal.value).as_tuple()
    scale = max(-int(exponent), 0)
    whole = max(len(digits) + max(int(exponent), 0) - scale, 0)
    if literal.kind == "integer":
        is_long = abs(literal.value) >= 1 << _INT_BITS
        whole = max(whole, _WHOLE_DIGITS[iceberg.LongType if is_long else iceberg.IntegerType])
    return whole, scale


def _held(kind: iceberg.IcebergType, literal: SqlLiteral) -> Any:
    """Returns a number in the type of the column, None if that would change it."""
    value = Decimal(literal.value)
    if isinstance(kind, iceberg.DecimalType):
        cut = value.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
        return cut if cut == value else None
    is_held = value == value.to_integral_value() and abs(value) < 1 << LONG_BITS
    return int(value) if is_held else None


def _as_double(literal: SqlLiteral) -> Comparand | None:
    value = float(literal.value)
    return None if math.isnan(value) else Comparand(value, value, _rounded)


def _rounded(value: Any, direction: int) -> float:
    """Returns an end as a double, moved outwards by one step."""
    return math.nextafter(float(value), direction * math.inf)


def _single(kind: iceberg.IcebergType, literal: SqlLiteral, zone: Zone) -> Comparand | None:
    value = literal.value
    match kind:
        case iceberg.FloatType() | iceberg.DoubleType():
            return _for_floats(kind, literal)
        case iceberg.BooleanType() if literal.kind == "boolean":
            return Comparand(value, value)
        case iceberg.StringType() if literal.kind == "text":
            return Comparand(value, value, None, value)
        case iceberg.BinaryType() | iceberg.FixedType() if literal.kind == "bytes":
            return Comparand(value, value, None, value)
        case iceberg.UUIDType() if literal.kind == "text":
            exact = uuid.UUID(value) if _UUID.fullmatch(value) else None
            return Comparand(value, value, None, exact)
        case iceberg.DateType() if literal.kind in ("text", "date"):
            days = days_of(value)
            return None if days is None else Comparand(days, days, None, days)
        case iceberg.TimestampType() | iceberg.TimestamptzType():
            return _for_moments(kind, literal, zone)
        case _:
            return None


def _for_floats(kind: iceberg.IcebergType, literal: SqlLiteral) -> Comparand | None:
    if literal.kind not in ("integer", "decimal", "double", "float"):
        return None
    try:
        value = float(literal.value)
    except OverflowError:
        return None
    if math.isnan(value):
        return None
    if literal.kind == "integer" and isinstance(kind, iceberg.FloatType):
        # Without ANSI they are compared as floats.
        return Comparand(value, value) if to_float(str(literal.value)) == literal.value else None
    if literal.kind == "double":
        return Comparand(value, value)
    if literal.kind == "float":
        # Java rounds a text to a float at once, and here it was a double before.
        slack = abs(value) * _FLOAT_STEP + _FLOAT_LEAST
        return Comparand(value - slack, value + slack)
    return Comparand(_rounded(value, -1), _rounded(value, 1))


def days_of(text: str) -> int | None:
    """Returns the days since 1970 of an ISO date, None if the text is none."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day = (int(each) for each in found.groups())
    try:
        date(year, month, day)
    except ValueError:
        return None
    return day_of(year, month, day)


def _for_moments(kind: iceberg.IcebergType, literal: SqlLiteral, zone: Zone) -> Comparand | None:
    if literal.kind not in ("text", "date", "timestamp", "local", "somewhere"):
        return None
    found = _moment(literal.value)
    if found is None:
        return None
    micros, has_zone = found
    is_local = isinstance(kind, iceberg.TimestampType)
    if has_zone and (is_local or literal.kind == "local"):
        return None
    # Both have a zone, or neither has: then nothing depends on that of the session.
    is_sure = has_zone or (is_local and literal.kind in ("text", "date", "local"))
    if is_sure or (literal.kind != "somewhere" and zone().upper() in _UTC):
        return Comparand(micros, micros, None, micros)
    return Comparand(micros - _ZONE_MICROS_MAX, micros + _ZONE_MICROS_MAX)


def _moment(text: str) -> tuple[int, bool] | None:
    """Returns microseconds since 1970, and whether the text has a zone."""
    days = days_of(text)
    if days is not None:
        return days * DAY_MICROS, False
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time}+00:00")
        offset = datetime.fromisoformat(f"{day}T{time}{zone or 'Z'}").utcoffset() or timedelta()
    except ValueError:
        return None
    since = moment - _EPOCH - offset
    micros = since // timedelta(microseconds=1) + int((fraction or "").ljust(6, "0"))
    return micros, zone is not None
