"""Removing the records of tokens that no branch has any more.

A token is alive while the row of its branch, in the same incarnation, has it. Once it left the row
it never comes back. The records of a dead token are dropped twice, an hour apart: a writer that has
read the row before the token left it may put a record afterwards. It notices that the token moved
and writes elsewhere, but the record stays behind. The steps for one token, and what a crash after
each leaves:

1. read the row of its branch. Alive, or registered less than an hour ago: leave it. (Nothing.)
2. the first time, write the row of the branch again as it is, on condition that it is the one of
   step 1: a swap that would set the token, and is still under way, can only lose then. If this
   write is lost, leave the token for the next time. (A crash leaves the row as it was.)
3. drop its records. (A crash leaves the token as it was: the next sweep drops them again.)
4. the first time, note the time in the token's row; an hour later and after step 3, remove that
   row. (Afterwards nothing is left of the token.)

A lost reply is left for the next time. A row that cannot be read is reported and kept.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from lochan.base.errors import NewerFormat, Unknown
from lochan.base.ids import StagingToken
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.limits.staging import TOKEN_DROP_INTERVAL_S
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow, StagingTokenRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.moves import rewritten
from lochan.kernel.purge import Purged, Skipped, Swept
from lochan.kv.store import Won
from lochan.persist.references import StampedRow
from lochan.persist.rows import Stamped
from lochan.staging.tokens import TokenRows

_INTERVAL_US = TOKEN_DROP_INTERVAL_S * 1_000_000


def sweep_tokens(context: RepositoryContext) -> Purged:
    """Sweeps all tokens."""
    total = Purged()
    start: bytes | None = b""
    while start is not None:
        swept = sweep_tokens_page(context, start, PAGE_ENTRIES_MAX)
        total, start = total.plus(swept.purged), swept.next_start
    return total


def sweep_tokens_page(context: RepositoryContext, start: bytes, limit: int) -> Swept:
    """Sweeps one page of tokens."""
    page = TokenRows(context.store, context.instance).scan(start, limit)
    skipped = [Skipped("staging token", bad.key, bad.error.kind) for bad in page.unreadable]
    # The tokens before the branches: one that is registered later is not looked at.
    branches = context.references.find_many([RefName(found.row.name) for found in page.rows])
    removed = 0
    fences: dict[str, bool] = {}
    for found, branch in zip(page.rows, branches, strict=True):
        token = found.row
        if isinstance(branch, NewerFormat):
            skipped.append(Skipped("staging token", token.token, branch.kind))
        elif not is_alive(token, None if branch is None else branch.row) and _is_due(
            context, token
        ):
            with suppress(Unknown):
                if not token.dropped_us and token.name not in fences:
                    fences[token.name] = False
                    fences[token.name] = _fence(context, branch)
                if token.dropped_us or fences[token.name]:
                    removed += _sweep(context, found)
    looked_at = len(page.rows) + len(page.unreadable)
    kept = len(page.rows) - removed
    return Swept(Purged(looked_at, removed, kept, skipped=tuple(skipped)), page.next_start)


def is_alive(token: StagingTokenRow, branch: ReferenceRow | None) -> bool:
    """Step 1: whether the row of a branch has a token."""
    if branch is None or branch.deleted or branch.incarnation != token.incarnation:
        return False
    return token.token == branch.staging_token or token.token in branch.sealed_tokens


def _is_due(context: RepositoryContext, token: StagingTokenRow) -> bool:
    """Returns whether an hour has passed since the token was registered, or dropped once."""
    return context.clock.now_us() - max(token.created_us, token.dropped_us) >= _INTERVAL_US


def _fence(context: RepositoryContext, branch: StampedRow | None) -> bool:
    """Step 2; returns whether no swap that is under way can set a token of this branch."""
    if branch is None or branch.row.deleted:
        # Such a swap expects a live row, and that row is gone.
        return True
    row = rewritten(branch.row, context.random.random_bytes(16))
    return isinstance(context.references.update(row, branch), Won)


def _sweep(context: RepositoryContext, found: Stamped[StagingTokenRow]) -> bool:
    """Steps 3 and 4 for a token that is not in its row; returns whether nothing is left of it."""
    token, now_us = found.row, context.clock.now_us()
    context.staged.drop(StagingToken(token.token))
    rows = TokenRows(context.store, context.instance)
    if not token.dropped_us:
        rows.update(msgspec.structs.replace(token, dropped_us=now_us), found)
        return False
    return isinstance(rows.remove(found), Won)
