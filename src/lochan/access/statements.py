"""Policies, compiled: which statements count for an action, and for which keys.

A statement counts for an action in a reference if the patterns of repositories and of references
cover it, and its condition holds. What its patterns of keys mean depends on the action:

| action | allow | deny |
|---|---|---|
| on keys | those keys | those keys |
| in a reference (view, log, commit, merge, create, assign) | for any keys | only if for all keys |
| on all keys of a reference (delete) | only if for all keys | for any keys |
| on all objects (exchange of objects) | only if for all keys and references | for any |
| list repositories | for any keys and references | only if for all |
| all others (settings, repositories, access) | only if for all keys and references | the same |

A commit that is named by its hash alone may belong to any reference: there, a statement that allows
counts only if it is for all references, and one that denies counts for whatever reference it is.

A statement that is not understood, because a newer server wrote it, allows nothing, and denies
everything if it is one that denies.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from lochan.access.actions import ALL_ACTIONS, actions_of
from lochan.access.patterns import ALL_KEYS, compile_keys, compile_names
from lochan.access.policy import KEYED_ACTIONS, REFERENCE_ACTIONS, Action
from lochan.access.reference_sets import REFERENCE, names_for
from lochan.access.spans import EVERYTHING, NOTHING, Spans
from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.policies import (
    POLICIES_COMPILED_MAX,
    POLICY_BYTES_MAX,
    POLICY_STATEMENTS_MAX,
    STATEMENT_ITEMS_MAX,
)
from lochan.model.access import AccessPolicy, Statement
from lochan.rules.conditions import PATH, Bound, Condition, Value, compile_condition

_WHOLE: Final = frozenset((Action.DELETE_REFERENCE, Action.EXCHANGE_OBJECTS))
_OF_A_REPOSITORY: Final = ALL_ACTIONS - REFERENCE_ACTIONS


class Place(msgspec.Struct, frozen=True):
    """Where a statement may count: an action in a repository and a reference, for one caller.

    `check` is what conditions know as `op`. `reference` is None for a commit that is named by its
    hash alone, and for what belongs to no reference; `raw` are its bytes.
    """

    action: Action
    check: str
    repository: str
    reference: str | None
    raw: bytes
    name: str
    roles: tuple[str, ...]

    def values(self) -> dict[str, Value]:
        """Returns the variables of conditions."""
        return {
            "op": self.check,
            "role": self.name,
            "roles": self.roles,
            "repository": self.repository,
            REFERENCE: self.reference or "",
        }


class Counted(msgspec.Struct, frozen=True):
    """A statement that counts in a place: for some keys, if a condition holds for a key."""

    keys: Spans
    condition: Condition | None = None
    bound: Bound = ()


class CompiledStatement(msgspec.Struct, frozen=True, eq=False):
    """A statement with its patterns and its condition compiled.

    Each is compared as an object, so that what was combined of several can be looked up fast.
    """

    allows: bool
    actions: frozenset[Action]
    repositories: Spans
    references: Spans
    keys: Spans
    condition: Condition | None = None
    reads: frozenset[str] = frozenset()
    """The variables that the condition reads."""

    def is_in(self, action: Action, repository: str) -> bool:
        """Returns whether it may count for an action in a repository."""
        if action not in self.actions:
            return False
        if action is Action.LIST_REPOSITORIES and not repository:
            return self.allows or self.repositories == EVERYTHING
        return self.repositories.covers(raw_name(repository))

    def find(self, place: Place) -> Counted | None:
        """Returns for which keys it counts in a place, None if for none; after `is_in`."""
        if not self.is_at(place):
            return None
        keys = self.keys_for(place.action)
        if keys == NOTHING:
            return None
        condition = self.condition
        if condition is None:
            return Counted(keys)
        if not condition.reads.isdisjoint(_not_known(place)):
            return None if self.allows else Counted(keys)
        bound = condition.bind(place.values())
        if PATH in condition.reads and place.action in KEYED_ACTIONS:
            return Counted(keys, condition, bound)
        return Counted(keys) if holds(condition.evaluate(bound), allows=self.allows) else None

    def names_at(self, place: Place) -> Spans:
        """Returns the references for which it counts, for an action in one; after `is_in`.

        If that cannot be known, they are those for which it may count if it allows, and those for
        which it surely counts if it denies. The reference of the place does not matter.
        """
        condition = self.condition
        if condition is None:
            return self.references
        sets = names_for(condition, condition.bind(place.values()))
        return self.references & (sets.holds if self.allows else EVERYTHING - sets.not_holds)

    def is_at(self, place: Place) -> bool:
        """Returns whether the patterns of references count there."""
        if place.reference is not None:
            return self.references.covers(place.raw)
        if self.references == EVERYTHING:
            return True
        if place.action is Action.LIST_REPOSITORIES:
            return self.allows
        if place.action in REFERENCE_ACTIONS or place.action in _WHOLE:
            return not self.allows
        return False

    def keys_for(self, action: Action) -> Spans:
        """Returns the keys for which it counts; what is not on keys is for all or for none."""
        if action in KEYED_ACTIONS or self.keys == ALL_KEYS:
            return self.keys
        if action in _WHOLE:
            counts = not self.allows
        elif action in REFERENCE_ACTIONS or action is Action.LIST_REPOSITORIES:
            counts = self.allows
        else:
            counts = False
        return ALL_KEYS if counts else NOTHING


def holds(verdict: bool | None, *, allows: bool) -> bool:
    """Returns whether a statement counts by the result of its condition.

    A condition that fails does not allow, and does deny.
    """
    return verdict is True if allows else verdict is not False


def check_policy(policy: AccessPolicy) -> None:
    """Raises Invalid, with the place, unless all of a policy is understood.

    Statements are counted from 1.
    """
    statements = policy.statements
    if not 0 < len(statements) <= POLICY_STATEMENTS_MAX:
        raise Invalid(
            f"a policy has 1 to {POLICY_STATEMENTS_MAX} statements, not {len(statements)}"
        )
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in _texts(policy))
    if size > POLICY_BYTES_MAX:
        raise TooLarge(f"the texts of a policy have at most {POLICY_BYTES_MAX} bytes, not {size}")
    for number, statement in enumerate(statements, 1):
        try:
            _compile(statement)
        except Invalid as error:
            raise Invalid(f"statement {number} of the policy: {error.message}") from None


@lru_cache(POLICIES_COMPILED_MAX)
def compile_statements(policy: AccessPolicy) -> tuple[CompiledStatement, ...]:
    """Compiles a stored policy; what is not understood allows nothing and denies everything."""
    return tuple([_compile_stored(statement) for statement in policy.statements])


_DENY_ALL: Final = CompiledStatement(False, ALL_ACTIONS, EVERYTHING, EVERYTHING, ALL_KEYS)
_ALLOW_NONE: Final = CompiledStatement(True, frozenset(), NOTHING, NOTHING, NOTHING)


def _compile_stored(statement: Statement) -> CompiledStatement:
    try:
        return _compile(statement)
    except Invalid:
        return _ALLOW_NONE if statement.effect == "allow" else _DENY_ALL


def _compile(statement: Statement) -> CompiledStatement:
    if statement.effect not in ("allow", "deny"):
        raise Invalid(f"the effect is allow or deny, not {statement.effect!r}")
    if not 0 < len(statement.actions) <= STATEMENT_ITEMS_MAX:
        raise Invalid(
            f"a statement has 1 to {STATEMENT_ITEMS_MAX} actions, not {len(statement.actions)}"
        )
    actions = frozenset().union(*(actions_of(name) for name in statement.actions))
    keys = compile_keys(statement.keys, statement.paths)
    if keys == NOTHING:
        raise Invalid("a statement has a pattern of keys or of paths")
    condition = compile_condition(statement.rule) if statement.rule else None
    return CompiledStatement(
        allows=statement.effect == "allow",
        actions=actions,
        repositories=_named("repositories", statement.repositories),
        references=_named("references", statement.references),
        keys=keys,
        condition=condition,
        reads=frozenset() if condition is None else condition.reads,
    )


def _named(kind: str, patterns: tuple[str, ...]) -> Spans:
    if not patterns:
        raise Invalid(f"a statement has a pattern of {kind}; `*` is the one for all")
    return compile_names(patterns)


def _texts(policy: AccessPolicy) -> list[str]:
    texts = [policy.id, policy.description]
    for one in policy.statements:
        texts += (one.rule, *one.actions, *one.repositories, *one.references, *one.keys, *one.paths)
    return texts


def _not_known(place: Place) -> frozenset[str]:
    """Returns the variables that stand for several values at once."""
    names = set()
    if place.action in _WHOLE:
        names.add(PATH)
    if place.reference is None and place.action in REFERENCE_ACTIONS | _WHOLE:
        names.add(REFERENCE)
    return frozenset(names)


def raw_name(name: str) -> bytes:
    """Returns the bytes by which a name is looked up; any text has some."""
    return name.encode("utf-8", "surrogatepass")
