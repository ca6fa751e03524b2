"""Times and spans on the wire: ISO 8601; inside, microseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.times import check_time, readable_time

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment with its zone."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SPAN: Final = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?"
    r"(?:T(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,10})(?:\.(\d{1,6}))?S)?)?\Z"
)


def instant(time_us: int) -> datetime:
    """Returns a time for the wire; a stored time outside its range as the nearest one inside."""
    return _EPOCH + timedelta(microseconds=readable_time(time_us))


def instant_to_send(name: str, time_us: int) -> datetime:
    """Returns a time as a client sends it; Invalid if no server could show it again."""
    return _EPOCH + timedelta(microseconds=check_time(name, time_us))


def micros(moment: datetime) -> int:
    """Returns a moment as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def span_us(text: str) -> int:
    """Reads a span such as `P7D` or `PT90M`; Invalid if it is none or nothing."""
    match = _SPAN.match(text)
    if match is None or text.endswith(("P", "T")):
        raise Invalid(f"not a span of time: {text[:40]!r}; write for example P7D or PT90M")
    weeks, days, hours, minutes, seconds, fraction = match.groups()
    span = timedelta(
        weeks=int(weeks or 0),
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    if not span:
        raise Invalid(f"a span of time must be longer than nothing: {text[:40]!r}")
    return span // _MICROSECOND
