"""Claims of idempotency keys: one row for each key, put if absent, swept after a day.

A claim says which request its key belongs to (a digest), what that request may do to which name,
and where the search for its effect begins. It is written once; `outcome` alone may be added later,
for requests whose effect cannot be found anywhere else any more.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

import msgspec

from lochan.base.errors import Exhausted, Unknown
from lochan.base.ids import InstanceId
from lochan.codec.forms import add_checksum, unreadable_row, without_checksum
from lochan.kv.store import ABSENT, Entry, Kind, Store, Won, partition

_encode: Final = msgspec.msgpack.Encoder().encode

# A claim is swept after a day only; to lose it between two calls more than once cannot be chance.
_ATTEMPTS_MAX: Final = 3


class Claim(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a claimed key belongs to; `key` is that of its own row.

    `right`, `name` and `source` are what the caller is authorised for: the right, the reference
    that is written, and the one that is read. The effect is in that `incarnation` of the reference,
    after that `generation` and `version`, and carries the `operation`, which no other claim has.
    """

    format: Literal[1]
    key: bytes
    digest: bytes
    right: str
    name: str
    source: str
    incarnation: int
    generation: int
    version: int
    operation: bytes
    when_us: int
    outcome: bytes = b""


_decode: Final = msgspec.msgpack.Decoder(Claim).decode


class StampedClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim and its row as they were read."""

    claim: Claim
    entry: Entry


class ClaimRows:
    """The claims of one repository, or of the list of repositories."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        self._store = store
        self._place = partition(instance, Kind.CLAIMS)

    def find(self, key: bytes) -> StampedClaim | None:
        """Returns the claim of a key, None if it was never claimed or its claim was swept."""
        entry = self._store.get(self._place, key)
        return None if entry is None else StampedClaim(read_claim(entry.value), entry)

    def add(self, wanted: Claim) -> Claim:
        """Claims a key, or returns the claim that it has.

        A lost reply needs no care of its own: sent again, the same row is won or found.
        """
        key = wanted.key
        raw = add_checksum(_encode(wanted))
        for _ in range(_ATTEMPTS_MAX):
            try:
                outcome = self._store.set_if(self._place, key, raw, ABSENT)
            except Unknown:
                outcome = self._store.set_if(self._place, key, raw, ABSENT)
            if isinstance(outcome, Won):
                return wanted
            current = outcome.current
            if not isinstance(current, Entry):
                current = self._store.get(self._place, key)
            if current is not None:
                return read_claim(current.value)
            # It was there and was swept before it could be read: claim it anew.
        text = "the claim of the idempotency key came and went; try again later"
        raise Exhausted(text, public=text)

    def record(self, key: bytes, operation: bytes, outcome: bytes) -> None:
        """Adds an outcome to the claim of an operation; a claim that is gone needs none."""
        for _ in range(_ATTEMPTS_MAX):
            found = self.find(key)
            if found is None or found.claim.operation != operation or found.claim.outcome:
                return
            raw = add_checksum(_encode(msgspec.structs.replace(found.claim, outcome=outcome)))
            try:
                if isinstance(self._store.set_if(self._place, key, raw, found.entry.stamp), Won):
                    return
            except Unknown:
                continue
        text = "the outcome of an earlier request could not be recorded; try again later"
        raise Exhausted(text, public=text)


def claim_key(principal: str, key: str) -> bytes:
    """Returns the key of a claim's row: no two principals share one."""
    return sha256(_encode((principal, key))).digest()


def read_claim(raw: bytes) -> Claim:
    """Reads a stored claim."""
    body = without_checksum(raw)
    try:
        return _decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise unreadable_row("claim", body, error) from None
