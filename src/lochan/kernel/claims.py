"""Idempotency: a request with a key takes effect once, on whichever server it is tried again.

1. *Claim* the key: a row, put if absent, says which request it belongs to (a digest), which branch
   and which life of it is meant, and the generation of its head then.
2. The commit carries an operation id made from principal and key in a hidden header.
3. *Every* attempt, before its swap, looks for that id in the commits after the claim's generation.
   Found: the request was done, and that commit is the answer. To look only once would miss the
   commit of another server that is published meanwhile.

The same key with another request is refused. Claims are swept after a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final, Literal

import msgspec

from lochan.base.errors import Exhausted, KeyReused, ReferenceNotFound, Unknown
from lochan.base.ids import ObjId
from lochan.base.limits import MOVES_MAX
from lochan.base.names import RefName
from lochan.codec.commits import Headers
from lochan.codec.forms import add_checksum, unreadable_row, without_checksum
from lochan.codec.rows import Move, ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.history import iterate_log
from lochan.kernel.parts import Parts
from lochan.kernel.plan import CommitPlan
from lochan.kernel.publish import Find, Member, check_takes_commits
from lochan.kernel.views import CommitView
from lochan.kv.store import ABSENT, Entry, Kind, Won, partition

OPERATION_HEADER: Final = "operation"
_OPERATION_BYTES: Final = 16
_REUSED: Final = "this idempotency key was used for another request; use a new one"

# A claim is swept after a day only; to lose it between two calls more than once cannot be chance.
_CLAIM_ATTEMPTS_MAX: Final = 3


class Claim(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a claimed key belongs to."""

    format: Literal[1]
    digest: bytes
    name: str
    incarnation: int
    generation: int
    version: int
    operation: str
    when_us: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Claim).decode


def claim(
    parts: Parts,
    principal: str,
    key: str,
    digest: bytes,
    name: RefName,
    find: Find | None = None,
) -> Claim:
    """Claims a key for a request, or returns the claim that the same request has made before.

    `find` is how the branch is read; `Names.find` finishes one that was left half made.
    """
    found = (find or parts.references.fetch)(name)
    if found is None or found.row.deleted:
        raise ReferenceNotFound(f"Named reference '{name}' not found")
    check_takes_commits(found.row)
    head = parts.views.load(ObjId(found.row.pointer))
    row_key = sha256(_encode((principal, key))).digest()
    wanted = Claim(
        1,
        digest,
        name,
        found.row.incarnation,
        head.generation,
        found.row.version,
        row_key.hex(),
        parts.clock.now_us(),
    )
    claimed = _put_if_absent(parts, row_key, wanted)
    if claimed.digest != digest or claimed.name != name:
        raise KeyReused(_REUSED)
    return claimed


class ClaimedMove(msgspec.Struct, frozen=True, gc=False):
    """What a claimed request on references knows of itself.

    Its moves carry the operation id, and are made in one life of a reference only; `repeated` says
    that somebody has claimed it before.
    """

    operation: bytes
    incarnation: int
    repeated: bool


def claim_move(
    parts: Parts, principal: str, key: str, digest: bytes, name: str, incarnation: int | None
) -> ClaimedMove | None:
    """Claims a key for a request that makes, moves or deletes references.

    By the operation id that its moves carry a second try knows that they are made. Where there is
    no such reference (no incarnation) it only looks for an earlier claim, None if there is none.
    """
    row_key = sha256(_encode((principal, key))).digest()
    if incarnation is None:
        found = parts.store.get(partition(parts.instance, Kind.CLAIMS), row_key)
        if found is None:
            return None
        claimed, repeated = read_claim(found.value), True
    else:
        now_us = parts.clock.now_us()
        wanted = Claim(1, digest, name, incarnation, 0, 0, row_key.hex(), now_us)
        claimed = _put_if_absent(parts, row_key, wanted)
        repeated = claimed is not wanted
    if claimed.digest != digest or claimed.name != name:
        raise KeyReused(_REUSED)
    return ClaimedMove(row_key[:_OPERATION_BYTES], claimed.incarnation, repeated)


class ClaimedMember:
    """A member that is done at most once, whoever else tries."""

    def __init__(self, parts: Parts, member: Member, claimed: Claim) -> None:
        self._parts = parts
        self._member = member
        self._claimed = claimed
        self.done: CommitView | None = None
        self.incarnation: int | None = claimed.incarnation

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans nothing if the request is in history already; else marks the last commit."""
        self.done = self._find(head)
        if self.done is not None:
            return []
        plans = list(self._member.plan(head))
        return [
            msgspec.structs.replace(plan, hidden=marked(plan.hidden, self._claimed.operation))
            for plan in plans
        ]

    def _find(self, head: Head) -> CommitView | None:
        """Looks in the head's line, and in those that the branch was moved away from since."""
        views = self._parts.views
        moves = self._moves(head.row)
        lines = [head.line()]
        lines += [iterate_log(views, ObjId(move.old)) for move in moves]
        # What was committed since stands on the head of then, or on where a move led, which may
        # be older than the claim.
        starts = [views.load(ObjId(move.new)).generation for move in moves]
        floor = min(self._claimed.generation, *starts) if starts else self._claimed.generation
        for line in lines:
            found = self._find_in(line, floor)
            if found is not None:
                return found
        return None

    def _moves(self, row: ReferenceRow) -> list[Move]:
        since = [move for move in row.moves if move.version > self._claimed.version]
        if len(since) == MOVES_MAX:
            log = self._parts.moves
            since += log.fetch_after(row.name, row.incarnation, self._claimed.version)
        return since

    def _find_in(self, line: Iterator[CommitView], floor: int) -> CommitView | None:
        mark = (OPERATION_HEADER, (self._claimed.operation,))
        for view in line:
            if view.body is None or view.generation <= floor:
                return None
            if mark in view.body.hidden:
                return view
        return None


def marked(hidden: Headers, operation: str) -> Headers:
    """Returns hidden headers with an operation id in place of any other."""
    kept = [header for header in hidden if header[0] != OPERATION_HEADER]
    return tuple(sorted([*kept, (OPERATION_HEADER, (operation,))]))


def read_claim(raw: bytes) -> Claim:
    """Reads a stored claim."""
    body = without_checksum(raw)
    try:
        return _decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise unreadable_row("claim", body, error) from None


def _put_if_absent(parts: Parts, key: bytes, wanted: Claim) -> Claim:
    """A lost reply needs no care of its own: sent again, the same row is won or found."""
    place = partition(parts.instance, Kind.CLAIMS)
    raw = add_checksum(_encode(wanted))
    for _ in range(_CLAIM_ATTEMPTS_MAX):
        try:
            outcome = parts.store.set_if(place, key, raw, ABSENT)
        except Unknown:
            outcome = parts.store.set_if(place, key, raw, ABSENT)
        if isinstance(outcome, Won):
            return wanted
        current = outcome.current
        if not isinstance(current, Entry):
            current = parts.store.get(place, key)
        if current is not None:
            return read_claim(current.value)
        # It was there and was swept before it could be read: claim it anew.
    text = "a claim came and went; try again later"
    raise Exhausted(text, public=text)
