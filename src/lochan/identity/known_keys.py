"""Keys that were read once, and until when they may be used."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.access.signing_keys import KeySet, SigningKey
from lochan.base.errors import Unavailable
from lochan.base.limits.credentials import KEYS_AGE_MS_MAX
from lochan.base.ports import Clock

NS_PER_MS: Final = 1_000_000

_NOT_NOW: Final = "the server cannot check tokens of the issuer now; try again later"


class KnownKeys(msgspec.Struct, frozen=True):
    """A set of keys, and when the reading of it began."""

    keys: KeySet
    began_ns: int

    def age_ms(self, clock: Clock) -> int:
        """Returns how old the set is."""
        return (clock.monotonic_ns() - self.began_ns) // NS_PER_MS


def find_known(known: KnownKeys | None, key_id: str, clock: Clock) -> SigningKey | None:
    """Returns the key with an id; None if there is none, or if the keys are too old."""
    if known is None or known.age_ms(clock) > KEYS_AGE_MS_MAX:
        return None
    return known.keys.find_key(key_id)


def check_known(known: KnownKeys | None, clock: Clock, source: str) -> None:
    """Raises Unavailable if there are no keys, or only such that are too old.

    Then it is unknown whether a token counts: its caller is not refused, but has to come again.
    """
    if known is None or known.age_ms(clock) > KEYS_AGE_MS_MAX:
        raise Unavailable(f"the signing keys of {source} cannot be read", public=_NOT_NOW)
