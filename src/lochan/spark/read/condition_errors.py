"""Conditions in SQL as they are given to Spark, and errors for those that Spark cannot use.

In brackets, because Spark reads what follows a condition as a name for it: `id = 1 or` would be a
condition that is called `or`. The closing one is on a line of its own, behind any comment.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import AnalysisException

_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*;?")
# Spark counts characters from 0 in the first two, from 1 in the third.
_PLACES: Final = (
    (re.compile(r"\(line (\d+), pos (\d+)\)"), 0),
    (re.compile(r";\s*line (\d+) pos (\d+)"), 0),
    (re.compile(r"\(line (\d+), position (\d+)\)"), -1),
)
_SHOWN: Final = 20


def bracketed(text: str) -> str:
    """Returns a condition as it is given to Spark."""
    return f"({text}\n)"


def explained(error: AnalysisException, text: str) -> str:
    """Returns in one line what is wrong with a condition that was given in brackets, and where."""
    message = str(error).strip()
    first = message.splitlines()[0]
    place = _place(message)
    for pattern, _ in _PLACES:
        first = pattern.sub("", first)
    first = _STATE.sub("", first).strip().rstrip(";:. ")
    if place is None:
        return first
    line, column = place
    lines = text.split("\n")
    if line == 1:
        column -= 1
    if line > len(lines) or (line == len(lines) and column >= len(lines[-1])):
        return first.replace("at or near ')'", "at or near end of input") + ", at its end"
    number = f"character {max(column, 0) + 1}"
    where = number if len(lines) == 1 else f"line {line}, {number}"
    rest = lines[line - 1][max(column, 0) :][:_SHOWN]
    return f"{first} at {where}, before {rest!r}"


def _place(message: str) -> tuple[int, int] | None:
    for pattern, shift in _PLACES:
        found = pattern.search(message)
        if found is not None:
            return int(found[1]), int(found[2]) + shift
    return None
