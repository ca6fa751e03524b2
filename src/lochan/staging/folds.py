"""Sealed tokens that become one, so that commits that are refused again and again do no harm.

Every commit that seals and is refused leaves a sealed token, and each of them makes reads slower.
So a seal that finds many of them copies the records of several neighbours into one new token, the
newest record of each key, and one swap of the row puts it into their place (`tokens.py`). The
branch shows the same files as before.

1. choose tokens that are next to each other in the row, and register a new one.
2. copy the records. (A crash leaves a registered token that no row has, which is swept.)
3. swap the row, unless one of the tokens has left it meanwhile. (After it, a sweep drops the old
   ones. Lost or refused: the new one is swept.)

A commit that is under way may hold tokens that are folded meanwhile. It recognises the new one by
its length, and takes it (`left_of`): a commit may take more than it has seen, never less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from lochan.base.checks import check
from lochan.base.ids import STAGING_TOKEN_BYTES, StagingToken
from lochan.base.limits.staging import FOLDED_SMALL_MAX, FOLDED_SMALL_MIN, STAGED_RECORDS_READ
from lochan.kernel.context import RepositoryContext
from lochan.staging.layers import Layers, token_source

FOLDED_MARK: Final = b"f"
"""The end of a folded token, which is longer than others by it."""


def is_folded(token: bytes) -> bool:
    """Returns whether a token has the records of several others."""
    return len(token) == STAGING_TOKEN_BYTES + len(FOLDED_MARK)


def left_of(mine: Sequence[bytes], sealed: Sequence[bytes]) -> tuple[bytes, ...]:
    """Returns which sealed tokens of a row a commit has to take that began with `mine`.

    Those of its own that are still there: other commits take the oldest first. If one of them is
    gone and the row has a folded token that is not its own, the records may be in that one: then
    all up to there.
    """
    present = set(sealed)
    left = tuple([token for token in mine if token in present])
    folded = [at for at, token in enumerate(sealed) if is_folded(token) and token not in mine]
    if len(left) < len(mine) and folded:
        last = max([*folded, *(at for at, token in enumerate(sealed) if token in mine)])
        return tuple(sealed[: last + 1])
    check(left == tuple(mine[len(mine) - len(left) :]), "the oldest are taken first")
    check(left == tuple(sealed[: len(left)]), "tokens are sealed after these")
    return left


def choose_tokens(context: RepositoryContext, sealed: Sequence[bytes]) -> Sequence[bytes]:
    """Step 1: the longest row of small neighbours, or all tokens if there are few such."""
    best: Sequence[bytes] = ()
    small: list[bytes] = []
    for token in sealed:
        page = context.staged.scan(StagingToken(token), limit=FOLDED_SMALL_MAX)
        small = [*small, token] if page.next_start is None else []
        best = max(best, small, key=len)
    return best if len(best) >= FOLDED_SMALL_MIN else sealed


def copy_records(context: RepositoryContext, tokens: Sequence[bytes], into: StagingToken) -> None:
    """Step 2; the tokens are in the order of sealing."""
    newest_first = [StagingToken(token) for token in reversed(tokens)]
    layers = Layers([token_source(context.staged, one, b"", None) for one in newest_first])
    capabilities = context.store.capabilities
    step = min(STAGED_RECORDS_READ, capabilities.batch_items_max)
    place = context.staged.place(into)
    while records := layers.take(step):
        rows = [(place, key, record) for key, record in records]
        largest = max(len(record) for _, record in records)
        some = max(1, min(step, capabilities.batch_bytes_max // largest))
        for start in range(0, len(rows), some):
            batch = rows[start : start + some]
            # No other caller writes to this token, so there is nothing to compare with.
            context.repeat(partial(context.store.put_many, batch))
