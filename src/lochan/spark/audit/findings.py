"""Findings of checks, as texts that fit a report."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from lochan.base.limits.audits import REPORT_TEXT_CHARACTERS_MAX


class Finding(msgspec.Struct, frozen=True):
    """The finding of a check: whether it passed, what was observed, what was expected."""

    passed: bool
    observed: str
    expected: str


def value_text(value: Any) -> str:
    """Returns a value as text, cut where it is too long for a report."""
    if isinstance(value, bool) or value is None:
        text = "NULL" if value is None else str(value).lower()
    elif isinstance(value, (int, Decimal)):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:,.6g}"
    else:
        text = str(value)
    return cut(text)


def cut(text: str) -> str:
    """Returns a text that can be encoded, cut if it is too long."""
    # Names of old files have bytes that are no text; Python keeps them as what no encoder takes.
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= REPORT_TEXT_CHARACTERS_MAX:
        return text
    return text[: REPORT_TEXT_CHARACTERS_MAX - 1] + "…"


def bounds_text(low: Any, high: Any, unit: str = "") -> str:
    """Returns a range in words."""
    if low is None:
        return f"at most {value_text(high)}{unit}"
    if high is None:
        return f"at least {value_text(low)}{unit}"
    return f"{value_text(low)} to {value_text(high)}{unit}"


def is_between(number: int, low: int | None, high: int | None) -> bool:
    """Returns whether a number keeps the bounds that are set."""
    return (low is None or number >= low) and (high is None or number <= high)
