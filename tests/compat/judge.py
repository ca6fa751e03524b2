"""Reads what `compat.Run` told of the published tests and judges it.

A failure is forgiven only if it is named in `EXCEPTIONS`, with the reason; there are three at most,
and one that passes must leave the list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

EXPECTED = {"v1": 29, "v2": 159}
"""How many pass on the real server."""

EXCEPTIONS_MAX = 3

EXCEPTIONS: dict[str, str] = {}
"""Tests of which we fail on purpose, as "v2 name", and why."""

# JUnit writes brackets inside of values as %5B and %5D.
_SEGMENT = re.compile(r"\[([\w-]+):([^\]]*)\]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Outcome(NamedTuple):
    """What became of one test: successful, failed, aborted (an assumption) or skipped."""

    outcome: str
    version: str
    name: str
    why: str

    @property
    def called(self) -> str:
        return f"{self.version} {self.name}"


def read_outcomes(text: str) -> list[Outcome]:
    """Returns every test's outcome; raises if the run did not come to its end."""
    lines = _COLOURS.sub("", text).splitlines()
    if "end" not in lines:
        raise ValueError(f"the run broke off: {text[-1_000:]}")
    found = []
    for line in lines:
        fields = line.split("\t")
        if len(fields) == 4:
            segments = _SEGMENT.findall(fields[1])
            version = next((value.lower() for kind, value in segments if "api" in kind), "")
            kept = [unquote(value) for kind, value in segments if not _is_frame(kind)]
            why = ": ".join(part for part in fields[2:] if part)
            found.append(Outcome(fields[0], version, "/".join(kept), why))
    return found


def _is_frame(kind: str) -> bool:
    return kind in {"engine", "class"} or "api" in kind


def count(outcomes: Sequence[Outcome]) -> str:
    """Returns one line of counts for each version."""
    counted = Counter((one.version, _group(one)) for one in outcomes)
    return ", ".join(
        f"{version}: {counted[version, 'passed']} passed of {EXPECTED[version]}, "
        f"{counted[version, 'failed']} failed, {counted[version, 'skipped']} skipped"
        for version in EXPECTED
    )


def _group(one: Outcome) -> str:
    return {"successful": "passed", "failed": "failed"}.get(one.outcome, "skipped")


def find_complaints(
    outcomes: Sequence[Outcome], exceptions: Mapping[str, str] = EXCEPTIONS
) -> list[str]:
    """Returns what is wrong in sentences; nothing means that we are as compatible as we say."""
    found = []
    if len(exceptions) > EXCEPTIONS_MAX:
        found.append(f"{len(exceptions)} exceptions; at most {EXCEPTIONS_MAX}")
    failed = {one.called: one.why for one in outcomes if one.outcome == "failed"}
    found += [
        f"{name} failed: {why[:500]}" for name, why in failed.items() if name not in exceptions
    ]
    found += [f"{name} is an exception and did not fail" for name in exceptions.keys() - failed]
    for version, expected in EXPECTED.items():
        forgiven = sum(name.startswith(version) for name in failed.keys() & exceptions.keys())
        passed = sum(one.outcome == "successful" for one in outcomes if one.version == version)
        if passed < expected - forgiven:
            found.append(f"{version}: {passed} passed, {expected - forgiven} should")
    return found
