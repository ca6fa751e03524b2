"""The secret of an access key: sealed for its row, opened to be compared."""

from __future__ import annotations

from typing import Final

from lochan.access.records import CredentialRow
from lochan.access.secrets import KeyRing
from lochan.access.tokens import access_key_context, same_secret
from lochan.base.errors import Invalid, Unavailable
from lochan.base.ports import Random

_NOT_NOW: Final = "the server cannot check access keys now; its log has the reason"


class _FixedNonce:
    """A random source for the one secret that never leaves this module."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def between(self, low: float, high: float) -> float:  # noqa: ARG002 - the protocol has it
        return low


class AccessKeySecrets:
    """Seals and compares the secrets of access keys; for any number of threads."""

    def __init__(self, key_ring: KeyRing) -> None:
        self._key_ring = key_ring
        # Compared with where there is no access key, so that both take the same work.
        self._none = key_ring.seal(bytes(52), access_key_context(""), _FixedNonce())

    def seal(self, access_key_id: str, secret: str, random: Random) -> bytes:
        """Returns the sealed secret of an access key, for its row."""
        return self._key_ring.seal(secret.encode(), access_key_context(access_key_id), random)

    def matches(self, row: CredentialRow | None, secret: str) -> bool:
        """Returns whether a secret is that of an access key; without a row it never is."""
        given = secret.encode("utf-8", "surrogatepass")
        if row is None:
            same_secret(given, self._key_ring.open(self._none, access_key_context("")))
            return False
        return same_secret(given, self.open(row))

    def open(self, row: CredentialRow) -> bytes:
        """Returns the secret of an access key; Unavailable if this server lacks the key for it."""
        try:
            return self._key_ring.open(row.sealed, access_key_context(row.id))
        except Invalid as error:
            # The operator has to act, not the caller.
            raise Unavailable(f"access key {row.id}: {error.message}", public=_NOT_NOW) from None
