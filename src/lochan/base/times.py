"""Times that users give: only such that every client can read."""

from __future__ import annotations

from lochan.base.errors import Invalid
from lochan.base.limits.contents import TIME_US_MAX, TIME_US_MIN


def check_time(name: str, time_us: int) -> int:
    """Returns a time in microseconds since 1970; Invalid names the field if it is out of range.

    A time out of range that was stored unchecked would make every listing fail that contains it.
    """
    if not TIME_US_MIN <= time_us <= TIME_US_MAX:
        raise Invalid(f"{name} is a time from the year 1 to the year 9999, in UTC")
    return time_us


def readable_time(time_us: int) -> int:
    """Returns a stored time, or the nearest one that every client can read."""
    return min(max(time_us, TIME_US_MIN), TIME_US_MAX)
