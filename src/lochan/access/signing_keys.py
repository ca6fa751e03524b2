"""The public keys of an issuer of tokens, read from the set that it publishes (JWKS).

A key is used for the algorithms of its kind only, and only for its own if it names one. Keys that
are not for signatures, of unknown kinds, too weak or without an id are left out. So are keys that
contain a private part: everyone who can read the set could sign with them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from lochan.access.secrets import check_installed
from lochan.access.strict_json import parse_object
from lochan.base.errors import Invalid
from lochan.base.limits.credentials import (
    KEY_ID_CHARACTERS_MAX,
    KEY_SET_BYTES_MAX,
    KEY_SET_KEYS_MAX,
    RSA_EXPONENT_BITS_MAX,
    RSA_KEY_BITS_MAX,
    RSA_KEY_BITS_MIN,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
ALGORITHMS: Final = RSA_ALGORITHMS | {"ES256", "ES384", "EdDSA"}
"""All algorithms that a server accepts: a public key checks them, no shared secret."""

_PRIVATE_MEMBERS: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))
_CURVE_ALGORITHMS: Final = {"P-256": ("ES256", 32), "P-384": ("ES384", 48)}


class SigningKey(msgspec.Struct, frozen=True):
    """A public key of an issuer and the algorithms that it may be used with."""

    id: str
    algorithms: frozenset[str]
    public_key: PublicKey


class KeySource(Protocol):
    """Where the keys of an issuer come from; for any number of threads, never the event loop's."""

    def find_key(self, key_id: str) -> SigningKey | None:
        """Returns the key with an id, None if the issuer has none.

        May wait for the issuer for a bounded time; Unavailable if no keys are known at all.
        """
        ...


class KeySet(msgspec.Struct, frozen=True):
    """The usable keys of one set, by id; a source of keys that never change."""

    keys: Mapping[str, SigningKey]

    def find_key(self, key_id: str) -> SigningKey | None:
        """Returns the key with an id, None if there is none."""
        return self.keys.get(key_id)


def parse_key_set(raw: bytes) -> KeySet:
    """Reads a set of keys; Invalid if it is none, or if it has keys and none can be used."""
    check_installed()
    if len(raw) > KEY_SET_BYTES_MAX:
        raise Invalid(f"a set of signing keys has at most {KEY_SET_BYTES_MAX} bytes")
    members_of_set = parse_object(raw)
    if members_of_set is None:
        raise Invalid("the set of signing keys is no JSON object, or has a member twice")
    listed = members_of_set.get("keys")
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise Invalid('the set of signing keys has no list "keys" of objects')
    if len(listed) > KEY_SET_KEYS_MAX:
        raise Invalid(f"a set of signing keys has at most {KEY_SET_KEYS_MAX} keys")
    found: dict[str, SigningKey] = {}
    for members in listed:
        try:
            key = _signing_key(members)
        except ValueError:
            continue
        if key.id in found:
            raise Invalid("two signing keys have the same id")
        found[key.id] = key
    if listed and not found:
        raise Invalid(
            f"none of the {len(listed)} signing keys can be used: a key has an id (kid) and is a "
            f"public RSA key of at least {RSA_KEY_BITS_MIN} bits, or one on the curve P-256, "
            "P-384 or Ed25519"
        )
    return KeySet(found)


def _signing_key(members: dict[str, Any]) -> SigningKey:
    """Returns a key of a set; ValueError if it is left out."""
    key_id = members.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= KEY_ID_CHARACTERS_MAX:
        raise ValueError("no key id")
    if not _PRIVATE_MEMBERS.isdisjoint(members) or members.get("use", "sig") != "sig":
        raise ValueError("not a public key for signatures")
    operations = members.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("not for verification")
    match members.get("kty"):
        case "RSA":
            public_key, algorithms = _rsa_key(members)
        case "EC":
            public_key, algorithms = _curve_key(members)
        case "OKP":
            public_key, algorithms = _edwards_key(members)
        case _:
            raise ValueError("unknown kind")
    if "alg" in members:
        algorithms &= {members["alg"]} if isinstance(members["alg"], str) else set()
    if not algorithms:
        raise ValueError("no algorithm that is known")
    return SigningKey(key_id, algorithms, public_key)


def _rsa_key(members: dict[str, Any]) -> tuple[PublicKey, frozenset[str]]:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus = int.from_bytes(_bytes_of(members, "n", RSA_KEY_BITS_MAX // 8 + 1))
    exponent = int.from_bytes(_bytes_of(members, "e", RSA_EXPONENT_BITS_MAX // 8 + 1))
    if not RSA_KEY_BITS_MIN <= modulus.bit_length() <= RSA_KEY_BITS_MAX:
        raise ValueError("RSA key of a size that is not used")
    if exponent.bit_length() > RSA_EXPONENT_BITS_MAX:
        raise ValueError("RSA key with a large exponent")
    return RSAPublicNumbers(exponent, modulus).public_key(), RSA_ALGORITHMS


def _curve_key(members: dict[str, Any]) -> tuple[PublicKey, frozenset[str]]:
    from cryptography.hazmat.primitives.asymmetric import ec

    name = members.get("crv")
    if not isinstance(name, str) or name not in _CURVE_ALGORITHMS:
        raise ValueError("unknown curve")
    algorithm, size = _CURVE_ALGORITHMS[name]
    curve = ec.SECP256R1() if size == 32 else ec.SECP384R1()
    x, y = _bytes_of(members, "x", size), _bytes_of(members, "y", size)
    if len(x) != size or len(y) != size:
        raise ValueError("coordinates of another size")
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve)
    # A point that is not on the curve is a ValueError too.
    return numbers.public_key(), frozenset((algorithm,))


def _edwards_key(members: dict[str, Any]) -> tuple[PublicKey, frozenset[str]]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if members.get("crv") != "Ed25519":
        raise ValueError("unknown curve")
    made = Ed25519PublicKey.from_public_bytes(_bytes_of(members, "x", 32))
    return made, frozenset(("EdDSA",))


def _bytes_of(members: dict[str, Any], name: str, size_max: int) -> bytes:
    """Returns a member that is base64 without padding."""
    text = members.get(name)
    if not isinstance(text, str) or not text.isascii() or len(text) > (size_max * 4 + 2) // 3:
        raise ValueError("a member that is no number")
    raw = text.encode() + b"=" * (-len(text) % 4)
    return base64.b64decode(raw, altchars=b"-_", validate=True)
