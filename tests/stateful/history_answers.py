"""Answers of the system beside what the model says must happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lochan.base.errors import (
    AlreadyExists,
    HeadConflict,
    Invalid,
    KeysConflict,
    LochanError,
    NotFound,
)
from lochan.model.commits import LogEntry, Put
from lochan.model.results import ContentConflict, Merged
from lochan.testing.models.history import Key
from lochan.testing.models.merges import Choices, Conflict, Outcome, Planned
from tests.stateful.history_values import held, kind_of_conflict, sides_of

# The most specific ones first.
REASONS: list[tuple[type[LochanError], str]] = [
    (KeysConflict, "KEYS"),
    (HeadConflict, "HEAD"),
    (NotFound, "NOT_FOUND"),
    (AlreadyExists, "EXISTS"),
    (Invalid, "INVALID"),
]


RULES = {"NAMESPACE_ABSENT", "NOT_A_NAMESPACE", "NAMESPACE_NOT_EMPTY", "KEY_CONFLICT"}
"""Kinds of conflicts that have no sides."""


class Difference(AssertionError):
    """The system and the model do not agree."""


def require(agreed: bool, what: str, *shown: object) -> None:
    """Raises Difference unless both agree."""
    if not agreed:
        raise Difference(" | ".join([what, *map(repr, shown)]))


def reason_of(error: LochanError) -> str:
    """Returns why a request was refused; an error that is no refusal is never right."""
    for kind, reason in REASONS:
        if isinstance(error, kind):
            return reason
    raise Difference(f"no refusal: {type(error).__name__} {error.message}")


def conflicts_in(error: KeysConflict) -> list[ContentConflict]:
    return [one for one in error.details if isinstance(one, ContentConflict)]


def differing(
    reported: Sequence[ContentConflict],
    wanted: Sequence[Conflict],
    new: Iterable[Key] = (),
    *,
    one_a_key: bool = False,
) -> str:
    """Returns how reported conflicts differ from the model's, "" if they do not.

    `new` are keys whose content has no id yet, so that of the source is not compared. With
    `one_a_key` a key that breaks several rules is reported with one of them.
    """
    seen = {(one.kind if one.kind in RULES else "CHANGED", one.key) for one in reported}
    right = {("CHANGED" if one.rule == "TYPE" else one.rule, one.key) for one in wanted}
    if one_a_key and {key for _, key in seen} == {key for _, key in right}:
        right &= seen
    if seen != right:
        return f"conflicts {sorted(seen, key=str)} instead of {sorted(right, key=str)}"
    for one in reported:
        if one.kind in RULES:
            continue
        meant = next(each for each in wanted if each.key == one.key and each.rule not in RULES)
        sides = (meant.base, meant.source, meant.target)
        told = sides_of(one)
        if one.key in new:
            sides, told = (sides[0], None, sides[2]), (told[0], None, told[2])
        if told != sides:
            return f"sides of {one.key}: {told} instead of {sides}"
        kind = "PAYLOAD_DIFFERS"
        if meant.rule != "TYPE":
            kind = kind_of_conflict(meant.expected, meant.target)
        if one.kind != kind:
            return f"kind of the conflict {one} instead of {kind}"
    return ""


def check_details(answer: Merged, outcome: Outcome, choices: Choices) -> None:
    """Compares what the answer says of each key."""
    named = {one.key for one in answer.keys}
    further = {one.key for one in outcome.conflicts}
    require(named == outcome.touched | further, "keys of the answer", named, outcome.touched)
    for one in answer.keys:
        require(one.behaviour == choices.of(one.key).behaviour, "behaviour of a key", one)
    conflicts = [one.conflict for one in answer.keys if one.conflict is not None]
    wrong = differing(conflicts, outcome.conflicts, one_a_key=True)
    require(not wrong, wrong)


def check_entry(entry: LogEntry, parents: Sequence[str], planned: Planned) -> None:
    """Compares a commit in a log with what it must be."""
    found: dict[Any, Any] = {}
    for one in entry.operations or ():
        found[one.key] = held(one.content) if isinstance(one, Put) else None
    require(found == dict(planned.operations), "operations", found, planned.operations)
    require(entry.meta.parents == tuple(parents), "parents", entry.meta.parents, parents)
    require(entry.parent == parents[0], "parent", entry.parent, parents)
    require(entry.meta.message == planned.message, "message", entry.meta.message, planned.message)


def first_agreeing(
    outcomes: Mapping[str, Outcome], error: LochanError, new: Iterable[Key] = ()
) -> None:
    """Raises unless some outcome is refused as the error says."""
    reason = reason_of(error)
    wrong = []
    for outcome in outcomes.values():
        if reason == "INVALID" and outcome.invalid:
            return
        if isinstance(error, KeysConflict) and outcome.conflicts:
            differs = differing(conflicts_in(error), outcome.conflicts, new)
            if not differs:
                return
            wrong.append(differs)
        else:
            wrong.append(f"must be {_short(outcome)}")
    raise Difference(f"refused with {type(error).__name__} {error.message}: {wrong}")


def _short(outcome: Outcome) -> str:
    if outcome.invalid:
        return f"invalid ({outcome.invalid})"
    if outcome.conflicts:
        return f"in conflict: {outcome.conflicts}"
    return f"{len(outcome.commits)} commits: {[plan.operations for plan in outcome.commits]}"
