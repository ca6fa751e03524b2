"""Texts of errors without secrets.

Reports are mailed and published, and errors of drivers and file systems quote URLs and settings.
Whatever looks like a password, a token or a key is replaced by `***`.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.limits.audits import REPORT_ERROR_CHARACTERS_MAX
from lochan.spark.audit.findings import cut

_HIDDEN: Final = "***"

_RULES: Final = (
    # The user and the password of a URL, even with a bare slash or @ in the password.
    (re.compile(r"://[^\s/?#'\"<>]{0,4096}@"), f"://{_HIDDEN}@"),
    (re.compile(r"://[^\s/@:'\"<>]{1,256}:[^\s@'\"<>]{0,4096}@"), f"://{_HIDDEN}@"),
    (re.compile(r"(jdbc:oracle:\w{1,16}:)[^\s@]{1,512}@", re.IGNORECASE), rf"\1{_HIDDEN}@"),
    # What a URL asks for: signatures of object stores, settings of databases.
    (re.compile(r"(://[^\s?'\"<>]{0,4096})\?[^\s'\"<>]+"), rf"\1?{_HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
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


def error_text(error: BaseException) -> str:
    """Returns the kind and the message of an error, without secrets."""
    return redacted(f"{type(error).__name__}: {error}")


def redacted(text: str) -> str:
    """Returns a text without secrets, cut to the length that a report allows."""
    text = text[:REPORT_ERROR_CHARACTERS_MAX]
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return cut(text)
