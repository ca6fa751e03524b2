"""Login tokens: only what our own keys have signed, in one form, for an hour."""

from __future__ import annotations

import base64

import jwt
import msgspec
import pytest

from lochan.access.logins import LoginClaims, Logins, is_login
from lochan.access.secrets import KeyRing
from lochan.base.limits.credentials import LOGIN_MS
from lochan.testing.ports import ManualClock, SeededRandom
from tests.access.issuer import kind_of

RANDOM = SeededRandom(5)
OLD, NEW = RANDOM.random_bytes(32), RANDOM.random_bytes(32)
CLAIMS = {
    "iss": "lochan",
    "aud": "lochan login 1",
    "sub": "alice",
    "key": "LOCHAAAAAAAAAAAAAAAA",
    "incarnation": b"first".hex(),
    "iat": 1_700_000_000,
    "exp": 1_700_003_600,
}


def signed(claims: object, key: bytes = KeyRing([OLD]).derive("login")[0], alg="HS256", **headers):
    raw = claims if isinstance(claims, bytes) else msgspec.json.encode(claims)
    return jwt.PyJWS().encode(raw, key, alg, headers=headers or None, sort_headers=True)


def test_a_login_is_read_until_it_expires():
    clock = ManualClock()
    logins = Logins(KeyRing([OLD]), clock)
    login = logins.issue("alice", b"first", "LOCHAAAAAAAAAAAAAAAA")
    assert login.expires_us == clock.now_us() + LOGIN_MS * 1_000
    assert is_login(login.secret)
    read = logins.read(login.secret)
    assert read == LoginClaims("alice", b"first", "LOCHAAAAAAAAAAAAAAAA", login.expires_us)
    clock.advance_us(LOGIN_MS * 1_000 - 1)
    assert logins.read(login.secret) == read
    clock.advance_us(1)
    assert logins.read(login.secret) is None


def test_another_server_with_the_same_keys_reads_it():
    clock = ManualClock()
    login = Logins(KeyRing([OLD]), clock).issue("alice", b"first", "key")
    assert Logins(KeyRing([NEW, OLD]), clock).read(login.secret) is not None
    assert Logins(KeyRing([NEW]), clock).read(login.secret) is None


def test_the_form_that_tests_sign_is_the_right_one():
    assert Logins(KeyRing([OLD]), ManualClock()).read(signed(CLAIMS)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b.c",
        signed(CLAIMS, key=KeyRing([OLD]).derive("login")[0] * 2, alg="HS512"),
        signed(CLAIMS, kid="1"),
        signed(CLAIMS, key=NEW),
        signed(CLAIMS, key=OLD),
        signed(CLAIMS | {"aud": "other"}),
        signed(CLAIMS | {"iss": "other"}),
        signed(CLAIMS | {"exp": "tomorrow"}),
        signed(CLAIMS | {"more": 1}),
        signed({name: value for name, value in CLAIMS.items() if name != "exp"}),
        signed(b"{"),
        signed(b"[" * 500),
        signed(CLAIMS | {"sub": "x" * 3_000}),
        signed(CLAIMS) + "=",
        signed(CLAIMS) + "\n",
        signed(CLAIMS)[:-4],
        signed(CLAIMS).rpartition(".")[0] + ".",
    ],
    ids=kind_of,
)
def test_any_other_text_is_no_login(text):
    assert Logins(KeyRing([OLD]), ManualClock()).read(text) is None


def test_a_changed_claim_is_noticed():
    head, claims, signature = signed(CLAIMS).split(".")
    raw = base64.urlsafe_b64decode(claims + "==").replace(b"alice", b"admin")
    changed = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert Logins(KeyRing([OLD]), ManualClock()).read(f"{head}.{changed}.{signature}") is None
