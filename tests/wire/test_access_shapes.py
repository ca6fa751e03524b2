"""What travels about access: it comes back as it was, and it has one meaning or is refused."""

from __future__ import annotations

import json

import msgspec
import pytest

from lochan.base.errors import Invalid
from lochan.model.access import (
    AccessKey,
    AccessPolicy,
    AccessStatus,
    Explanation,
    Group,
    Identity,
    Login,
    NewAccessKey,
    NewToken,
    Statement,
    Token,
    User,
)
from lochan.wire import access
from lochan.wire.access import LoginIn, NewTokenIn, NewUserIn, PolicyIn
from lochan.wire.codec import encode
from lochan.wire.strict import StrictReader

NOW_US = 1_763_400_000_123_456
TOKEN = Token("t1", "ada", "ci", NOW_US, NOW_US + 1, ("readers",))
POLICY = AccessPolicy(
    "sales",
    (
        Statement(effect="allow", actions=("read",), keys=("sales.*",)),
        Statement(effect="deny", actions=("commit",), references=("main",), rule="role == 'x'"),
    ),
    "what sales may see",
    NOW_US,
    3,
)

VALUES = [
    (AccessStatus(True, True), access.status_out, access.status_in),
    (Identity("ada", ("analysts", "everyone"), "t1"), access.identity_out, access.identity_in),
    (Login("jwt", NOW_US), access.login_out, access.login_in),
    (User("ada", "she", NOW_US), access.user_out, access.user_in),
    (Group("analysts", "", NOW_US), access.group_out, access.group_in),
    (POLICY, access.policy_out, access.policy_in),
    (TOKEN, access.token_out, access.token_in),
    (Token("t2", "ada", created_us=NOW_US), access.token_out, access.token_in),
    (NewToken(TOKEN, "lochan_t1_x"), access.new_token_out, access.new_token_in),
    (AccessKey("k1", "ada", "", NOW_US), access.access_key_out, access.access_key_in),
    (
        NewAccessKey(AccessKey("k1", "ada", "", NOW_US), "secret"),
        access.new_access_key_out,
        access.new_access_key_in,
    ),
    (
        Explanation(True, "allowed", "sales", 1, "group:analysts"),
        access.explanation_out,
        access.explanation_in,
    ),
    (Explanation(False, "no rule matches"), access.explanation_out, access.explanation_in),
]


@pytest.mark.parametrize(("value", "out", "back"), VALUES, ids=lambda each: type(each).__name__)
def test_a_value_comes_back_as_it_was_sent(value, out, back):
    shown = out(value)
    assert back(msgspec.json.decode(encode(shown), type=type(shown))) == value


def test_names_on_the_wire_are_in_camel_case():
    shown = json.loads(encode(access.new_token_out(NewToken(TOKEN, "s"))))
    assert shown["token"]["expiresAt"] == "2025-11-17T17:20:00.123457Z"
    assert json.loads(encode(access.status_out(AccessStatus(True)))) == {
        "isSetUp": True,
        "acceptsOidc": False,
    }


read_user = StrictReader(NewUserIn)
read_policy = StrictReader(PolicyIn)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"ada","id":"eve"}',
        b'{"id":"ada","description":"a","description":"a"}',
        b'{"id":"ada","\\u0069d":"eve"}',
        b'{"i\\u0064":"ada","id":"ada"}',
    ],
)
def test_a_field_that_is_named_twice_is_refused(body):
    with pytest.raises(Invalid, match="twice"):
        read_user(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"statements":[{"effect":"deny","effect":"allow","actions":["read"]}]}',
        b'{"statements":[{"effect":"allow","actions":["read"],"actions":["*"]}]}',
        b'{"statements":[],"statements":[{"effect":"allow","actions":["*"]}]}',
    ],
)
def test_a_field_that_is_named_twice_in_a_statement_is_refused(body):
    with pytest.raises(Invalid, match="twice"):
        read_policy(body)


def test_the_same_name_in_two_objects_is_no_repetition():
    body = b'{"statements":[{"effect":"deny","actions":["a"]},{"effect":"allow","actions":["b"]}]}'
    assert [each.effect for each in read_policy(body).statements] == ["deny", "allow"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"id":"ada","admin":true}', "admin"),
        (b'{"id":1}', r"\$\.id"),
        (b'{"description":"x"}', "id"),
        (b"[]", "object"),
        (b'{"id":"ada"', "JSON"),
        (b'{"id":"\xff"}', "request body"),
        (b'\xef\xbb\xbf{"id":"ada"}', "request body"),
        (b"{" * 100_000, "request body"),
        (b"", "request body"),
        (b'{"id":NaN}', "request body"),
    ],
)
def test_what_is_no_user_is_refused_with_its_place(body, named):
    with pytest.raises(Invalid, match=named):
        read_user(body)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ({"effect": "allow", "actions": ["read"], "key": ["sales.*"]}, r"statements\[0\]"),
        ({"effect": "maybe", "actions": ["read"]}, r"statements\[0\]\.effect"),
        ({"effect": "allow", "actions": "read"}, r"statements\[0\]\.actions"),
        ({"effect": "allow", "actions": [1]}, r"statements\[0\]\.actions\[0\]"),
        ({"actions": ["read"]}, "effect"),
    ],
)
def test_an_error_in_a_statement_names_its_place(statement, named):
    with pytest.raises(Invalid, match=named):
        read_policy(json.dumps({"statements": [statement]}).encode())


@pytest.mark.parametrize("version", [-1, 2**63, 1.5, "1"])
def test_a_version_is_a_number_from_zero(version):
    with pytest.raises(Invalid, match="expectedVersion"):
        read_policy(json.dumps({"statements": [], "expectedVersion": version}).encode())


def test_a_time_without_its_zone_is_refused():
    with pytest.raises(Invalid, match="expiresAt"):
        StrictReader(NewTokenIn)(b'{"expiresAt":"2026-01-01T00:00:00"}')


def test_a_login_needs_both_parts():
    with pytest.raises(Invalid, match="secret"):
        StrictReader(LoginIn)(b'{"accessKeyId":"k1"}')
