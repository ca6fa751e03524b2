"""The merge family on plain dictionaries: merge, transplant, cherry-pick, revert and rebase.

All of them *carry* changes onto a head. A change fits if the head holds what was there before.
If the head already holds what comes after, nothing is left to do for that key. Otherwise the key
is in conflict, and the caller's choice for that key decides. If any conflict stands, nothing is
written and all conflicts are reported.

A function here returns what must happen on one given head; it changes nothing. Where histories
have several best common ancestors any of them is right, so `merge` returns an outcome for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from lochan.testing.models.history import (
    Change,
    Commit,
    Content,
    History,
    Key,
    Value,
    applied,
)

Behaviour = Literal["NORMAL", "FORCE", "DROP", "TAKE_TARGET_ON_CONFLICT"]


class Choice(msgspec.Struct, frozen=True):
    """What the caller wants for one key.

    `expected` is what the target must hold before, whatever the base holds. `resolved` is what the
    target holds afterwards; it needs `expected`. None for either is "no value".
    """

    behaviour: str = "NORMAL"
    expected: Value | msgspec.UnsetType | None = msgspec.UNSET
    resolved: Value | msgspec.UnsetType | None = msgspec.UNSET


class Choices(msgspec.Struct, frozen=True):
    """What the caller wants for each key, and for all keys that are not named."""

    default: str = "NORMAL"
    keys: Mapping[Key, Choice] = msgspec.field(default_factory=dict)

    def of(self, key: Key) -> Choice:
        """Returns the choice for a key."""
        return self.keys.get(key) or Choice(self.default)


class Conflict(msgspec.Struct, frozen=True):
    """A key that stands against the request, and why.

    `rule` is CHANGED where the key is not as expected. The rules of the catalog have their own.
    """

    key: Key
    rule: str = "CHANGED"
    base: Value | None = None
    source: Value | None = None
    target: Value | None = None


class Carried(msgspec.Struct, frozen=True):
    """The changes of one commit that is to be made."""

    changes: Sequence[Change]
    message: str
    merged: tuple[str, ...] = ()


class Planned(msgspec.Struct, frozen=True):
    """A commit that must be made: what it does, what it holds, its further parents."""

    operations: Mapping[Key, Value | None]
    content: Content
    message: str
    merged: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """What must happen: commits one after the other, or conflicts and nothing else.

    `invalid` says that the request is refused whatever the head holds. Neither conflicts nor
    commits: the request succeeds, and there is nothing to do.
    """

    commits: tuple[Planned, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    touched: frozenset[Key] = frozenset()
    base: str | None = None
    invalid: str = ""

    @property
    def refused(self) -> bool:
        """Tells whether nothing may be written."""
        return bool(self.conflicts or self.invalid)


Rules = Callable[[Content, Mapping[Key, Value | None]], Iterable[Conflict]]
"""What a commit must keep to, besides its keys: content before it and operations → conflicts."""

Agreed = Callable[[Conflict], bool]
"""Tells of a conflict that both sides did the same, so that the target's value stays."""


def no_rules(content: Content, operations: Mapping[Key, Value | None]) -> Iterable[Conflict]:
    """Allows everything: keys are independent of each other."""
    del content, operations
    return ()


def never_agreed(conflict: Conflict) -> bool:
    """Takes every conflict as it is."""
    del conflict
    return False


class Laws(msgspec.Struct, frozen=True):
    """The rules under which changes are carried; without any, keys are independent."""

    rules: Rules = no_rules
    agreed: Agreed = never_agreed


FREE: Final = Laws()


def carry(
    content: Content, carried: Sequence[Carried], choices: Choices, laws: Laws = FREE
) -> Outcome:
    """Returns what carrying changes onto a content gives, commit by commit."""
    staged = dict(content)
    conflicts: list[Conflict] = []
    planned: list[Planned] = []
    resolved: set[Key] = set()
    for one in carried:
        operations: dict[Key, Value | None] = {}
        for change in one.changes:
            if change.before == change.after or change.key in resolved:
                continue
            target = staged.get(change.key)
            # What the caller expects is what the target held before anything was carried.
            first = change.key not in {key for plan in planned for key in plan.operations}
            found = _carry_one(change, choices.of(change.key), target, first=first)
            if isinstance(found, Conflict):
                if not (found.rule == "CHANGED" and _agrees(found, choices, laws)):
                    conflicts.append(found)
            elif found is not None:
                operations[change.key] = found.after
            if not isinstance(choices.of(change.key).resolved, msgspec.UnsetType):
                resolved.add(change.key)
        if operations:
            staged = applied(staged, operations)
            planned.append(Planned(operations, staged, one.message))
    touched = frozenset(change.key for one in carried for change in one.changes)
    if conflicts:
        return Outcome(conflicts=tuple(conflicts), touched=touched)
    merged = tuple(parent for one in carried for parent in one.merged)
    if planned:
        planned[-1] = msgspec.structs.replace(planned[-1], merged=merged)
    broken = _broken(content, planned, laws.rules)
    if broken:
        return Outcome(conflicts=broken, touched=touched)
    return Outcome(tuple(planned), touched=touched)


def _carry_one(
    change: Change, choice: Choice, target: Value | None, *, first: bool
) -> Change | Conflict | None:
    """Returns what to do with one key: a change of the target, a conflict, or nothing."""
    if choice.behaviour == "DROP":
        return None
    after = change.after
    if not isinstance(choice.resolved, msgspec.UnsetType):
        after = choice.resolved
    conflict = Conflict(change.key, "CHANGED", change.before, change.after, target)
    if not isinstance(choice.expected, msgspec.UnsetType) and first:
        if target != choice.expected:
            return conflict
        return None if target == after else Change(change.key, target, after)
    if target == after:
        return None
    if target == change.before or choice.behaviour == "FORCE":
        return Change(change.key, target, after)
    return None if choice.behaviour == "TAKE_TARGET_ON_CONFLICT" else conflict


def _agrees(conflict: Conflict, choices: Choices, laws: Laws) -> bool:
    """Tells whether both sides did the same; who says what to expect wants to know."""
    expected = choices.of(conflict.key).expected
    return isinstance(expected, msgspec.UnsetType) and laws.agreed(conflict)


def _broken(content: Content, planned: Sequence[Planned], rules: Rules) -> tuple[Conflict, ...]:
    """Returns the rules that any of the commits would break, each once."""
    found: dict[tuple[str, Key], Conflict] = {}
    before = content
    for plan in planned:
        for conflict in rules(before, plan.operations):
            found[conflict.rule, conflict.key] = conflict
        before = plan.content
    return tuple(found.values())


def merge(
    history: History,
    head: str,
    source: str,
    choices: Choices | None = None,
    *,
    message: str = "",
    replay: bool = False,
    laws: Laws = FREE,
) -> dict[str, Outcome]:
    """Returns for each best common ancestor what merging a source into a head must give."""
    wanted = choices or Choices()
    found: dict[str, Outcome] = {}
    for base in history.best_common_ancestors(head, source):
        if base == source:
            found[base] = Outcome(base=base)
            continue
        if replay:
            carried = [replayed(history, one, head) for one in history.line_until(source, head)]
            carried[-1] = msgspec.structs.replace(carried[-1], merged=(source,))
        else:
            carried = [Carried(history.difference(base, source), message, (source,))]
        touched = {change.key for one in carried for change in one.changes}
        if set(wanted.keys) - touched:
            outcome = Outcome(
                invalid="a key has a behaviour but was not changed", touched=frozenset(touched)
            )
        else:
            outcome = carry(history.content(head), carried, wanted, laws)
        found[base] = msgspec.structs.replace(outcome, base=base)
    return found


def replayed(history: History, commit: Commit, target: str | None = None) -> Carried:
    """Returns a commit's own changes, to be made again with its own message.

    What a merge commit took from commits that the target has is left out.
    """
    changes = history.own_changes(commit)
    for parent in commit.parents[1:]:
        if target is not None and history.has(target, parent):
            taken = history.content(parent)
            changes = [change for change in changes if taken.get(change.key) != change.after]
    return Carried(changes, commit.message)


def reverted(history: History, commit: Commit, message: str = "") -> Carried:
    """Returns the changes that undo a commit."""
    return Carried(
        [Change(one.key, one.after, one.before) for one in history.own_changes(commit)], message
    )


def composed(history: History, commits: Sequence[Commit], message: str = "") -> Carried:
    """Returns the changes of several commits as those of one.

    Composed commit by commit in the order given: a key is expected as the first commit that
    changes it found it, and is left as the last one leaves it.
    """
    changes: dict[Key, Change] = {}
    for commit in commits:
        for one in history.own_changes(commit):
            earlier = changes.get(one.key)
            before = one.before if earlier is None else earlier.before
            changes[one.key] = Change(one.key, before, one.after)
    kept = [change for change in changes.values() if change.before != change.after]
    return Carried(kept, message)


def pick(
    history: History,
    head: str,
    commits: Sequence[str],
    choices: Choices | None = None,
    *,
    message: str = "",
    squash: bool = False,
    laws: Laws = FREE,
) -> Outcome:
    """Returns what making commits again on a head must give: transplant and cherry-pick."""
    line = [history.commits[one] for one in commits]
    if squash:
        listed = [f"{one.id} {one.message.partition(chr(10))[0][:100]}" for one in line]
        said = message or f"Transplanted {len(line)} commits"
        carried = [composed(history, line, "\n".join([said, "", *listed]))]
    else:
        carried = [replayed(history, one) for one in line]
        if message and len(carried) == 1:
            carried = [msgspec.structs.replace(carried[0], message=message)]
    return carry(history.content(head), carried, choices or Choices(), laws)


def revert(
    history: History, head: str, commits: Sequence[str], *, message: str = "", laws: Laws = FREE
) -> Outcome:
    """Returns what undoing commits on a head must give, in the order given."""
    carried = []
    for one in commits:
        commit = history.commits[one]
        first = commit.message.partition("\n")[0]
        carried.append(reverted(history, commit, message or f"Revert {commit.id}: {first}"))
    return carry(history.content(head), carried, Choices(), laws)


class Rebased(msgspec.Struct, frozen=True):
    """What a rebase must give: `moved` is False if the branch stands on the other head already."""

    moved: bool
    outcome: Outcome


def rebase(
    history: History, head: str, onto: str, choices: Choices | None = None, laws: Laws = FREE
) -> Rebased:
    """Returns what making a branch's own commits again on another head must give."""
    if history.is_on_line(head, onto):
        return Rebased(False, Outcome())
    carried = [replayed(history, one, onto) for one in history.line_until(head, onto)]
    return Rebased(True, carry(history.content(onto), carried, choices or Choices(), laws))


def fast_forward(history: History, head: str, source: str) -> bool | None:
    """Tells whether a fast-forward moves a head; None if it would lose commits."""
    if history.has(head, source):
        return False
    return True if history.has(source, head) else None
