"""Claims of idempotency keys: one row for each key, written if absent, removed after a day.

A claim states which request its key belongs to (a digest), what that request may do to which name,
and where the search for its effect begins. It is written once; `outcome` alone may be added later,
for requests whose effect cannot be found anywhere else any more.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

import msgspec

from lochan.base.ids import InstanceId
from lochan.codec.forms import RowForm
from lochan.kv.store import Kind, Store, partition
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write

_encode: Final = msgspec.msgpack.Encoder().encode


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


CLAIM_FORM: Final = RowForm(Claim, "claim")

_ADDED: Final = Doubt("the idempotency key was claimed", "send the request again")
_RECORDED: Final = Doubt("the outcome of an earlier request was recorded", "send the request again")


class ClaimRows(RowTable[Claim]):
    """The claims of one repository, or of the list of repositories."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        place = partition(instance, Kind.CLAIMS)
        super().__init__(store, place, CLAIM_FORM, lambda claim: claim.key)

    def add(self, claim: Claim, retry: Retry) -> Claim:
        """Claims a key, or returns the claim that it has."""

        def decide(found: Stamped[Claim] | None) -> Write[Claim, Claim] | Done[Claim]:
            return Write(claim, claim) if found is None else Done(found.row)

        return self.swap(claim.key, decide, retry, _ADDED, assume_absent=True)

    def record(self, key: bytes, operation: bytes, outcome: bytes, retry: Retry) -> None:
        """Adds an outcome to the claim of an operation; a claim that was removed needs none."""

        def decide(found: Stamped[Claim] | None) -> Write[Claim, None] | Done[None]:
            if found is None or found.row.operation != operation or found.row.outcome:
                return Done(None)
            return Write(msgspec.structs.replace(found.row, outcome=outcome), None)

        self.swap(key, decide, retry, _RECORDED)


def claim_key(principal: str, key: str) -> bytes:
    """Returns the key of a claim's row: no two principals share one."""
    return sha256(_encode((principal, key))).digest()
