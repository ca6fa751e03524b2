"""Parses the output of `compat.Run` for the published tests and finds unexpected results.

A failure is accepted only if `EXCEPTIONS` names it with the reason; there are three at most, and
one that passes must be removed from the list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

EXPECTED = {"v1": 29, "v2": 159}
"""The number of tests that pass on the real server."""

EXCEPTIONS_MAX = 3

EXCEPTIONS: dict[str, str] = {}
"""Tests that Lochan fails on purpose, as "v2 name", with the reason."""

# JUnit writes brackets inside values as %5B and %5D.
_SEGMENT = re.compile(r"\[([\w-]+):([^\]]*)\]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Outcome(NamedTuple):
    """The result of one test: successful, failed, aborted (an assumption) or skipped."""

    outcome: str
    version: str
    name: str
    reason: str

    @property
    def full_name(self) -> str:
        return f"{self.version} {self.name}"


def read_outcomes(text: str) -> list[Outcome]:
    """Returns every test's outcome; ValueError if the run did not finish."""
    lines = _COLOURS.sub("", text).splitlines()
    if "end" not in lines:
        raise ValueError(f"the run did not finish: {text[-1_000:]}")
    found = []
    for line in lines:
        fields = line.split("\t")
        if len(fields) == 4:
            segments = _SEGMENT.findall(fields[1])
            version = next((value.lower() for kind, value in segments if "api" in kind), "")
            names = [unquote(value) for kind, value in segments if not _is_frame(kind)]
            reason = ": ".join(part for part in fields[2:] if part)
            found.append(Outcome(fields[0], version, "/".join(names), reason))
    return found


def _is_frame(kind: str) -> bool:
    return kind in {"engine", "class"} or "api" in kind


def count(outcomes: Sequence[Outcome]) -> str:
    """Returns one line of counts for each version."""
    counts = Counter((each.version, _group(each)) for each in outcomes)
    return ", ".join(
        f"{version}: {counts[version, 'passed']} passed of {EXPECTED[version]}, "
        f"{counts[version, 'failed']} failed, {counts[version, 'skipped']} skipped"
        for version in EXPECTED
    )


def _group(outcome: Outcome) -> str:
    return {"successful": "passed", "failed": "failed"}.get(outcome.outcome, "skipped")


def find_complaints(
    outcomes: Sequence[Outcome], exceptions: Mapping[str, str] = EXCEPTIONS
) -> list[str]:
    """Returns the unexpected results as messages; an empty list means that all is as expected."""
    found = []
    if len(exceptions) > EXCEPTIONS_MAX:
        found.append(f"{len(exceptions)} exceptions; at most {EXCEPTIONS_MAX}")
    failed = {each.full_name: each.reason for each in outcomes if each.outcome == "failed"}
    found += [
        f"{name} failed: {reason[:500]}"
        for name, reason in failed.items()
        if name not in exceptions
    ]
    found += [f"{name} is an exception and did not fail" for name in exceptions.keys() - failed]
    for version, expected in EXPECTED.items():
        accepted = sum(name.startswith(version) for name in failed.keys() & exceptions.keys())
        passed = sum(each.outcome == "successful" for each in outcomes if each.version == version)
        if passed < expected - accepted:
            found.append(f"{version}: {passed} passed, {expected - accepted} expected")
    return found
