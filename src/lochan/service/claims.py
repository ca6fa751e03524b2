"""Writes that carry an idempotency key take effect once, whichever server they are sent to."""

from __future__ import annotations

from lochan.base.errors import Invalid
from lochan.base.limits import IDEMPOTENCY_KEY_CHARACTERS_MAX
from lochan.base.names import RefName
from lochan.kernel.claims import ClaimedMember, ClaimedMove, claim, claim_move
from lochan.kernel.parts import Parts
from lochan.kernel.publish import Find, Member
from lochan.kernel.views import CommitView
from lochan.service.calls import Call


class Once:
    """A member as it is published, and the commit that an earlier try has made, if one has."""

    def __init__(self, member: Member, claimed: ClaimedMember | None) -> None:
        self.member = member
        self._claimed = claimed

    @property
    def done(self) -> CommitView | None:
        """The commit of an earlier try, known after planning."""
        return None if self._claimed is None else self._claimed.done


def claim_moves(parts: Parts, call: Call, name: str, incarnation: int | None) -> ClaimedMove | None:
    """Claims the caller's key for a request on references, if it has one.

    It is meant for one life of the reference; where there is none, it only may have been before.
    """
    key = call.idempotency_key
    if key is None:
        return None
    _check_key(key)
    return claim_move(parts, call.who, key, call.digest, name, incarnation)


def once(
    parts: Parts, find: Find, call: Call, branch: RefName, member: Member, *, dry_run: bool
) -> Once:
    """Claims the caller's key for this request, if it has one; a dry run needs none."""
    key = call.idempotency_key
    if key is None or dry_run:
        return Once(member, None)
    _check_key(key)
    made = claim(parts, call.who, key, call.digest, branch, find)
    claimed = ClaimedMember(parts, member, made)
    return Once(claimed, claimed)


def _check_key(key: str) -> None:
    if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX or not key.isprintable():
        raise Invalid(
            f"an idempotency key has 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} printable characters"
        )
