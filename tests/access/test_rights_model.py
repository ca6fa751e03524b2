"""Compiled rights decide as the plain model does, for random policies, scopes and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.access import key_rights, patterns, rights, spans, statements
from lochan.access.actions import CHECKS
from lochan.access.policy import KEYED_ACTIONS, REFERENCE_ACTIONS, Action, Rights
from lochan.access.reference_sets import NameSets
from lochan.access.rights import AttachedPolicy, compile_rights, explain
from lochan.access.spans import EVERYTHING
from lochan.access.statements import CompiledStatement
from lochan.model.access import Statement
from lochan.rules import conditions
from tests.access import plain_model
from tests.access.plain_model import (
    EACH_REFERENCE,
    KEYS,
    REPOSITORIES,
    Caller,
    callers,
    draw_caller,
    draw_places,
    places,
    raw,
)
from tests.profile import counted

pytestmark = pytest.mark.slow


SEEDS = counted(2_000, 50_000)


def attached(caller: Caller) -> list[AttachedPolicy]:
    """Returns the statements as two policies, so that several are combined."""
    half = len(caller.statements) // 2
    parts = (caller.statements[:half], caller.statements[half:])
    return [AttachedPolicy(plain_model.policy(part), "user:alice") for part in parts if part]


def compiled(caller: Caller) -> Rights:
    scopes = None if caller.scopes is None else [plain_model.policy(caller.scopes)]
    return compile_rights(attached(caller), caller.name, caller.roles, scopes)


def reads_paths(caller: Caller) -> bool:
    return any("path" in one.rule for one in [*caller.statements, *(caller.scopes or [])])


def compare(caller: Caller, asked: list[plain_model.Place]) -> None:
    """Raises AssertionError where the rights of a caller differ from the model."""
    mine = compiled(caller)
    for action, repository, reference in asked:
        right = mine.key_right(action, repository, reference)
        if action not in KEYED_ACTIONS:
            expected = plain_model.allows(caller, action, repository, reference)
            assert mine.allows(action, repository, reference) == expected
            assert mine.allows(action, repository, reference, [raw(KEYS[0])]) == expected
            assert (right is None) == expected
            continue
        covered = [plain_model.allows(caller, action, repository, reference, key) for key in KEYS]
        for key, expected in zip(KEYS, covered, strict=True):
            assert mine.allows(action, repository, reference, [raw(key)]) == expected, key
            assert (right is None or right.covers(raw(key))) == expected, key
            following = None if right is None else right.next_range(raw(key))
            assert not expected or right is None or (following and following[0] <= raw(key)), key
        some = plain_model.allows_some_key(caller, action, repository, reference)
        every = plain_model.allows_all_keys(caller, action, repository, reference)
        assert mine.allows(action, repository, reference) == some
        assert (right is None) == every
        assert some or not any(covered)
        assert not every or all(covered)
        assert reads_paths(caller) or (some, every) == (any(covered), all(covered))
        assert mine.allows(action, repository, reference, [raw(key) for key in KEYS]) == (
            all(covered)
        )


@given(callers(), places())
def test_rights_decide_as_the_model_does(caller, places):
    compare(caller, [*places, *places])


@given(callers(), st.sampled_from(REPOSITORIES))
def test_a_repository_is_seen_if_anything_is_allowed_in_it(caller, repository):
    compare_sight(caller, repository)


def compare_sight(caller: Caller, repository: str) -> None:
    """Raises AssertionError unless a repository is seen exactly if something in it may be."""
    mine = compiled(caller)
    seen = any(
        plain_model.allows(caller, action, repository, reference)
        for action in (Action.VIEW_REFERENCE, Action.CREATE_REFERENCE)
        for reference in (*EACH_REFERENCE, None)
    ) or any(
        plain_model.allows(caller, action, repository, None)
        for action in (Action.READ_SETTINGS, Action.WRITE_SETTINGS, Action.LIST_REPOSITORIES)
    )
    assert mine.sees(repository) == seen
    assert mine.sees(repository) == seen, "remembered"


@given(callers(), callers(), st.sampled_from(sorted(KEYED_ACTIONS, key=str)), places())
def test_equal_rights_on_keys_cover_the_same_keys(caller, other, action, places):
    mine, its = compiled(caller), compiled(other)
    found = {}
    for rights_of, who in ((mine, caller), (its, other)):
        for _, repository, reference in places:
            right = rights_of.key_right(action, repository, reference)
            covered = tuple(rights_of.allows(action, repository, reference, [raw(k)]) for k in KEYS)
            found.setdefault(right, set()).add((covered, reads_paths(who)))
    assert all(len({covered for covered, _ in each}) == 1 for each in found.values())
    plain = [covered for each in found.values() for covered, reads in each if not reads]
    if not reads_paths(caller) and not reads_paths(other):
        assert len(set(plain)) == len(found), "without conditions on keys there is one form"


@given(callers(), places(), st.sampled_from([*KEYS, None]))
def test_an_explanation_names_a_statement_that_decides(caller, places, key):
    action, repository, reference = places[0]
    caller = caller._replace(scopes=None)
    policies = attached(caller)
    mine = compile_rights(policies, caller.name, caller.roles)
    given_key = None if key is None else raw(key)
    keys = [] if given_key is None else [given_key]
    found = explain(policies, caller.name, caller.roles, action, repository, reference, given_key)
    assert found.allowed == mine.allows(action, repository, reference, keys)
    if found.statement is None:
        assert not found.allowed
        return
    named = [
        (one.policy.id, number, one.policy.statements[number - 1].effect)
        for one in policies
        for number in range(1, len(one.policy.statements) + 1)
    ]
    assert (found.policy, found.statement, "allow" if found.allowed else "deny") in named


# Deliberately wrong decisions, each of which the comparison must notice.


def prefixes_without_separator(patch: pytest.MonkeyPatch) -> None:
    right = spans.prefixed
    patch.setattr(patterns, "prefixed", lambda prefix: right(prefix[:-1]))


def a_prefix_covers_its_parent(patch: pytest.MonkeyPatch) -> None:
    right = spans.prefixed
    patch.setattr(patterns, "prefixed", lambda prefix: (prefix[:-1], right(prefix)[1]))


def allowing_wins(patch: pytest.MonkeyPatch) -> None:
    right = key_rights.combine
    patch.setattr(rights, "combine", lambda allowing, denying: right(allowing, denying[:0]))


def scopes_are_ignored(patch: pytest.MonkeyPatch) -> None:
    right = rights.PolicyRights.__init__
    patch.setattr(
        rights.PolicyRights, "__init__", lambda self, layers, *more: right(self, layers[:1], *more)
    )


def scopes_add(patch: pytest.MonkeyPatch) -> None:
    right = rights.PolicyRights.__init__

    def added(self, layers, *more):
        right(self, [[one for layer in layers for one in layer]], *more)

    patch.setattr(rights.PolicyRights, "__init__", added)


def denying_by_hash_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = CompiledStatement.is_at

    def careless(self, place):
        if place.reference is None:
            return self.references == EVERYTHING
        return right(self, place)

    patch.setattr(CompiledStatement, "is_at", careless)


def one_reference_allows_by_hash(patch: pytest.MonkeyPatch) -> None:
    right = CompiledStatement.is_at
    patch.setattr(
        CompiledStatement,
        "is_at",
        lambda self, place: place.reference is None or right(self, place),
    )


def conditions_on_references_hold_by_hash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statements, "_not_known", lambda place: frozenset())


def failing_denials_are_ignored(patch: pytest.MonkeyPatch) -> None:
    for module in (statements, key_rights):
        patch.setattr(module, "holds", lambda verdict, *, allows: verdict is True)


def failing_conditions_allow(patch: pytest.MonkeyPatch) -> None:
    for module in (statements, key_rights):
        patch.setattr(module, "holds", lambda verdict, *, allows: verdict is not False)


def viewing_is_not_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rights, "_VIEWED", frozenset())


def one_check_is_enough(patch: pytest.MonkeyPatch) -> None:
    first = {action: names[:1] for action, names in CHECKS.items()}
    patch.setattr(rights, "CHECKS", first)


def some_keys_delete_a_reference(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statements, "_WHOLE", frozenset())


def some_keys_deny_a_commit(patch: pytest.MonkeyPatch) -> None:
    right = CompiledStatement.keys_for

    def careless(self, action):
        found = right(self, action)
        return found if self.allows or action not in REFERENCE_ACTIONS else self.keys

    patch.setattr(CompiledStatement, "keys_for", careless)


def the_name_of_a_reference_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rights, "REFERENCE", "")


def ranges_forget_what_may_be_viewed(patch: pytest.MonkeyPatch) -> None:
    right = rights.PolicyRights._counted

    def careless(self, action, repository):
        found = right(self, action, repository)
        return tuple(() for _ in found) if action is Action.VIEW_REFERENCE else found

    plan = rights.PolicyRights._add_plan

    def add(self, action, repository):
        if action is not Action.VIEW_REFERENCE:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(rights.PolicyRights, "_counted", careless)
                return plan(self, action, repository)
        return plan(self, action, repository)

    patch.setattr(rights.PolicyRights, "_add_plan", add)


def limited_keys_allow_all_files(patch: pytest.MonkeyPatch) -> None:
    def careless(keys, paths):
        tables = patterns._compile(keys, patterns._TABLES, patterns._keyed)
        return tables | patterns._compile(paths, patterns._FILES, patterns._filed)

    patch.setattr(statements, "compile_keys", careless)


def paths_lose_their_dots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conditions, "DOT_INSIDE", ".")


def conditions_on_references_may_always_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        statements, "names_for", lambda condition, bound: NameSets(EVERYTHING, EVERYTHING)
    )


def objects_need_no_reading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rights, "_IN_OBJECTS", ())


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    prefixes_without_separator,
    a_prefix_covers_its_parent,
    allowing_wins,
    scopes_are_ignored,
    scopes_add,
    denying_by_hash_is_forgotten,
    one_reference_allows_by_hash,
    conditions_on_references_hold_by_hash,
    failing_denials_are_ignored,
    failing_conditions_allow,
    viewing_is_not_needed,
    one_check_is_enough,
    some_keys_delete_a_reference,
    some_keys_deny_a_commit,
    the_name_of_a_reference_is_not_kept,
    ranges_forget_what_may_be_viewed,
    limited_keys_allow_all_files,
    paths_lose_their_dots,
    objects_need_no_reading,
    conditions_on_references_may_always_hold,
]


@pytest.fixture
def fresh_caches() -> Iterator[None]:
    """Forgets what was compiled and evaluated, before a fault is planted and after it."""

    def clear() -> None:
        rights.forget_shared()
        conditions.forget_evaluations()

    clear()
    yield
    clear()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.usefixtures("fresh_caches")
def test_a_planted_fault_is_found(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        compare_seeds(SEEDS)


def test_no_seed_finds_a_fault_that_was_not_planted():
    compare_seeds(SEEDS)


def test_a_denial_on_condition_of_a_path_hides_raw_objects_although_it_holds_for_no_key():
    # A seed of an earlier list of conditions. No file below `a/` has a path that begins with `a.b`,
    # but that is not known of the keys that there may be.
    denial = Statement(
        effect="deny", actions=("read",), paths=("a/*",), keys=(), rule="path.startsWith('a.b')"
    )
    caller = Caller([denial, plain_model.ALLOW_ALL], None, "bob", ())
    compare(caller, [(Action.EXCHANGE_OBJECTS, "r2", None), (Action.READ_CONTENT, "r2", "main")])
    assert not compiled(caller).allows(Action.EXCHANGE_OBJECTS, "r2")
    assert compiled(caller).allows(Action.READ_CONTENT, "r2", None, [raw(key) for key in KEYS])


def compare_seeds(seeds: int) -> None:
    for seed in range(seeds):
        compare_seed(seed)


def compare_seed(seed: int) -> None:
    choose = Random(seed).choice
    caller = draw_caller(choose)
    compare(caller, draw_places(choose))
    compare_sight(caller, choose(REPOSITORIES))
