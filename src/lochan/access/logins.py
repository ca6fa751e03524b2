"""Logins: short-lived tokens that access keys are exchanged for.

A login token is a JSON Web Token, signed (HS256) with a key that is derived from the keys of the
servers, so that every server of a store reads it and none keeps it. It names the access key and
the incarnation of the user: the code that reads one refuses it once either is gone.

The header is always the same text. A token with any other header is no login token, whatever it
states about its own signature.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from lochan.access.secrets import KeyRing, check_installed
from lochan.base.checks import check
from lochan.base.limits.credentials import LOGIN_MS, LOGIN_TEXT_BYTES_MAX
from lochan.base.ports import Clock
from lochan.model.access import Login

_ALGORITHM: Final = "HS256"
_ISSUER: Final = "lochan"
_AUDIENCE: Final = "lochan login 1"
# The header states HS256 and JWT.
_HEAD: Final = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class LoginClaims(msgspec.Struct, frozen=True):
    """What a login token states; whether its user and access key still exist is checked later."""

    user: str
    user_incarnation: bytes
    credential_id: str
    expires_us: int


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The claims of a login token, in seconds; all are required."""

    iss: Literal["lochan"]
    aud: Literal["lochan login 1"]
    sub: str
    key: str
    incarnation: str
    iat: int
    exp: int


class Logins:
    """Issues and reads login tokens; for any number of threads."""

    def __init__(self, key_ring: KeyRing, clock: Clock) -> None:
        check_installed()
        self._keys = key_ring.derive("login")
        self._clock = clock

    def issue(self, user: str, user_incarnation: bytes, credential_id: str) -> Login:
        """Returns a new login of a user that has shown an access key."""
        import jwt

        # Whole seconds: the token lives up to one second less, and never longer.
        issued_s = self._clock.now_us() // 1_000_000
        expires_s = issued_s + LOGIN_MS // 1_000
        claims = _Claims(
            iss=_ISSUER,
            aud=_AUDIENCE,
            sub=user,
            key=credential_id,
            incarnation=user_incarnation.hex(),
            iat=issued_s,
            exp=expires_s,
        )
        raw = msgspec.json.encode(claims)
        text = jwt.PyJWS().encode(raw, self._keys[0], _ALGORITHM, sort_headers=True)
        check(text.startswith(_HEAD), "every login token has the same header")
        check(len(text) <= LOGIN_TEXT_BYTES_MAX, "a login token is within its limit")
        return Login(secret=text, expires_us=expires_s * 1_000_000)

    def read(self, text: str) -> LoginClaims | None:
        """Returns what a login token states, None if it is none, is not ours or has expired."""
        if not is_login(text):
            return None
        raw = self._verified(text)
        if raw is None:
            return None
        try:
            claims = msgspec.json.decode(raw, type=_Claims)
        except msgspec.DecodeError:
            # Another version of Lochan has signed it.
            return None
        if self._clock.now_us() >= claims.exp * 1_000_000:
            return None
        return LoginClaims(
            user=claims.sub,
            user_incarnation=bytes.fromhex(claims.incarnation),
            credential_id=claims.key,
            expires_us=claims.exp * 1_000_000,
        )

    def _verified(self, text: str) -> bytes | None:
        """Returns the signed bytes of a token, None unless one of our keys has signed it."""
        import jwt

        for key in self._keys:
            try:
                found = jwt.PyJWS().decode(text, key, algorithms=[_ALGORITHM])
            except jwt.InvalidTokenError:
                continue
            return bytes(found)
        return None


def is_login(text: str) -> bool:
    """Returns whether a text has the form of a login token; nothing is checked yet."""
    return (
        text.startswith(_HEAD)
        and len(text) <= LOGIN_TEXT_BYTES_MAX
        and _FORM.fullmatch(text) is not None
    )
