"""The merge family on plain dictionaries: merge, transplant, cherry-pick, revert and rebase.

All of them *carry* changes onto a head. A change fits if the head holds what was there before.
If the head already holds what comes after, nothing is left to do for that key. Otherwise the key
is in conflict, and the caller's choice for that key decides. If any conflict remains, nothing is
written and all conflicts are reported, one for a key.

One request may change a key several times: a replay, or a squashed pick of commits that do not
follow each other. Then the expected value of a choice is what the target held before all of them,
and a key that was resolved, or for which the target was taken, is left alone by the later ones.

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
    """The caller's choice for one key.

    `expected` is what the target must hold before, whatever the base holds. `resolved` is what the
    target holds afterwards; it needs `expected`. None for either is "no value".
    """

    behaviour: str = "NORMAL"
    expected: Value | msgspec.UnsetType | None = msgspec.UNSET
    resolved: Value | msgspec.UnsetType | None = msgspec.UNSET


class Choices(msgspec.Struct, frozen=True):
    """The caller's choices: by key, and one for all keys that are not named."""

    default: str = "NORMAL"
    keys: Mapping[Key, Choice] = msgspec.field(default_factory=dict)

    def of(self, key: Key) -> Choice:
        """Returns the choice for a key."""
        return self.keys.get(key) or Choice(self.default)


class Conflict(msgspec.Struct, frozen=True):
    """A key that is in conflict with the request, and the reason.

    `rule` is CHANGED where the key is not as expected. The rules of the catalog have their own.
    `expected` is what the target must hold: what the base holds, unless the caller gave a value.
    """

    key: Key
    rule: str = "CHANGED"
    base: Value | None = None
    source: Value | None = None
    target: Value | None = None
    expected: Value | None = None


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

    `invalid` is the reason why the request is refused whatever the head holds. With neither
    conflicts nor commits the request succeeds, and there is nothing to do.
    """

    commits: tuple[Planned, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    touched: frozenset[Key] = frozenset()
    base: str | None = None
    invalid: str = ""

    @property
    def refused(self) -> bool:
        """Whether nothing may be written."""
        return bool(self.conflicts or self.invalid)


Rules = Callable[[Content, Mapping[Key, Value | None]], Iterable[Conflict]]
"""What a commit must keep to, besides its keys: content before it and operations → conflicts."""

Agreed = Callable[[Conflict], bool]
"""Returns whether both sides of a conflict did the same, so that the target's value stays."""


def never_agreed(conflict: Conflict) -> bool:
    """Leaves every conflict as it is."""
    del conflict
    return False


Acceptable = Callable[[Key, Value, Iterable[Value]], bool]
"""Returns whether a resolved value may be put under a key, given the values of all sides."""


def any_value(key: Key, resolved: Value, sides: Iterable[Value]) -> bool:
    """Allows every resolved value."""
    del key, resolved, sides
    return True


class MergeRules(msgspec.Struct, frozen=True):
    """The rules under which changes are carried; without any, keys are independent.

    A key that breaks one of the rules in `giving_way` is left as the target has it if its
    behaviour is TAKE_TARGET_ON_CONFLICT.
    """

    rules: Sequence[Rules] = ()
    agreed: Agreed = never_agreed
    acceptable: Acceptable = any_value
    giving_way: frozenset[str] = frozenset()


FREE: Final = MergeRules()


def carry(
    content: Content, carried: Sequence[Carried], choices: Choices, merge_rules: MergeRules = FREE
) -> Outcome:
    """Returns what carrying changes onto a content gives, commit by commit.

    Keys that give way are left out and all is carried again, until none gives way any more: what
    one leaves may be in the way of another.
    """
    left = choices
    while True:
        outcome = _carry_all(content, carried, left, merge_rules)
        giving_way = {
            one.key: Choice("DROP")
            for one in outcome.conflicts
            if one.rule in merge_rules.giving_way
            and left.of(one.key).behaviour == "TAKE_TARGET_ON_CONFLICT"
        }
        if not giving_way:
            return outcome
        left = Choices(left.default, {**left.keys, **giving_way})


def _carry_all(
    content: Content, carried: Sequence[Carried], choices: Choices, merge_rules: MergeRules
) -> Outcome:
    touched = frozenset(change.key for one in carried for change in one.changes)
    target = _Target(content, choices, merge_rules)
    planned: list[Planned] = []
    for one in carried:
        operations = target.take(one.changes)
        if operations:
            planned.append(Planned(operations, dict(target.content), one.message))
    if target.conflicts:
        return Outcome(conflicts=tuple(target.conflicts.values()), touched=touched)
    if not _are_acceptable(content, carried, choices, merge_rules):
        return Outcome(invalid="a resolved value is not acceptable", touched=touched)
    merged = tuple(parent for one in carried for parent in one.merged)
    if planned:
        planned[-1] = msgspec.structs.replace(planned[-1], merged=merged)
    for rules in merge_rules.rules:
        broken = _broken(content, planned, rules)
        if broken:
            return Outcome(conflicts=broken, touched=touched)
    return Outcome(tuple(planned), touched=touched)


class _Target:
    """A content while changes are carried onto it, and the conflicts met so far, one for a key."""

    def __init__(self, content: Content, choices: Choices, merge_rules: MergeRules) -> None:
        self.content = dict(content)
        self.conflicts: dict[Key, Conflict] = {}
        self._choices = choices
        self._laws = merge_rules
        self._begun: set[Key] = set()
        self._settled: set[Key] = set()

    def take(self, changes: Sequence[Change]) -> dict[Key, Value | None]:
        """Carries the changes of one commit; returns what it has to put and remove."""
        before = dict(self.content)
        for change in changes:
            if change.before != change.after and change.key not in self._settled:
                self._take_one(change)
        keys = {change.key: None for change in changes}
        return {
            key: self.content.get(key) for key in keys if before.get(key) != self.content.get(key)
        }

    def _take_one(self, change: Change) -> None:
        key, choice = change.key, self._choices.of(change.key)
        if choice.behaviour == "DROP":
            return
        if key in self.conflicts:
            # What the source would leave in the end.
            met = self.conflicts[key]
            self.conflicts[key] = msgspec.structs.replace(met, source=change.after)
            return
        target = self.content.get(key)
        # What the caller expects is what the target held before anything was carried.
        expected = msgspec.UNSET if key in self._begun else choice.expected
        self._begun.add(key)
        after = change.after
        if not isinstance(choice.resolved, msgspec.UnsetType):
            after = choice.resolved
        fits = change.before if isinstance(expected, msgspec.UnsetType) else expected
        if target == fits:
            self.content = applied(self.content, {key: after})
            if not isinstance(choice.resolved, msgspec.UnsetType):
                self._settled.add(key)
            return
        conflict = Conflict(key, "CHANGED", change.before, change.after, target, fits)
        if isinstance(expected, msgspec.UnsetType):
            if target == after:
                return
            if choice.behaviour == "FORCE":
                self.content = applied(self.content, {key: after})
                return
            if choice.behaviour == "TAKE_TARGET_ON_CONFLICT" or self._laws.agreed(conflict):
                self._settled.add(key)
                return
        self.conflicts[key] = conflict


def _are_acceptable(
    content: Content, carried: Sequence[Carried], choices: Choices, merge_rules: MergeRules
) -> bool:
    """Returns whether every resolved value may be put under its key."""
    for key, choice in choices.keys.items():
        if isinstance(choice.resolved, msgspec.UnsetType) or choice.resolved is None:
            continue
        sides = [content.get(key)]
        for change in [change for one in carried for change in one.changes if change.key == key]:
            sides += [change.before, change.after]
        known = [side for side in sides if side is not None]
        # What was not changed is not resolved either.
        if len(sides) > 1 and not merge_rules.acceptable(key, choice.resolved, known):
            return False
    return True


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
    merge_rules: MergeRules = FREE,
) -> dict[str, Outcome]:
    """Returns for each best common ancestor what merging a source into a head must give."""
    given = choices or Choices()
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
        if set(given.keys) - touched:
            outcome = Outcome(
                invalid="a key has a behaviour but was not changed", touched=frozenset(touched)
            )
        else:
            outcome = carry(history.content(head), carried, given, merge_rules)
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


def title(commit: Commit) -> str:
    """Returns the first line of a message as other messages quote it."""
    return commit.message.partition("\n")[0][:100]


def composed(history: History, commits: Sequence[Commit], message: str = "") -> Carried:
    """Returns the changes of several commits as those of one, in the order given.

    Changes of a key that follow each other (a to b, b to c) are one change (a to c). Others (a to
    b, c to d) stay apart, so the second is in conflict, as it would be if both were made again.
    """
    changes: dict[Key, list[Change]] = {}
    for commit in commits:
        for one in history.own_changes(commit):
            if one.before == one.after:
                continue
            earlier = changes.setdefault(one.key, [])
            if earlier and earlier[-1].after == one.before:
                earlier[-1] = Change(one.key, earlier[-1].before, one.after)
            else:
                earlier.append(one)
    return Carried([change for some in changes.values() for change in some], message)


def pick(
    history: History,
    head: str,
    commits: Sequence[str],
    choices: Choices | None = None,
    *,
    message: str = "",
    squash: bool = False,
    merge_rules: MergeRules = FREE,
) -> Outcome:
    """Returns what making commits again on a head must give: transplant and cherry-pick."""
    line = [history.commits[one] for one in commits]
    if squash:
        listed = [f"{one.id} {title(one)}" for one in line]
        headline = message or f"Transplanted {len(line)} commits"
        carried = [composed(history, line, "\n".join([headline, "", *listed]))]
    else:
        carried = [replayed(history, one) for one in line]
        if message and len(carried) == 1:
            carried = [msgspec.structs.replace(carried[0], message=message)]
    return carry(history.content(head), carried, choices or Choices(), merge_rules)


def revert(
    history: History,
    head: str,
    commits: Sequence[str],
    *,
    message: str = "",
    merge_rules: MergeRules = FREE,
) -> Outcome:
    """Returns what undoing commits on a head must give, in the order given."""
    carried = []
    for one in commits:
        commit = history.commits[one]
        carried.append(reverted(history, commit, message or f"Revert {commit.id}: {title(commit)}"))
    return carry(history.content(head), carried, Choices(), merge_rules)


class Rebased(msgspec.Struct, frozen=True):
    """The required result of a rebase; `moved` is False if the branch already contains the head."""

    moved: bool
    outcome: Outcome


def rebase(
    history: History,
    head: str,
    onto: str,
    choices: Choices | None = None,
    merge_rules: MergeRules = FREE,
) -> Rebased:
    """Returns what making a branch's own commits again on another head must give."""
    if history.is_on_line(head, onto):
        return Rebased(False, Outcome())
    carried = [replayed(history, one, onto) for one in history.line_until(head, onto)]
    return Rebased(True, carry(history.content(onto), carried, choices or Choices(), merge_rules))


def fast_forward(history: History, head: str, source: str) -> bool | None:
    """Returns whether a fast-forward moves a head; None if it would lose commits."""
    if history.has(head, source):
        return False
    return True if history.has(source, head) else None
