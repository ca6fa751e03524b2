"""Reads what `strace -f -y` wrote; says whether a value was on the disk when it was promised."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(r"(?P<pid>\d+) +(?P<text>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<handle>\d+)(?:<(?P<path>[^>]*)>)?")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>")
_SUCCESS = re.compile(r"= (?P<result>\d+)(?: |$)")

WRITES = {"write", "pwrite64", "writev", "pwritev"}
SYNCS = {"fsync", "fdatasync"}


class Call(NamedTuple):
    """A system call that succeeded: its lines in the trace, what and on which file."""

    begun: int
    ended: int
    name: str
    path: str
    text: str


def read_trace(lines: list[str]) -> list[Call]:
    """Returns the calls that succeeded, those of several threads joined from their two halves."""
    calls: list[Call] = []
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None:
            continue
        pid, text = match["pid"], match["text"]
        start = number
        if text.endswith("<unfinished ...>"):
            begun[pid] = (number, text)
            continue
        if _RESUMED.match(text):
            start, first = begun.pop(pid)
            text = first.removesuffix("<unfinished ...>") + text
        called = _CALL.match(text)
        if called is not None and _SUCCESS.search(text[text.rfind(" = ") :]):
            calls.append(Call(start, number, called["name"], called["path"] or "", text))
    return calls


def find_broken_promise(calls: list[Call], marker: str, acknowledgement: str) -> str | None:
    """Says what is wrong, or None if the log was synchronised between value and promise."""
    writes = [call for call in calls if call.name in WRITES]
    values = [call for call in writes if marker in call.text and call.path.endswith(".log")]
    promises = [call for call in writes if acknowledgement in call.text]
    if not values:
        return "the value was never written to a log"
    if len(promises) != 1:
        return f"{len(promises)} acknowledgements instead of one"
    value, promise = values[-1], promises[0]
    if value.ended > promise.begun:
        return "the value was acknowledged before it was written"
    for call in calls:
        if (
            call.name in SYNCS
            and call.path == value.path
            and value.ended < call.begun
            and call.ended < promise.begun
        ):
            return None
    return f"{value.path} was not synchronised between the value and its acknowledgement"
