"""For which references a condition may hold agrees with what the condition evaluates to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.access.reference_sets import names_for
from lochan.access.rights import AttachedPolicy, compile_rights
from lochan.model.access import AccessPolicy, Statement
from lochan.rules.conditions import Value, compile_condition

NAMES = ("main", "main2", "mai", "dev", "dev/x", "a'b", "zz")
VALUES: dict[str, Value] = {
    "op": "X",
    "role": "ada",
    "roles": ("g1",),
    "repository": "r",
    "ref": "",
}

SIMPLE = (
    *("ref == 'main'", "'dev' == ref", 'ref != "main"', "'dev' != ref", "ref in ['main', 'dev']"),
    *("ref.startsWith('dev')", "ref.startsWith('')", "ref == r'dev'", "ref in ['zz']"),
    *("repository == 'r'", "role == 'bob'", "true", "'g1' in roles", "size(path) == 0"),
)
OTHERS = (
    *("ref.endsWith('x')", "ref.matches('^m')", "size(ref) == 3", "ref + 'x' == 'devx'"),
    *("roles.exists(one, one == ref)", "ref == 'a\\'b'", "ref == role", "!ref.contains('a')"),
    *("(ref == 'main' ? true : false)", "(ref) == 'main'", "ref == 'main' == true"),
)


def formulas(parts: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(parts),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(("&&", "||")), inner).map(" ".join),
            inner.map(lambda text: f"({text})"),
            inner.map(lambda text: f"!({text})"),
            inner.map(lambda text: f"!!({text})"),
        ),
        max_leaves=6,
    )


def results(text: str) -> list[tuple[bool | None, bool, bool]]:
    """Returns for each name the result of the condition, and what it may be."""
    condition = compile_condition(text)
    sets = names_for(condition, condition.bind(VALUES))
    return [
        (
            condition.evaluate(condition.bind({**VALUES, "ref": name})),
            sets.holds.covers(name.encode()),
            sets.not_holds.covers(name.encode()),
        )
        for name in NAMES
    ]


@given(formulas(SIMPLE))
def test_comparisons_with_texts_are_known_exactly(text):
    for result, may_hold, may_not in results(text):
        assert (may_hold, may_not) == (result is True, result is False), text


@given(formulas((*SIMPLE, *OTHERS)))
def test_no_reference_is_left_out_for_which_a_condition_holds(text):
    for result, may_hold, may_not in results(text):
        assert may_hold or result is not True, text
        assert may_not or result is not False, text


def test_what_fails_neither_holds_nor_does_not():
    assert results("int(role) == 1") == [(None, False, False)] * len(NAMES)


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        ("ref == 'main' && repository == 'sales'", False),
        ("ref.matches('^dev') && repository == 'sales'", False),
        ("ref.matches('^dev') && repository == 'hr'", True),
        ("repository == 'hr' && ref == 'main'", True),
        ("ref == 'main' && ref == 'dev'", False),
        ("ref.startsWith('dev') && !ref.startsWith('de')", False),
        ("repository == 'sales' || ref in ['x']", True),
    ],
)
def test_a_repository_is_seen_only_if_a_condition_can_hold_in_it(rule, seen):
    statement = Statement(effect="allow", actions=("read", "write"), rule=rule)
    policy = AccessPolicy("p", (statement,))
    assert compile_rights([AttachedPolicy(policy, "user:ada")], "ada", ()).sees("hr") == seen


@pytest.mark.parametrize("rule", ["int(role) == 1", "ref == 'main' && int(role) == 1", "true"])
def test_a_repository_is_hidden_by_a_denial_that_fails_or_holds(rule):
    allow = Statement(effect="allow", actions=("read",), rule="ref == 'main'")
    deny = Statement(effect="deny", actions=("*",), rule=rule)
    for statements, seen in (((allow,), True), ((allow, deny), False)):
        policy = AttachedPolicy(AccessPolicy("p", statements), "user:ada")
        assert compile_rights([policy], "ada", ()).sees("hr") == seen
