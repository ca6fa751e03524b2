"""Tokens of an issuer: what is accepted, and every forgery that libraries have accepted before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lochan.access.authorization_header import UNAUTHENTICATED_TEXT
from lochan.access.oidc import OidcClaims, OidcSettings, OidcVerifier
from lochan.access.signing_keys import KeySource, parse_key_set
from lochan.base.errors import Invalid, Unauthenticated
from lochan.base.limits.credentials import OIDC_ROLES_MAX, OIDC_TOKEN_BYTES_MAX
from lochan.testing.ports import ManualClock
from tests.access.issuer import (
    AUDIENCE,
    ISSUER,
    NOW_S,
    claims,
    curve_key,
    der,
    edwards_key,
    encoded,
    jwk,
    jwks,
    kind_of,
    pem,
    rsa_key,
    sign,
    sign_raw,
    sign_with_text,
    signing_input,
)

ALL = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
KEYS = parse_key_set(
    jwks(
        jwk(rsa_key()),
        jwk(rsa_key(1), "only PS256", alg="PS256"),
        jwk(curve_key("P-256"), "P-256"),
        jwk(curve_key("P-384"), "P-384"),
        jwk(edwards_key(), "Ed25519"),
    )
)
HEADER = {"alg": "RS256", "kid": "key 1"}


def verifier(
    clock: ManualClock | None = None, keys: KeySource = KEYS, **settings: Any
) -> OidcVerifier:
    chosen = {"issuer": ISSUER, "audience": AUDIENCE, "algorithms": ALL, **settings}
    return OidcVerifier(OidcSettings(**chosen), keys, clock or ManualClock())


def assert_refused(text: str, **settings: Any) -> None:
    with pytest.raises(Unauthenticated) as caught:
        verifier(**settings).verify(text)
    assert caught.value.public_message == UNAUTHENTICATED_TEXT
    assert text[:20] not in caught.value.message or not text


def test_a_token_of_the_issuer_proves_a_name():
    found = verifier().verify(sign(claims()))
    assert found == OidcClaims("oidc:alice", (), (NOW_S + 600 + 60) * 1_000_000)


@pytest.mark.parametrize("alg", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_an_rsa_key_signs_with_each_of_its_algorithms(alg):
    assert verifier().verify(sign(claims(), alg=alg)).name == "oidc:alice"


@pytest.mark.parametrize(
    ("kid", "alg", "key"),
    [
        ("P-256", "ES256", curve_key("P-256")),
        ("P-384", "ES384", curve_key("P-384")),
        ("Ed25519", "EdDSA", edwards_key()),
        ("only PS256", "PS256", rsa_key(1)),
    ],
)
def test_other_keys_sign_with_their_algorithm(kid, alg, key):
    assert verifier().verify(sign(claims(), key, alg, kid)).name == "oidc:alice"


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "None"},
        {"alg": "NONE"},
        {"alg": ""},
        {"alg": None},
        {"alg": ["RS256"]},
        {"alg": "RS256 "},
        {"alg": "rs256"},
        {},
    ],
)
def test_a_token_without_an_algorithm_is_refused(header):
    unsigned = signing_input({"kid": "key 1", **header}, claims())
    for end in (".", ".AA", ""):
        assert_refused(unsigned + end)
    assert_refused(sign_raw({"kid": "key 1", **header}, claims()))


@pytest.mark.parametrize("form", [pem, der])
def test_a_public_key_is_never_a_shared_secret(form):
    for alg in ("HS256", "RS256"):
        header = {"alg": alg, "kid": "key 1"}
        assert_refused(sign_with_text(header, claims(), form(rsa_key())))


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512", "none", "ES512", "ES256K", "RSA1_5"])
def test_settings_cannot_allow_other_algorithms(alg):
    with pytest.raises(Invalid, match=alg):
        verifier(algorithms=("RS256", alg))


def test_an_algorithm_that_the_settings_do_not_name_is_refused():
    assert_refused(sign(claims(), alg="RS512"), algorithms=("RS256",))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"aud": ["another"]},
        {"aud": [AUDIENCE, 1]},
        {"aud": {AUDIENCE: 1}},
        {"aud": AUDIENCE + " "},
        {"aud": True},
        {"iss": "https://other.example"},
        {"iss": ISSUER + "/"},
        {"iss": None},
        {"iss": [ISSUER]},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": ["alice"]},
        {"sub": "alice/bob"},
        {"sub": "../alice"},
        {"sub": "alice\n"},
        {"sub": "oidc:alice"},
        {"sub": "a" * 129},
        {"sub": "ålice"},
        {"exp": None},
        {"exp": str(NOW_S + 600)},
        {"exp": True},
        {"exp": [NOW_S + 600]},
        {"exp": -1},
        {"exp": 10**400},
        {"exp": 10**18},
        {"nbf": "soon"},
        {"iat": False},
    ],
)
def test_missing_and_wrong_claims_are_refused(changes):
    assert_refused(sign(claims(**changes)))


@pytest.mark.parametrize("aud", [AUDIENCE, [AUDIENCE], ["another", AUDIENCE]])
def test_the_audience_is_one_of_those_that_a_token_names(aud):
    assert verifier().verify(sign(claims(aud=aud))).name == "oidc:alice"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_time_that_is_no_number_is_refused(value):
    raw = json.dumps(claims()).replace(str(NOW_S + 600), value).encode()
    assert_refused(sign(raw))


def test_times_are_checked_by_the_clock_that_was_passed_in():
    clock = ManualClock()
    checks = verifier(clock)
    expired = sign(claims(exp=NOW_S - 1))
    assert checks.verify(expired).expires_us == (NOW_S + 59) * 1_000_000
    clock.advance_us(59_000_000 - 1)
    checks.verify(expired)
    clock.advance_us(1)
    with pytest.raises(Unauthenticated, match="expired"):
        checks.verify(expired)


@pytest.mark.parametrize("name", ["nbf", "iat"])
def test_a_token_of_the_future_counts_within_the_skew_only(name):
    verifier().verify(sign(claims(**{name: NOW_S + 60})))
    assert_refused(sign(claims(**{name: NOW_S + 61})))
    assert_refused(sign(claims(**{name: NOW_S + 1})), skew_s=0)


@pytest.mark.parametrize("skew_s", [-1, 61])
def test_the_skew_is_at_most_a_minute(skew_s):
    with pytest.raises(Invalid):
        verifier(skew_s=skew_s)


def test_fractions_of_seconds_are_times():
    assert verifier().verify(sign(claims(exp=NOW_S + 0.5))).expires_us == (NOW_S * 10 + 605) * 10**5


@pytest.mark.parametrize(
    "kid", [None, "", "other", "key 1 ", "KEY 1", "../key 1", "/etc/passwd", "a" * 300, "key 1\0"]
)
def test_a_token_with_another_key_id_is_refused(kid):
    assert_refused(sign(claims(), kid=kid))


@pytest.mark.parametrize("kid", [1, ["key 1"], {"a": 1}, True, None])
def test_a_key_id_is_a_text(kid):
    assert_refused(sign_raw({"alg": "RS256", "kid": kid}, claims()))


def test_a_token_of_another_key_is_refused():
    assert_refused(sign(claims(), rsa_key(2)))
    assert_refused(sign(claims(), curve_key("P-256", 1), "ES256", "P-256"))
    assert_refused(sign(claims(), edwards_key(1), "EdDSA", "Ed25519"))


def test_a_key_is_used_for_its_own_algorithms_only():
    assert_refused(sign(claims(), rsa_key(1), "RS256", "only PS256"))
    assert_refused(sign(claims(), rsa_key(), "RS256", "P-256"))
    assert_refused(sign(claims(), curve_key("P-256"), "ES256", "key 1"))
    # The right key, but with the algorithm of the other curve.
    head = signing_input({"alg": "ES256", "kid": "P-384"}, claims())
    signature = sign(claims(), curve_key("P-384"), "ES384", "P-384").rpartition(".")[2]
    assert_refused(f"{head}.{signature}")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_part_is_noticed(place):
    parts = sign(claims()).split(".")
    other = sign(claims(sub="admin"), kid="key 1", typ="other").split(".")
    parts[place] = other[place]
    assert_refused(".".join(parts))


def test_a_signature_of_zeros_is_refused():
    head = signing_input({"alg": "ES256", "kid": "P-256"}, claims())
    assert_refused(f"{head}.{encoded(bytes(64))}")


def test_large_tokens_are_refused_before_they_are_parsed():
    assert_refused(sign(claims(more="x" * OIDC_TOKEN_BYTES_MAX)))
    assert_refused("a" * 1_000_000)
    assert_refused("e30." * 10_000)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"iss":"x","iss":"%s","aud":"lochan","sub":"alice","exp":%d}'
        % (ISSUER.encode(), NOW_S + 600),
        json.dumps(claims()).encode()[:-1] + b',"sub":"admin"}',
        json.dumps(claims()).encode()[:-1] + b',"s\\u0075b":"admin"}',
        json.dumps(claims()).encode()[:-1] + b',"deep":{"a":1,"a":2}}',
    ],
)
def test_a_claim_that_is_there_twice_is_refused(raw):
    assert_refused(sign(raw))


def test_a_header_with_a_member_twice_is_refused():
    assert_refused(sign_raw(b'{"alg":"none","alg":"RS256","kid":"key 1"}', claims()))
    assert_refused(sign_raw(b'{"alg":"RS256","kid":"other","kid":"key 1"}', claims()))


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"null", b'"text"', b"7", b"{", b"\xff", b"[" * 5_000, b'{"a":' * 1_000],
    ids=kind_of,
)
def test_what_is_no_object_is_refused(raw):
    assert_refused(sign(raw))
    assert_refused(sign_raw(raw, claims()))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_other_encodings_are_refused(encoding):
    assert_refused(sign(json.dumps(claims()).encode(encoding)))


@pytest.mark.parametrize(
    "extension",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": None},
        {"crit": ["b64"], "b64": True},
        {"b64": False},
        {"b64": True},
        {"typ": 7},
    ],
)
def test_extensions_that_must_be_understood_are_refused(extension):
    assert_refused(sign_raw({**HEADER, **extension}, claims()))


def test_the_type_of_a_token_may_be_any_text():
    for typ in ("JWT", "at+jwt", "application/at+jwt"):
        assert verifier().verify(sign(claims(), typ=typ)).name == "oidc:alice"


@pytest.mark.parametrize(
    "hint",
    [
        {"jwk": jwk(rsa_key(3))},
        {"jku": "https://attacker.example/keys"},
        {"x5u": "file:///etc/passwd"},
        {"x5c": ["MII"]},
    ],
)
def test_keys_in_the_header_are_ignored(hint):
    assert_refused(sign(claims(), rsa_key(3), **hint))
    assert verifier().verify(sign(claims(), **hint)).name == "oidc:alice"


@pytest.mark.parametrize(
    ("path", "content", "roles"),
    [
        ("roles", ["a", "b", "a"], ("a", "b")),
        ("roles", "a  b ", ("a", "b")),
        ("roles", "", ()),
        ("roles", [], ()),
        ("realm.roles", ["a"], ()),
        ("", ["a"], ()),
        ("roles", ["Data Team", "größe"], ("Data Team", "größe")),
    ],
)
def test_roles_are_a_list_or_words(path, content, roles):
    found = verifier(roles_claim=path).verify(sign(claims(roles=content)))
    assert found.roles == roles


def test_roles_are_found_by_a_way_or_by_a_name_with_dots():
    nested = claims(realm_access={"roles": ["a"]}, **{"https://x.example/roles": ["b"]})
    assert verifier(roles_claim="realm_access.roles").verify(sign(nested)).roles == ("a",)
    assert verifier(roles_claim="https://x.example/roles").verify(sign(nested)).roles == ("b",)
    assert verifier(roles_claim="sub.roles").verify(sign(nested)).roles == ()


@pytest.mark.parametrize(
    "content",
    [
        [1],
        [None],
        [["a"]],
        {"a": 1},
        7,
        True,
        None,
        [""],
        ["a\n"],
        ["\ud800"],
        ["a" * 129],
        [f"r{number}" for number in range(OIDC_ROLES_MAX + 1)],
        " ".join(f"r{number}" for number in range(OIDC_ROLES_MAX + 1)),
    ],
)
def test_roles_that_cannot_be_used_refuse_the_token(content):
    # A role that were left out could be the one that a policy denies something to.
    token = sign({**claims(), "roles": content})
    assert_refused(token, roles_claim="roles")


def test_another_claim_can_be_the_name():
    token = sign(claims(sub=None, email="alice@example.com", who={"name": "al"}))
    assert verifier(user_claim="email").verify(token).name == "oidc:alice@example.com"
    assert verifier(user_claim="who.name").verify(token).name == "oidc:al"
    assert_refused(token, user_claim="who.id")


def test_an_address_that_the_issuer_has_not_verified_is_no_name():
    for verified in (False, "true", 1):
        token = sign(claims(email="alice@example.com", email_verified=verified))
        assert_refused(token, user_claim="email")
    token = sign(claims(email="alice@example.com", email_verified=True))
    assert verifier(user_claim="email").verify(token).name == "oidc:alice@example.com"


@pytest.mark.parametrize(
    "settings",
    [
        {"issuer": ""},
        {"audience": ""},
        {"algorithms": ()},
        {"user_claim": ""},
        {"user_claim": "a" * 300},
        {"roles_claim": "a." * 20},
    ],
)
def test_settings_with_which_nothing_could_be_checked_are_refused(settings):
    with pytest.raises(Invalid):
        verifier(**settings)


def test_a_key_that_the_issuer_withdrew_counts_no_more():
    class Rotating:
        keys = parse_key_set(jwks(jwk(rsa_key(), "old")))

        def find_key(self, key_id):
            return self.keys.find_key(key_id)

    source = Rotating()
    checks = verifier(keys=source)
    old, new = sign(claims(), kid="old"), sign(claims(), rsa_key(1), kid="new")
    checks.verify(old)
    with pytest.raises(Unauthenticated):
        checks.verify(new)
    source.keys = parse_key_set(jwks(jwk(rsa_key(1), "new")))
    checks.verify(new)
    with pytest.raises(Unauthenticated):
        checks.verify(old)
