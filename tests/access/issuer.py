"""An issuer of tokens for tests: real keys, real signatures, and any header or claims."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER = "https://issuer.example/realm"
AUDIENCE = "lochan"
NOW_S = 1_700_000_000
"""What a `ManualClock` shows at first."""


@cache
def rsa_key(number: int = 0, bits: int = 2_048) -> rsa.RSAPrivateKey:
    """Returns a key; one for each number."""
    return rsa.generate_private_key(65_537, bits)


@cache
def curve_key(curve: str = "P-256", number: int = 0) -> ec.EllipticCurvePrivateKey:
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ec.generate_private_key(curves[curve])


@cache
def edwards_key(number: int = 0) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


@cache
def edwards_448_key() -> ed448.Ed448PrivateKey:
    return ed448.Ed448PrivateKey.generate()


def jwk(key: Any, kid: str | None = "key 1", **members: Any) -> dict[str, Any]:
    """Returns the public part of a key as an issuer publishes it."""
    if isinstance(key, rsa.RSAPrivateKey):
        form = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        form = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        form = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    form.pop("key_ops", None)
    if kid is not None:
        form["kid"] = kid
    return {**form, **members}


def jwks(*keys: dict[str, Any]) -> bytes:
    """Returns a set of keys as an issuer publishes it."""
    return json.dumps({"keys": keys}).encode()


def kind_of(value: object) -> str:
    """Names a value of a parametrised test: keys differ in each process, names must not."""
    return type(value).__name__


def claims(**changes: Any) -> dict[str, Any]:
    """Returns good claims with changes; None leaves a claim out."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S, "exp": NOW_S + 600}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def sign(
    content: dict[str, Any] | bytes,
    key: Any = None,
    alg: str = "RS256",
    kid: str | None = "key 1",
    **headers: Any,
) -> str:
    """Returns a token that a key has really signed."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    header = ({} if kid is None else {"kid": kid}) | headers
    return jwt.PyJWS().encode(raw, rsa_key() if key is None else key, alg, headers=header)


def sign_raw(
    header: bytes | dict[str, Any], content: dict[str, Any] | bytes, key: Any = None
) -> str:
    """Returns a token with a header that no library writes, signed with RS256."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    head = signing_input(header, content)
    return head + "." + encoded(rsa_key().sign(head.encode(), PKCS1v15(), SHA256()))


def sign_with_text(header: dict[str, Any], content: dict[str, Any], secret: bytes) -> str:
    """Returns a token that is signed with a shared secret (HS256)."""
    head = signing_input(header, content)
    return head + "." + encoded(hmac.digest(secret, head.encode(), hashlib.sha256))


def signing_input(header: bytes | dict[str, Any], content: dict[str, Any] | bytes) -> str:
    parts = [
        one if isinstance(one, bytes) else json.dumps(one).encode() for one in (header, content)
    ]
    return ".".join(map(encoded, parts))


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def pem(key: Any) -> bytes:
    """Returns a public key as text, the form that confused libraries take for a shared secret."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def der(key: Any) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
