"""Sets of signing keys: which keys are used, for what, and which are left out."""

from __future__ import annotations

import json

import jwt
import pytest

from lochan.access.signing_keys import RSA_ALGORITHMS, parse_key_set
from lochan.base.errors import Invalid
from lochan.base.limits.credentials import KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX
from tests.access.issuer import (
    curve_key,
    edwards_448_key,
    edwards_key,
    encoded,
    jwk,
    jwks,
    kind_of,
    rsa_key,
)

GOOD = jwk(edwards_key(), "good")


def used(*keys) -> dict[str, frozenset[str]]:
    found = parse_key_set(jwks(GOOD, *keys)).keys
    return {key_id: key.algorithms for key_id, key in found.items() if key_id != "good"}


def test_a_key_is_for_the_algorithms_of_its_kind():
    assert used(
        jwk(rsa_key(), "rsa"),
        jwk(rsa_key(), "one", alg="RS512", use="sig", key_ops=["verify"]),
        jwk(curve_key("P-256"), "256"),
        jwk(curve_key("P-384"), "384"),
        jwk(edwards_key(), "ed"),
    ) == {
        "rsa": RSA_ALGORITHMS,
        "one": frozenset({"RS512"}),
        "256": frozenset({"ES256"}),
        "384": frozenset({"ES384"}),
        "ed": frozenset({"EdDSA"}),
    }


@pytest.mark.parametrize(
    "key",
    [
        jwk(rsa_key(), None),
        jwk(rsa_key(), ""),
        jwk(rsa_key(), kid=7),  # type: ignore[arg-type]
        jwk(rsa_key(), "k" * 300),
        jwk(rsa_key(), use="enc"),
        jwk(rsa_key(), use=None),
        jwk(rsa_key(), key_ops=["sign"]),
        jwk(rsa_key(), key_ops="verify"),
        jwk(rsa_key(), alg="HS256"),
        jwk(rsa_key(), alg="ES256"),
        jwk(rsa_key(), alg="RSA-OAEP"),
        jwk(rsa_key(), alg=["RS256"]),
        jwk(rsa_key(), kty="oct"),
        jwk(rsa_key(), kty=None),
        jwk(rsa_key(), kty=["RSA"]),
        jwk(rsa_key(), n=7),
        jwk(rsa_key(), n=""),
        jwk(rsa_key(), n="!!!!"),
        jwk(rsa_key(), n="é"),
        jwk(rsa_key(), n="A" * 20_000),
        jwk(rsa_key(), e="AA"),
        jwk(rsa_key(), e="Ag"),
        jwk(rsa_key(), e="____________"),
        jwk(rsa_key(bits=1_024)),
        jwk(curve_key("P-521")),
        jwk(curve_key("P-256"), crv="P-384"),
        jwk(curve_key("P-256"), crv="secp256k1"),
        jwk(curve_key("P-256"), crv=None),
        jwk(curve_key("P-256"), x=encoded(bytes(32))),
        jwk(curve_key("P-256"), x="AA"),
        jwk(curve_key("P-256"), alg="ES384"),
        jwk(edwards_key(), crv="X25519"),
        jwk(edwards_key(), x="AA"),
        jwk(edwards_448_key()),
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
        jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(), as_dict=True) | {"kid": "private"},
        jwt.algorithms.OKPAlgorithm.to_jwk(edwards_key(), as_dict=True) | {"kid": "private"},
        {},
    ],
)
def test_a_key_that_cannot_be_used_safely_is_left_out(key):
    assert used(key) == {}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[1]}',
        b'{"keys":[],"keys":[]}',
        b'{"keys":null}',
        b"<html>",
        b"[" * 60_000,
        b'{"keys":[' + b"[" * 60_000,
        jwks({"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}),
        jwks(GOOD, GOOD),
        jwks(*[jwk(edwards_key(), str(number)) for number in range(KEY_SET_KEYS_MAX + 1)]),
        json.dumps({"keys": [GOOD], "more": "x" * KEY_SET_BYTES_MAX}).encode(),
    ],
    ids=kind_of,
)
def test_what_is_no_set_of_keys_is_refused(raw):
    with pytest.raises(Invalid):
        parse_key_set(raw)


def test_an_issuer_may_withdraw_all_keys():
    assert parse_key_set(jwks()).keys == {}
