"""Conditions of policies: what they see, what is refused, and that failing is a result."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, LochanError
from lochan.base.keys import file_key, job_key, table_key
from lochan.base.limits.filters import FILTER_BYTES_MAX
from lochan.base.limits.policies import CONDITION_ROLES_MAX
from lochan.rules import filters
from lochan.rules.conditions import Value, _compile, compile_condition, count_evaluations

VALUES: dict[str, Value] = {
    "op": "READ_ENTITY_VALUE",
    "role": "alice",
    "roles": ("readers", "writers"),
    "repository": "sales",
    "ref": "dev/alice",
}
KEY = table_key(["a", "b.c", "d"])


def evaluate(text: str, key: bytes | None = KEY, **values: Value) -> bool | None:
    condition = compile_condition(text)
    return condition.evaluate(condition.bind({**VALUES, **values}), key)


@pytest.mark.parametrize(
    "text",
    [
        "op == 'READ_ENTITY_VALUE' && role == 'alice'",
        "op in ['VIEW_REFERENCE', 'READ_ENTITY_VALUE']",
        "'writers' in roles",
        "!('admins' in roles)",
        "roles.exists(one, one.startsWith('wri'))",
        "size(roles) == 2",
        "ref.startsWith('dev/') && repository == 'sales'",
        "path == 'a.b\\u001dc.d'",
        "path.startsWith('a.') && path.matches('^a[.].*d$')",
        "true",
    ],
)
def test_a_condition_reads_the_names_of_a_request(text):
    assert evaluate(text) is True
    assert evaluate(f"!({text})") is False


def test_different_keys_have_different_paths():
    keys = [table_key(["a", "b", "c"]), table_key(["a.b", "c"]), table_key(["a", "b.c"])]
    assert [evaluate("path == 'a.b.c'", key) for key in keys] == [True, False, False]
    assert evaluate("path == 'raw/x.csv'", file_key("raw/x.csv")) is True
    assert evaluate("path == ''", None) is True
    assert evaluate("path.contains('job')", job_key("id", "job")) is True


@pytest.mark.parametrize(
    "text",
    ["roles[7] == 'x'", "int(path) == 1", "path + 1 == 'x'", "path", "1", "role < 3", "null"],
)
def test_what_cannot_be_evaluated_is_neither_true_nor_false(text):
    assert evaluate(text) is None


def test_bytes_that_are_no_text_are_neither_true_nor_false():
    assert evaluate("path != 'x'", b"t\xff") is None
    assert evaluate("path != 'x'", b"") is None
    assert evaluate("ref != 'x'", ref="\udc80") is None


def test_a_caller_with_too_many_roles_gets_no_result():
    many = tuple(f"role-{number}" for number in range(CONDITION_ROLES_MAX + 1))
    assert evaluate("'role-1' in roles", roles=many) is None
    assert evaluate("'role-1' in roles", roles=many[:-1]) is True
    assert evaluate("role == 'alice'", roles=many) is True


@pytest.mark.parametrize("name", ["' || true || '", "x') || ('a' == 'a", "\\", "${role}", "*"])
def test_names_are_values_and_never_part_of_the_text(name):
    assert evaluate("role == 'alice' && ref == 'main'", role=name, ref=name) is False
    assert evaluate("role == ref", role=name, ref=name) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("contentType == 'ICEBERG_TABLE'", "decisions are made before contents are read"),
        ("user == 'x'", "known here: op, path, ref, repository, role, roles"),
        ("role.name == 'x'", "undefined field 'name'"),
        ("operations.exists(x, true)", "undeclared reference to 'operations'"),
        ("role == 'x", "not understood"),
        ("(role == 'x'", "never closed"),
        ("roles.exists(a, roles.exists(b, a == b))", "inside another loop"),
        ("roles.exists(a, a.matches('[a-z]{900}'))", "costly"),
        ("roles.exists(a, " + " || ".join(["a.matches('[a-z]+')"] * 4) + ")", "costly"),
        (" ", "empty"),
        ("role ==", "cannot be read at line 1"),
        ("role == '" + "x" * FILTER_BYTES_MAX + "'", "bytes"),
    ],
)
def test_a_bad_condition_is_refused_with_the_reason(text, reason):
    with pytest.raises(Invalid, match=r"condition|empty") as caught:
        compile_condition(text)
    assert reason in caught.value.message
    assert not caught.value.message.startswith("The filter")


def test_only_the_variables_that_are_read_are_bound():
    condition = compile_condition("role == 'alice' && path != 'x'")
    assert condition.reads == {"role", "path"}
    assert condition.bind(VALUES) == (("role", "alice"),)


def test_a_result_is_computed_once_for_the_same_values():
    text = "role == 'someone' && ref != 'x'"
    evaluate(text)
    before = count_evaluations()
    for key in (KEY, None, file_key("x")):
        evaluate(text, key)
    assert count_evaluations().evaluated == before.evaluated, "it does not read the path"
    evaluate(text, role="bob")
    after = count_evaluations()
    assert after.evaluated == before.evaluated + 1
    assert after.found == before.found + 3


def test_without_the_evaluator_a_condition_is_refused(monkeypatch):
    monkeypatch.setattr(filters, "filters_installed", lambda: False)
    _compile.cache_clear()
    with pytest.raises(LochanError, match="not installed"):
        compile_condition("role == 'never compiled before'")
