"""Findings of checks and errors, as texts that fit a report and hold no secrets.

Reports are mailed and published, and errors of drivers and file systems quote URLs and settings.
Whatever looks like a password, a token or a key in an error is replaced by `***`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import msgspec

from lochan.base.limits.audits import REPORT_ERROR_CHARACTERS_MAX, REPORT_TEXT_CHARACTERS_MAX

_HIDDEN: Final = "***"

_RULES: Final = (
    # The user and the password of a URL, even with a bare slash or @ in the password.
    (re.compile(r"://[^\s/?#'\"<>]{0,4096}@"), f"://{_HIDDEN}@"),
    (re.compile(r"://[^\s/@:'\"<>]{1,256}:[^\s@'\"<>]{0,4096}@"), f"://{_HIDDEN}@"),
    (re.compile(r"(jdbc:oracle:\w{1,16}:)[^\s@]{1,512}@", re.IGNORECASE), rf"\1{_HIDDEN}@"),
    # What a URL asks for: signatures of object stores, settings of databases.
    (re.compile(r"(://[^\s?'\"<>]{0,4096})\?[^\s'\"<>]+"), rf"\1?{_HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (re.compile(r"\blochan_[0-9A-Za-z]{1,64}_[\w.~+/=-]{8,}"), f"lochan_{_HIDDEN}"),
    # Settings, as `name=value`, `name: value` or in a dict; of `key` only what has a word before.
    (
        re.compile(
            r"((?:passw(?:or)?d|passphrase|pwd|secret|token|credential|signature|\bsig|"
            r"[a-z0-9][._-]?key)[\w.-]{0,64}[\"']?\s{0,4}(?:=>?|:)\s{0,4})"
            r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;&]+)",
            re.IGNORECASE,
        ),
        rf"\1{_HIDDEN}",
    ),
)


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


def error_text(error: BaseException) -> str:
    """Returns the kind and the message of an error, without secrets."""
    return redacted(f"{type(error).__name__}: {error}")


def redacted(text: str) -> str:
    """Returns a text without secrets, cut to the length that a report allows."""
    text = text[:REPORT_ERROR_CHARACTERS_MAX]
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return cut(text)
