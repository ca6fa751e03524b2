"""Removing what has expired: branches, tombstones of references, and claims.

All of it page by page, so that a caller decides how much is done at once and goes on later. Several
servers may sweep at the same time: everything is removed on condition that it is as it was read.

An *expired branch* is deleted like any other, by a compare-and-swap that looks at the incarnation
and the expiry of exactly the row that it replaces.

A *tombstone* prevents that a late finisher of a creation brings a deleted reference back. Every
finisher gives up after a minute, so a day after the deletion the tombstone may be removed, if the
index does not list the name in the same incarnation any more. The steps for one tombstone, and what
a crash after each leaves:

1. look whether the index still lists it; a deletion that is half done is finished and left for the
   next time;
2. copy its moves to the log (a crash leaves the tombstone, and copies that are harmless);
3. remove the row, on condition that it is as it was read.

A *claim* is removed a day after it was made.

A lost reply is left for the next time: what is still there then is looked at again. A row that
cannot be read, or that fails, is reported and does not keep the others from being swept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.base.ids import InstanceId
from lochan.base.limits.maintenance import EXPIRY_GRACE_S
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.limits.storage import GRACE_S
from lochan.base.names import RefName
from lochan.kernel.context import RepositoryContext
from lochan.kernel.references import ReferenceIndex
from lochan.kv.store import Store, Won
from lochan.persist.claims import ClaimRows
from lochan.persist.references import StampedRow


class Skipped(msgspec.Struct, frozen=True):
    """A row that could not be swept: what it is, its key, and the kind of the error."""

    what: str
    row: bytes
    error: str


class Purged(msgspec.Struct, frozen=True):
    """What a sweep did: rows it looked at, took away, and found still too young or in use."""

    looked_at: int = 0
    removed: int = 0
    kept: int = 0
    finished: int = 0
    """Deletions that were half done."""
    expired: int = 0
    """Branches that were deleted because their time was over."""
    skipped: tuple[Skipped, ...] = ()

    def plus(self, other: Purged) -> Purged:
        """Returns both together."""
        return Purged(
            self.looked_at + other.looked_at,
            self.removed + other.removed,
            self.kept + other.kept,
            self.finished + other.finished,
            self.expired + other.expired,
            self.skipped + other.skipped,
        )


class Swept(msgspec.Struct, frozen=True):
    """What a page of a sweep did, and where the next one begins, None at the end."""

    purged: Purged
    next_start: bytes | None


SweepPage = Callable[[bytes, int], Swept]


def sweep_references(context: RepositoryContext, names: ReferenceIndex) -> Purged:
    """Sweeps expired branches and old tombstones, all of them."""
    return _sweep_all(lambda start, limit: sweep_references_page(context, names, start, limit))


def sweep_claims(context: RepositoryContext) -> Purged:
    """Sweeps old claims, all of them."""
    now_us = context.clock.now_us()
    return _sweep_all(
        lambda start, limit: sweep_claims_page(
            context.store, context.instance, now_us, start, limit
        )
    )


def sweep_references_page(
    context: RepositoryContext, names: ReferenceIndex, start: bytes, limit: int
) -> Swept:
    """Deletes expired branches, and removes tombstones that are older than a day."""
    now_us = context.clock.now_us()
    page = context.references.scan(start, limit)
    deleted = [found for found in page.rows if found.row.deleted]
    old = [found for found in deleted if _deleted_us(found) < now_us - GRACE_S * 1_000_000]
    listed = names.incarnations([RefName(found.row.name) for found in old]) if old else {}
    done = Purged(
        len(page.rows) + len(page.unreadable),
        kept=len(deleted) - len(old),
        skipped=tuple(Skipped("reference", bad.key, bad.error.kind) for bad in page.unreadable),
    )
    before_us = now_us - EXPIRY_GRACE_S * 1_000_000
    for found in page.rows:
        expires_us = found.row.expires_us
        if not found.row.deleted and expires_us is not None and expires_us <= before_us:
            done = done.plus(_guarded(found, partial(_expire, context, names, found, before_us)))
    for found in old:
        done = done.plus(_guarded(found, partial(_purge, context, names, found, listed)))
    return Swept(done, page.next_start)


def sweep_claims_page(
    store: Store, instance: InstanceId, now_us: int, start: bytes, limit: int
) -> Swept:
    """Removes claims of idempotency keys that were made more than a day ago."""
    before_us = now_us - GRACE_S * 1_000_000
    claims = ClaimRows(store, instance)
    page = claims.scan(start, limit)
    removed = 0
    for found in page.rows:
        if found.row.when_us < before_us:
            with suppress(Unknown):
                removed += isinstance(claims.remove(found), Won)
    skipped = tuple(Skipped("claim", bad.key, bad.error.kind) for bad in page.unreadable)
    looked_at = len(page.rows) + len(skipped)
    kept = len(page.rows) - removed
    return Swept(Purged(looked_at, removed, kept, skipped=skipped), page.next_start)


def _guarded(found: StampedRow, sweep: Callable[[], Purged]) -> Purged:
    """Sweeps one row; its errors are its own, unless the whole store is away."""
    try:
        return sweep()
    except Unavailable:
        raise
    except LochanError as error:
        return Purged(skipped=(Skipped("reference", found.row.name.encode(), error.kind),))


def _expire(
    context: RepositoryContext, names: ReferenceIndex, found: StampedRow, before_us: int
) -> Purged:
    if found.row.name == context.description.default_branch:
        return Purged()
    return Purged(expired=int(names.delete_expired(found.row, before_us)))


def _purge(
    context: RepositoryContext, names: ReferenceIndex, found: StampedRow, listed: dict[RefName, int]
) -> Purged:
    name = RefName(found.row.name)
    if listed.get(name) == found.row.incarnation:
        names.find(name)
        return Purged(kept=1, finished=1)
    try:
        context.moves.copy(found.row, found.row.moves)
        outcome = context.references.remove(found)
    except Unknown:
        return Purged(kept=1)
    return Purged(removed=1) if isinstance(outcome, Won) else Purged(kept=1)


def _deleted_us(found: StampedRow) -> int:
    """Returns when a row became a tombstone: its last move is the deletion."""
    return max([found.row.created_us, *(move.when_us for move in found.row.moves)])


def _sweep_all(sweep_page: SweepPage) -> Purged:
    total = Purged()
    start: bytes | None = b""
    while start is not None:
        swept = sweep_page(start, PAGE_ENTRIES_MAX)
        total, start = total.plus(swept.purged), swept.next_start
    return total
