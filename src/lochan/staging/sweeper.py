"""Removing the records of tokens that no branch has any more.

A token is alive while the row of its branch, in the same incarnation, has it. Once it left the row
it never comes back. The records of a dead token are dropped twice, an hour apart: a writer that has
read the row before the token left it may put a record afterwards. It notices that the token moved
and writes elsewhere, but the record stays behind. The steps for one token, and what a crash after
each leaves:

1. read the row of its branch. Alive, or registered less than an hour ago (it may be on its way
   into the row): leave it. (Nothing.)
2. drop its records. (A crash leaves the token as it was: the next sweep drops them again.)
3. the first time, note the time in the token's row; an hour later and after step 2, remove that
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
from lochan.codec.rows import ReferenceRow, TokenRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.purge import Purged, Skipped, Swept
from lochan.kv.store import Won
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
    for found, branch in zip(page.rows, branches, strict=True):
        if isinstance(branch, NewerFormat):
            skipped.append(Skipped("staging token", found.row.token, branch.kind))
        elif not is_alive(found.row, None if branch is None else branch.row):
            with suppress(Unknown):
                removed += _sweep(context, found)
    looked_at = len(page.rows) + len(page.unreadable)
    kept = len(page.rows) - removed
    return Swept(Purged(looked_at, removed, kept, skipped=tuple(skipped)), page.next_start)


def is_alive(token: TokenRow, branch: ReferenceRow | None) -> bool:
    """Step 1: whether the row of a branch has a token."""
    if branch is None or branch.deleted or branch.incarnation != token.incarnation:
        return False
    return token.token == branch.staging_token or token.token in branch.sealed_tokens


def _sweep(context: RepositoryContext, found: Stamped[TokenRow]) -> bool:
    """Steps 2 and 3 for a token that is not in its row; returns whether nothing is left of it."""
    token, now_us = found.row, context.clock.now_us()
    if now_us - max(token.created_us, token.dropped_us) < _INTERVAL_US:
        return False
    context.staged.drop(StagingToken(token.token))
    rows = TokenRows(context.store, context.instance)
    if not token.dropped_us:
        rows.update(msgspec.structs.replace(token, dropped_us=now_us), found)
        return False
    return isinstance(rows.remove(found), Won)
