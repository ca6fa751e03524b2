"""What one caller may do: the policies of a user, compiled, and limited by those of a token.

Rights are made when a caller is authenticated and do not change; all requests of the caller share
them. A decision is a lookup: all that depends on the statements is computed once for each action
and repository, and for each range of references that the patterns distinguish. The results are
pure functions of the policies, so threads that compute one at the same time store the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from lochan.access.actions import CHECKS
from lochan.access.key_rights import Keys, Layer, combine, intersect
from lochan.access.patterns import ALL_KEYS
from lochan.access.policy import KEYED_ACTIONS, REFERENCE_ACTIONS, Action, Rights
from lochan.access.reference_sets import REFERENCE
from lochan.access.spans import EVERYTHING, NOTHING, Spans, one_name, union
from lochan.access.statements import (
    CompiledStatement,
    Counted,
    Place,
    check_policy,
    compile_statements,
    raw_name,
)
from lochan.base.limits.policies import (
    RIGHTS_PLANS_MAX,
    RIGHTS_PLANS_SHARED_MAX,
    RIGHTS_REFERENCES_MAX,
    STATEMENTS_COMBINED_MAX,
)
from lochan.model.access import AccessPolicy, Explanation

__all__ = [
    "OPEN_RIGHTS",
    "AttachedPolicy",
    "OpenRights",
    "PolicyRights",
    "check_policy",
    "compile_rights",
    "explain",
]

_Statements = tuple[CompiledStatement, ...]
_Layers = tuple[_Statements, ...]

_CHECK: Final = "op"
_ANY_CHECK: Final = ""
_ANY_KEY: Final = Counted(ALL_KEYS)
_ALL: Final = Layer(ALL_KEYS)
_NO_NAME: Final = union([one_name(b"")])

# Actions that need the right to view the reference too.
_VIEWED: Final = REFERENCE_ACTIONS - {Action.VIEW_REFERENCE, Action.CREATE_REFERENCE}

# Every object of a repository: exchanging them needs the right to read all that they contain.
_IN_OBJECTS: Final = (Action.READ_CONTENT, Action.READ_ENTRIES, Action.READ_LOG)

# Actions by which a repository is seen; those in a reference need the right to view one.
_SEEN_BY: Final = (
    Action.VIEW_REFERENCE,
    Action.CREATE_REFERENCE,
    Action.READ_SETTINGS,
    Action.WRITE_SETTINGS,
    Action.LIST_REPOSITORIES,
)


class AttachedPolicy(msgspec.Struct, frozen=True):
    """A policy of a caller, and what it is attached to: `user:alice` or `group:writers`."""

    policy: AccessPolicy
    via: str


class OpenRights:
    """Allows everything: those of all callers until the first user is set up."""

    def allows(
        self,
        action: Action,  # noqa: ARG002 - the protocol has them
        repository: str,  # noqa: ARG002
        reference: str | None = None,  # noqa: ARG002
        keys: Sequence[bytes] = (),  # noqa: ARG002
    ) -> bool:
        """Returns True."""
        return True

    def key_right(
        self,
        action: Action,
        repository: str,
        reference: str | None,
    ) -> None:
        """Returns None: all keys."""

    def sees(self, repository: str) -> bool:  # noqa: ARG002
        """Returns True."""
        return True


OPEN_RIGHTS: Final[Rights] = OpenRights()


class _Plan:
    """The decisions on one action in one repository, by the statements that count there.

    `bounds` are the names at which what the patterns cover changes, `found` the decision for each
    range between them, False until it is computed. If a condition reads the name of the reference,
    the decisions are kept `by_name` instead.
    """

    __slots__ = ("bounds", "by_hash", "by_name", "found", "layers")

    def __init__(self, action: Action, layers: _Layers, viewing: _Layers) -> None:
        # Statements, and the checks that they are looked up for: one is enough if none reads it.
        self.layers = [
            (
                tuple([one for one in layer if one.keys_for(action) is not NOTHING]),
                CHECKS[action] if any(_CHECK in one.reads for one in layer) else (_ANY_CHECK,),
            )
            for layer in layers
        ]
        statements = [one for layer in (*layers, *viewing) for one in layer]
        raw = {bound for one in statements for bound in one.references.bounds}
        self.bounds = tuple(sorted([bound.decode() for bound in raw]))
        self.found: list[Keys | Literal[False]] = [False] * (len(raw) + 1)
        self.by_hash: Keys | Literal[False] = False
        by_name = any(REFERENCE in one.reads for one in statements)
        self.by_name: dict[str, Keys] | None = {} if by_name else None


@lru_cache(RIGHTS_PLANS_SHARED_MAX)
def _shared_plan(action: Action, layers: _Layers, viewing: _Layers) -> _Plan:
    """Returns the decisions by statements without conditions: the same for all callers."""
    return _Plan(action, layers, viewing)


class PolicyRights:
    """What policies allow; those of a token limit those of its user."""

    def __init__(
        self, layers: Sequence[Sequence[CompiledStatement]], name: str, roles: Sequence[str]
    ) -> None:
        self._layers = tuple(tuple(layer) for layer in layers)
        self._name = name
        self._roles = tuple(roles)
        self._plans: dict[tuple[Action, str], _Plan] = {}
        self._seen: dict[str, bool] = {}
        self.computed = 0
        """How many decisions were computed instead of found; about, if there are threads."""

    def allows(
        self,
        action: Action,
        repository: str,
        reference: str | None = None,
        keys: Sequence[bytes] = (),
    ) -> bool:
        """Returns whether all of it is allowed; an action on keys without any: for some key."""
        right = self.key_right(action, repository, reference)
        if right is None:
            return True
        if right is NOTHING:
            return False
        covers = right.covers
        return all(covers(key) for key in keys)

    def key_right(self, action: Action, repository: str, reference: str | None) -> Keys:
        """Returns the keys for which an action is allowed; None for all."""
        plan = self._plans.get((action, repository))
        if plan is None:
            plan = self._add_plan(action, repository)
        if reference is None:
            found = plan.by_hash
            if found is False:
                plan.by_hash = found = self._compute(plan, action, repository, None)
            return found
        if plan.by_name is not None:
            return self._find_by_name(plan, plan.by_name, action, repository, reference)
        at = bisect_right(plan.bounds, reference)
        found = plan.found[at]
        if found is False:
            plan.found[at] = found = self._compute(plan, action, repository, reference)
        return found

    def sees(self, repository: str) -> bool:
        """Returns whether anything at all is allowed in a repository."""
        found = self._seen.get(repository)
        if found is None:
            found = any(self._is_possible(action, repository) for action in _SEEN_BY)
            if len(self._seen) >= RIGHTS_PLANS_MAX:
                self._seen.clear()
            self._seen[repository] = found
        return found

    def _is_possible(self, action: Action, repository: str) -> bool:
        """Returns whether an action is allowed somewhere in a repository, whatever exists there."""
        if not all(_allowing(layer) for layer in self._counted(action, repository)):
            return False
        if self.key_right(action, repository, None) is not NOTHING:
            return True
        if action not in REFERENCE_ACTIONS:
            return False
        plan = self._plans.get((action, repository)) or self._add_plan(action, repository)
        if plan.by_name is not None:
            return self._names_possible(plan, action, repository) != NOTHING
        # A name of each range; the first range is that before all bounds.
        names = ("", *plan.bounds)
        return any(self.key_right(action, repository, name) is not NOTHING for name in names)

    def _names_possible(self, plan: _Plan, action: Action, repository: str) -> Spans:
        """Returns the references in which an action that is not on keys may be allowed."""
        found = EVERYTHING - _NO_NAME
        for statements, checks in plan.layers:
            for check in checks:
                place = Place(action, check, repository, "", b"", self._name, self._roles)
                allowed = denied = NOTHING
                for one in statements:
                    if one.allows:
                        allowed |= one.names_at(place)
                    else:
                        denied |= one.names_at(place)
                found &= allowed - denied
        return found

    def _counted(self, action: Action, repository: str) -> _Layers:
        """Returns the statements of each layer that may count for an action in a repository."""
        return tuple(
            [
                tuple([one for one in layer if one.is_in(action, repository)])
                for layer in self._layers
            ]
        )

    def _add_plan(self, action: Action, repository: str) -> _Plan:
        layers = self._counted(action, repository)
        viewing: _Layers = ()
        if action in _VIEWED:
            viewing = self._counted(Action.VIEW_REFERENCE, repository)
        if action is Action.EXCHANGE_OBJECTS or any(
            one.condition is not None for layer in (*layers, *viewing) for one in layer
        ):
            plan = _Plan(action, layers, viewing)
        else:
            # Without conditions, all actions on keys are decided alike.
            alike = Action.READ_CONTENT if action in KEYED_ACTIONS else action
            plan = _shared_plan(alike, layers, viewing)
        if len(self._plans) >= RIGHTS_PLANS_MAX:
            self._plans.clear()
        return self._plans.setdefault((action, repository), plan)

    def _find_by_name(
        self,
        plan: _Plan,
        by_name: dict[str, Keys],
        action: Action,
        repository: str,
        reference: str,
    ) -> Keys:
        found: Keys | Literal[False] = by_name.get(reference, False)
        if found is False:
            found = self._compute(plan, action, repository, reference)
            if len(by_name) >= RIGHTS_REFERENCES_MAX:
                by_name.clear()
            by_name[reference] = found
        return found

    def _compute(self, plan: _Plan, action: Action, repository: str, reference: str | None) -> Keys:
        self.computed += 1
        if action in _VIEWED and (
            self.key_right(Action.VIEW_REFERENCE, repository, reference) is not None
        ):
            return NOTHING
        if action is Action.EXCHANGE_OBJECTS and any(
            self.key_right(one, repository, None) is not None for one in _IN_OBJECTS
        ):
            return NOTHING
        return self._decide(plan, action, repository, reference)

    def _decide(self, plan: _Plan, action: Action, repository: str, reference: str | None) -> Keys:
        """Returns what the statements allow; every check that an action is made of counts."""
        raw = b"" if reference is None else raw_name(reference)
        layers: list[Layer] = []
        for statements, checks in plan.layers:
            for check in checks:
                place = Place(action, check, repository, reference, raw, self._name, self._roles)
                layer = _layer_at(statements, place)
                if layer is None:
                    return NOTHING
                layers.append(layer)
        return intersect(layers)


def forget_shared() -> None:
    """Forgets what callers share, for measurements and tests."""
    compile_statements.cache_clear()
    _shared_plan.cache_clear()
    _combined.cache_clear()


def compile_rights(
    policies: Sequence[AttachedPolicy],
    name: str,
    roles: Sequence[str],
    scopes: Sequence[AccessPolicy] | None = None,
) -> Rights:
    """Returns what a caller may do; `scopes` are the policies that limit its token, if any do.

    A policy that is not understood allows nothing, and denies everything if it denies.
    """
    layers = [[one for each in policies for one in compile_statements(each.policy)]]
    if scopes is not None:
        layers.append([one for policy in scopes for one in compile_statements(policy)])
    return PolicyRights(layers, name, roles)


def explain(
    policies: Sequence[AttachedPolicy],
    name: str,
    roles: Sequence[str],
    action: Action,
    repository: str,
    reference: str | None,
    key: bytes | None,
) -> Explanation:
    """Returns which statement allows or denies something; statements are counted from 1.

    Without a key, an action on keys is allowed if it is allowed for some key.
    """
    rights = compile_rights(policies, name, roles)
    keys = () if key is None else (key,)
    allowed = rights.allows(action, repository, reference, keys)
    raw = raw_name(reference or "")
    place = Place(action, "", repository, reference, raw, name, tuple(roles))
    for needed in () if allowed else _needed(action):
        if rights.key_right(needed, repository, reference) is not None:
            place = msgspec.structs.replace(place, action=needed)
            why = f"it needs {needed.value}: "
            return _reason(policies, place, None, why, allowed=False)
    return _reason(policies, place, key, "", allowed=allowed)


def _needed(action: Action) -> tuple[Action, ...]:
    """Returns the actions that one needs for all keys."""
    if action in _VIEWED:
        return (Action.VIEW_REFERENCE,)
    if action is Action.EXCHANGE_OBJECTS:
        return (Action.VIEW_REFERENCE, *_IN_OBJECTS)
    return ()


def _reason(
    policies: Sequence[AttachedPolicy], place: Place, key: bytes | None, why: str, *, allowed: bool
) -> Explanation:
    allowing: list[tuple[AttachedPolicy, int]] = []
    denying: list[tuple[AttachedPolicy, int]] = []
    for attached in policies:
        for number, one in enumerate(compile_statements(attached.policy), 1):
            if one.is_in(place.action, place.repository) and _matches(one, place, key):
                (allowing if one.allows else denying).append((attached, number))
    some_key = key is None and place.action in KEYED_ACTIONS
    found = denying
    if allowed or (some_key and not allowing):
        # Without an allowed key, it does not matter that some keys are denied.
        found = allowing
    if not found:
        return Explanation(allowed, f"{why}no statement allows it")
    attached, number = found[0]
    policy = attached.policy.id
    verb = "allows" if allowed else "denies"
    reason = f"{why}statement {number} of policy {policy!r} {verb} it"
    return Explanation(allowed, reason, policy, number, attached.via)


def _matches(statement: CompiledStatement, place: Place, key: bytes | None) -> bool:
    """Returns whether a statement counts for some check; without a key, for some key."""
    for check in CHECKS[place.action]:
        counted = statement.find(msgspec.structs.replace(place, check=check))
        if counted is None:
            continue
        if key is None or place.action not in KEYED_ACTIONS:
            return True
        layer = combine([counted], []) if statement.allows else combine([_ANY_KEY], [counted])
        if layer.covers(key) == statement.allows:
            return True
    return False


def _layer_at(statements: _Statements, place: Place) -> Layer | None:
    """Returns what statements allow in a place; None if they allow nothing."""
    found = [one for one in statements if one.is_at(place)]
    if all(one.condition is None for one in found):
        return _plain_layer(tuple(found), place.action)
    counted = [(one, keys) for one in found if (keys := one.find(place)) is not None]
    if all(keys.condition is None for _, keys in counted):
        return _plain_layer(tuple([one for one, _ in counted]), place.action)
    allowing = [keys for one, keys in counted if one.allows]
    return combine(allowing, [keys for one, keys in counted if not one.allows])


def _plain_layer(statements: _Statements, action: Action) -> Layer | None:
    """Returns what statements allow of which no condition depends on the key."""
    if not _allowing(statements):
        return None
    if action in KEYED_ACTIONS:
        return _combined(statements)
    return _ALL if all(one.allows for one in statements) else None


@lru_cache(STATEMENTS_COMBINED_MAX)
def _combined(statements: _Statements) -> Layer:
    """Returns what statements allow on keys, without conditions; callers share the results."""
    return combine(
        [Counted(one.keys) for one in statements if one.allows],
        [Counted(one.keys) for one in statements if not one.allows],
    )


def _allowing(statements: _Statements) -> bool:
    return any(one.allows for one in statements)
