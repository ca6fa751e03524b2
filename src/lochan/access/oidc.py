"""Bearer tokens of an OpenID Connect issuer: signed by a key that it publishes, made out for us.

A token is checked in this order, and each step uses only what the steps before have checked:

1. its size and its form: three parts of base64;
2. its header: an algorithm of the list, a key id, nothing that must be understood and is not.
   Keys and addresses of keys in the header are ignored;
3. its signature, with the issuer's key of that id, which must be for that algorithm;
4. its claims: issuer, audience, times by our clock, the name of the user, the roles.

No part is accepted whose JSON has two meanings (`strict_json.py`).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import msgspec

from lochan.access.authorization_header import refused
from lochan.access.names import OIDC_PREFIX, is_user_id
from lochan.access.secrets import check_installed
from lochan.access.signing_keys import ALGORITHMS, KeySource, SigningKey
from lochan.access.strict_json import parse_object
from lochan.base.errors import Invalid, Unauthenticated
from lochan.base.limits.contents import TIME_US_MAX
from lochan.base.limits.credentials import (
    KEY_ID_CHARACTERS_MAX,
    OIDC_CLAIM_CHARACTERS_MAX,
    OIDC_CLAIM_DEPTH_MAX,
    OIDC_ROLE_CHARACTERS_MAX,
    OIDC_ROLES_MAX,
    OIDC_SKEW_S_MAX,
    OIDC_TOKEN_BYTES_MAX,
)
from lochan.base.ports import Clock

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_US_PER_S: Final = 1_000_000
_TIME_S_MAX: Final = TIME_US_MAX // _US_PER_S
_ABSENT: Final = object()


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens count: those of one issuer for one audience.

    `user_claim` and `roles_claim` are names of claims, or ways to one with dots between the names:
    `realm_access.roles`. Without `roles_claim` tokens give no roles.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    user_claim: str = "sub"
    roles_claim: str = ""
    skew_s: int = OIDC_SKEW_S_MAX


class OidcClaims(msgspec.Struct, frozen=True):
    """What a token proves; from `expires_us` on it proves nothing."""

    name: str
    roles: tuple[str, ...]
    expires_us: int


class OidcVerifier:
    """Verifies tokens of one issuer; for any number of threads."""

    def __init__(self, settings: OidcSettings, keys: KeySource, clock: Clock) -> None:
        check_installed()
        check_settings(settings)
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._algorithms = frozenset(settings.algorithms)

    def verify(self, text: str) -> OidcClaims:
        """Returns what a token proves.

        Unauthenticated if it proves nothing, Unavailable if the keys of the issuer are not known.
        """
        if len(text) > OIDC_TOKEN_BYTES_MAX or _FORM.fullmatch(text) is None:
            raise refused("it has not the form of a token")
        algorithm, key_id = self._read_header(text.partition(".")[0])
        key = self._keys.find_key(key_id)
        if key is None:
            raise refused("the issuer has no signing key with the id that the token names")
        if algorithm not in key.algorithms:
            raise refused("the signing key is not for the algorithm that the token names")
        return self._read_claims(_signed_bytes(text, key, algorithm))

    def _read_header(self, encoded: str) -> tuple[str, str]:
        """Step 2: returns the algorithm and the id of the key."""
        header = _parsed_header(encoded)
        if header is None or not isinstance(header.get("typ", ""), str):
            raise refused("the header of the token cannot be read")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise refused("the algorithm of the token is not among those of the setting")
        if not isinstance(key_id, str) or not 0 < len(key_id) <= KEY_ID_CHARACTERS_MAX:
            raise refused("the token names no signing key")
        if "crit" in header or "b64" in header:
            raise refused("the token has an extension that this server does not know")
        return algorithm, key_id

    def _read_claims(self, raw: bytes) -> OidcClaims:
        """Step 4."""
        claims = parse_object(raw)
        if claims is None:
            raise refused("the claims of the token cannot be read")
        settings = self._settings
        if claims.get("iss") != settings.issuer:
            raise refused(f"the issuer of the token is not {settings.issuer!r}")
        if not _names_audience(claims.get("aud"), settings.audience):
            raise refused(f"the token is not for the audience {settings.audience!r}")
        expires_us = self._check_times(claims)
        return OidcClaims(
            name=OIDC_PREFIX + self._user_of(claims),
            roles=self._roles_of(claims),
            expires_us=expires_us,
        )

    def _check_times(self, claims: dict[str, Any]) -> int:
        """Returns when the token ends, by our clock and with the skew."""
        now_s = self._clock.now_us() / _US_PER_S
        skew_s = self._settings.skew_s
        if "exp" not in claims:
            raise refused("the token has no expiry")
        end_s = _seconds(claims["exp"]) + skew_s
        if now_s >= end_s:
            raise refused("the token has expired")
        for name in ("nbf", "iat"):
            if name in claims and _seconds(claims[name]) - skew_s > now_s:
                raise refused("the token is not valid yet")
        return int(min(end_s, _TIME_S_MAX) * _US_PER_S)

    def _user_of(self, claims: dict[str, Any]) -> str:
        name = _claim(claims, self._settings.user_claim)
        if not isinstance(name, str) or not is_user_id(OIDC_PREFIX + name):
            raise refused(
                f"the claim {self._settings.user_claim!r} is missing or is no name of a user"
            )
        if claims.get("email_verified", True) is not True and claims.get("email") == name:
            raise refused("the issuer has not verified the address of the user")
        return name

    def _roles_of(self, claims: dict[str, Any]) -> tuple[str, ...]:
        path = self._settings.roles_claim
        found = _claim(claims, path) if path else _ABSENT
        if found is _ABSENT:
            return ()
        roles = found.split() if isinstance(found, str) else found
        if not isinstance(roles, list) or len(roles) > OIDC_ROLES_MAX:
            raise refused(f"the claim {path!r} is no list of at most {OIDC_ROLES_MAX} roles")
        if not all(_is_role(role) for role in roles):
            raise refused(f"the claim {path!r} contains something that is no name of a role")
        return tuple(dict.fromkeys(roles))


def check_settings(settings: OidcSettings) -> None:
    """Raises Invalid for settings with which no token, or any token, would be accepted."""
    if not settings.issuer or not settings.audience:
        raise Invalid("tokens of an issuer need both settings, oidc_issuer and oidc_audience")
    unknown = sorted(set(settings.algorithms) - ALGORITHMS)
    if unknown or not settings.algorithms:
        raise Invalid(
            f"oidc_algorithms has {', '.join(unknown) or 'none'}; "
            f"possible are {', '.join(sorted(ALGORITHMS))}"
        )
    for name, path in (("user", settings.user_claim), ("roles", settings.roles_claim)):
        too_long = len(path) > OIDC_CLAIM_CHARACTERS_MAX or path.count(".") >= OIDC_CLAIM_DEPTH_MAX
        if too_long or (name == "user" and not path):
            raise Invalid(f"oidc_{name}_claim is no name of a claim")
    if not 0 <= settings.skew_s <= OIDC_SKEW_S_MAX:
        raise Invalid(f"clocks of issuers may differ by 0 to {OIDC_SKEW_S_MAX} seconds")


def _parsed_header(encoded: str) -> dict[str, Any] | None:
    try:
        raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except binascii.Error:
        return None
    return parse_object(raw)


def _signed_bytes(text: str, key: SigningKey, algorithm: str) -> bytes:
    """Step 3: returns the claims if the key has signed them."""
    import jwt

    try:
        found = jwt.PyJWS().decode(text, key.public_key, algorithms=[algorithm])
    except jwt.PyJWTError:
        raise refused("the signature of the token is wrong") from None
    return bytes(found)


def _names_audience(stated: object, audience: str) -> bool:
    if isinstance(stated, list):
        return all(isinstance(one, str) for one in stated) and audience in stated
    return isinstance(stated, str) and stated == audience


def _seconds(value: object) -> float:
    """Returns a time of a claim; true and false are numbers for Python, and are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _not_a_time()
    # Infinity is out of range, and so is what is not a number.
    if not 0 <= value <= _TIME_S_MAX:
        raise _not_a_time()
    return value


def _not_a_time() -> Unauthenticated:
    return refused("a time of the token is no number of seconds since 1970")


def _claim(claims: dict[str, Any], path: str) -> object:
    """Returns a claim by its name, or else by the way to it; names of some issuers have dots."""
    if path in claims:
        return claims[path]
    found: object = claims
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return _ABSENT
        found = found[name]
    return found


def _is_role(role: object) -> bool:
    return (
        isinstance(role, str) and 0 < len(role) <= OIDC_ROLE_CHARACTERS_MAX and role.isprintable()
    )
