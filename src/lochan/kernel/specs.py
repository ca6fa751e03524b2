"""Relative specs: `name`, `hash` or `name@hash`, then any of `~N` `^N` `*T`, one after the other.

`~N` is the N-th first-parent ancestor, `^N` the N-th parent (1 is the first), `*T` the youngest
first-parent ancestor that is not younger than a time (ISO 8601, or milliseconds since 1970).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId, obj_id_from_hex
from lochan.kernel.history import ancestor_at
from lochan.kernel.views import CommitView, Views

# A chain of specs is short; each may cost some tens of reads.
_STEPS_MAX: Final = 10

_STEP: Final = re.compile(r"([~^*])([^~^*]+)")
_NUMBER: Final = re.compile(r"[0-9]{1,18}\Z")


class Step(msgspec.Struct, frozen=True):
    """One relative step: its mark and its number (for `*`: microseconds since 1970)."""

    mark: str
    number: int


class Spec(msgspec.Struct, frozen=True):
    """A parsed spec; a name, a hash or both, and steps."""

    name: str | None
    hash: ObjId | None
    steps: tuple[Step, ...]


def parse_spec(text: str) -> Spec:
    """Reads a spec; Invalid if it is none."""
    match = re.search(r"[~^*]", text)
    start = text if match is None else text[: match.start()]
    rest = "" if match is None else text[match.start() :]
    name, at, digits = start.partition("@")
    if not at and re.fullmatch(r"[0-9a-f]{64}", start):
        name, digits = "", start
    return Spec(name or None, obj_id_from_hex(digits) if digits else None, parse_steps(rest))


def parse_steps(text: str) -> tuple[Step, ...]:
    """Reads the relative part of a spec."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or len(steps) == _STEPS_MAX:
            raise Invalid(
                f"not a relative spec: {text[:80]!r}; use at most {_STEPS_MAX} of ~N ^N *T"
            )
        mark, value = match.groups()
        steps.append(Step(mark, _time_us(value) if mark == "*" else _number(value)))
        at = match.end()
    return tuple(steps)


def resolve_steps(views: Views, start: CommitView, steps: tuple[Step, ...]) -> CommitView:
    """Follows the steps; ReferenceNotFound where there is no such commit."""
    view = start
    for step in steps:
        if step.mark == "~":
            if step.number > view.sequence:
                raise ReferenceNotFound(f"{view.obj_id.hex()} has only {view.sequence} ancestors")
            view = views.load(ancestor_at(views, view, view.sequence - step.number))
        elif step.mark == "^":
            view = views.load(_parent(view, step.number))
        else:
            view = _not_younger(views, view, step.number)
    return view


def _parent(view: CommitView, number: int) -> ObjId:
    parents = () if view.body is None else view.body.parents
    if not 1 <= number <= len(parents):
        raise ReferenceNotFound(f"{view.obj_id.hex()} has {len(parents)} parents, not {number}")
    return ObjId(parents[number - 1])


def _not_younger(views: Views, start: CommitView, time_us: int) -> CommitView:
    """Searches by halves: the time of creation never falls along the line of first parents."""
    low, high = 0, start.sequence
    while low < high:
        middle = (low + high + 1) // 2
        view = views.load(ancestor_at(views, start, middle))
        if view.body is not None and view.body.created_us <= time_us:
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise ReferenceNotFound("there is no commit as old as that")
    found = ancestor_at(views, start, low)
    return views.load(found) if found != EMPTY_ID else start


def _number(text: str) -> int:
    if not _NUMBER.match(text):
        raise Invalid(f"not a number of steps: {text[:40]!r}")
    return int(text)


def _time_us(text: str) -> int:
    if _NUMBER.match(text):
        return int(text) * 1_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"not a time: {text[:40]!r}; use ISO 8601 or milliseconds") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)
