"""Sweeping what has served its time: tombstones of references, and claims.

A tombstone keeps late finishers from bringing a deleted reference back, and everybody who might be
one gives up after a minute; so a day after the deletion it may go, if the index does not list the
name in the same life any more. The steps for one tombstone, and what a crash after each leaves:

1. look whether the index still lists it; a deletion that is half done is finished and left for the
   next time;
2. copy its moves to the log (a crash leaves the tombstone, and copies that are harmless);
3. remove the row, on condition that it is as it was read.

A lost reply is left for the next time: what is still there then is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lochan.base.errors import Unknown
from lochan.base.limits import GRACE_S, PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.kernel.claims import read_claim
from lochan.kernel.parts import Parts
from lochan.kernel.references import Names
from lochan.kv.store import Entry, Kind, Won, partition
from lochan.persist.references import StampedRow, read_row


class Purged(msgspec.Struct, frozen=True):
    """What a sweep did: rows it looked at, took away, and found still too young or in use."""

    looked_at: int = 0
    removed: int = 0
    kept: int = 0
    finished: int = 0
    """Deletions that were half done."""


def purge_tombstones(parts: Parts, names: Names) -> Purged:
    """Removes the tombstones of references that were deleted more than a day ago."""
    before_us = _before_us(parts)
    told = Purged()
    for page in _pages(parts, Kind.REFERENCES):
        rows = [found for entry in page if (found := read_row(entry)) is not None]
        dead = [found for found in rows if found.row.deleted]
        old = [found for found in dead if _deleted_us(found) < before_us]
        listed = names.incarnations([RefName(found.row.name) for found in old])
        done = Purged(len(rows), 0, len(dead) - len(old))
        for found in old:
            done = _purge(parts, names, found, listed, done)
        told = _sum(told, done)
    return told


def sweep_claims(parts: Parts) -> Purged:
    """Removes the claims of idempotency keys that were made more than a day ago."""
    before_us = _before_us(parts)
    place = partition(parts.instance, Kind.CLAIMS)
    told = Purged()
    for page in _pages(parts, Kind.CLAIMS):
        old = [entry for entry in page if read_claim(entry.value).when_us < before_us]
        removed = 0
        for entry in old:
            try:
                outcome = parts.store.delete_if(place, entry.key, entry.stamp)
            except Unknown:
                continue
            removed += isinstance(outcome, Won)
        told = _sum(told, Purged(len(page), removed, len(page) - removed))
    return told


def _purge(
    parts: Parts, names: Names, found: StampedRow, listed: dict[RefName, int], done: Purged
) -> Purged:
    name = RefName(found.row.name)
    if listed.get(name) == found.row.incarnation:
        names.find(name)
        return _sum(done, Purged(kept=1, finished=1))
    try:
        parts.moves.copy(found.row, found.row.moves)
        outcome = parts.references.purge(found)
    except Unknown:
        return _sum(done, Purged(kept=1))
    return _sum(done, Purged(removed=1) if isinstance(outcome, Won) else Purged(kept=1))


def _before_us(parts: Parts) -> int:
    return parts.clock.now_us() - GRACE_S * 1_000_000


def _deleted_us(found: StampedRow) -> int:
    """Returns when a row became a tombstone: its last move is the deletion."""
    return max([found.row.created_us, *(move.when_us for move in found.row.moves)])


def _pages(parts: Parts, kind: Kind) -> Iterator[Sequence[Entry]]:
    """Yields all rows of a kind, some at a time."""
    place = partition(parts.instance, kind)
    start: bytes | None = b""
    while start is not None:
        page = parts.store.scan(place, start, None, PAGE_ENTRIES_MAX)
        yield page.entries
        start = page.next_start


def _sum(one: Purged, other: Purged) -> Purged:
    return Purged(
        one.looked_at + other.looked_at,
        one.removed + other.removed,
        one.kept + other.kept,
        one.finished + other.finished,
    )
