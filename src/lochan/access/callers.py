"""From the credentials of a request to a caller, by reading rows and checking signatures.

Nothing is remembered here. Credentials that do not count raise Unauthenticated, with one public
text for all reasons. Secrets and hashes are compared in constant time, and one that belongs to no
row takes the same work as one that is wrong.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.access.access_keys import AccessKeySecrets
from lochan.access.authorization_header import AccessKeyPair, Bearer, refused
from lochan.access.directory import Directory
from lochan.access.logins import Logins, is_login
from lochan.access.oidc import OidcVerifier
from lochan.access.records import TokenRow
from lochan.access.secrets import KeyRing
from lochan.access.signatures import refused_signature
from lochan.access.tokens import (
    digest_of,
    is_access_key,
    is_access_key_id,
    parse_token,
    same_secret,
)
from lochan.base.ports import Clock
from lochan.model.access import AccessPolicy

_NO_DIGEST: Final = bytes(32)


class Caller(msgspec.Struct, frozen=True):
    """Who has shown credentials: a name, and what limits or extends its rights.

    `user` is the id of its row, None for a user of an issuer that has none. `claimed_roles` are
    those of an issuer. `scopes` limit what a token may do, None if nothing does.
    """

    name: str
    user: str | None
    credential: str
    expires_us: int | None = None
    claimed_roles: tuple[str, ...] = ()
    scopes: tuple[AccessPolicy, ...] | None = None


class Callers:
    """Finds the callers of one store; for any number of threads."""

    def __init__(
        self,
        directory: Directory,
        clock: Clock,
        logins: Logins | None,
        key_ring: KeyRing | None,
        oidc: OidcVerifier | None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._logins = logins
        self._access_keys = None if key_ring is None else AccessKeySecrets(key_ring)
        self._oidc = oidc

    def identify(self, credentials: Bearer | AccessKeyPair) -> Caller:
        """Returns who has shown these credentials; Unauthenticated if they do not count."""
        if isinstance(credentials, AccessKeyPair):
            return self._by_access_key(credentials)
        text = credentials.token.reveal()
        token = parse_token(text)
        if token is not None:
            return self._by_token(*token)
        if is_login(text):
            return self._by_login(text)
        return self._by_oidc(text)

    def _by_token(self, token_id: str, secret: str) -> Caller:
        row = self._directory.find_token(token_id)
        kept = _NO_DIGEST if row is None else row.digest
        if not same_secret(digest_of(token_id, secret), kept) or row is None:
            raise refused("the token is not known, or was deleted, or its user was")
        if row.expires_us is not None and row.expires_us <= self._clock.now_us():
            raise refused(f"the token {token_id} has expired")
        return Caller(
            name=row.user,
            user=row.user,
            credential=f"token:{token_id}",
            expires_us=row.expires_us,
            scopes=self._scopes_of(row),
        )

    def _scopes_of(self, row: TokenRow) -> tuple[AccessPolicy, ...] | None:
        """Returns the policies that limit a token.

        If one of them was deleted the token may do nothing: what is left could allow more than all
        of them did.
        """
        if not row.scopes:
            return None
        scopes = self._directory.scope_policies(row.scopes)
        return scopes if len(scopes) == len(row.scopes) else ()

    def _by_access_key(self, pair: AccessKeyPair) -> Caller:
        secret = pair.secret.reveal()
        if self._access_keys is None or not is_access_key(pair.id, secret):
            raise refused("it has not the form of an access key")
        row = self._directory.find_credential(pair.id)
        if not self._access_keys.matches(row, secret) or row is None:
            raise refused("the access key is not known, or was deleted, or its user was")
        return Caller(name=row.user, user=row.user, credential=f"key:{row.id}")

    def find_signer(self, access_key_id: str) -> tuple[Caller, bytes]:
        """Returns whose access key this is, and its secret, by which signatures are checked."""
        row = None
        if self._access_keys is not None and is_access_key_id(access_key_id):
            row = self._directory.find_credential(access_key_id)
        if row is None or self._access_keys is None:
            reason = "the access key is not known, or was deleted, or its user was"
            raise refused_signature("unknown key", reason)
        caller = Caller(name=row.user, user=row.user, credential=f"key:{row.id}")
        return caller, self._access_keys.open(row)

    def _by_login(self, text: str) -> Caller:
        claims = None if self._logins is None else self._logins.read(text)
        if claims is None:
            raise refused("the login has expired, or no key of this server has signed it")
        row = self._directory.find_credential(claims.credential_id)
        stated = claims.user, claims.user_incarnation
        if row is None or (row.user, row.user_incarnation) != stated:
            raise refused("the access key of the login was deleted, or its user was")
        return Caller(
            name=row.user,
            user=row.user,
            credential=f"login:{row.id}",
            expires_us=claims.expires_us,
        )

    def _by_oidc(self, text: str) -> Caller:
        if self._oidc is None:
            raise refused("it has not the form of a token of this server")
        claims = self._oidc.verify(text)
        row = self._directory.find_user_row(claims.name)
        return Caller(
            name=claims.name,
            user=None if row is None else row.id,
            credential="oidc",
            expires_us=claims.expires_us,
            claimed_roles=claims.roles,
        )
