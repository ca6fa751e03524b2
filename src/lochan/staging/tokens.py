"""Staging tokens: registered before they are used, set in the row of their branch, never reused.

A token is registered by a row (`StagingTokenRow`), by which a sweep finds its partition whatever
becomes of the branch. Then a compare-and-swap of the branch's row makes it the staging token: the
first staged write of an incarnation does so, and every seal. The steps, and what a crash after each
leaves:

1. register the token. (A crash leaves a registered token without records, which is swept.)
2. swap the row of the branch. Lost or refused: the token stays registered and is swept; another
   attempt takes another token, so that a token which a sweep has given up is never set.

To *seal* is to move the staging token to the end of the sealed tokens and to set a new one: from
then on writers put their records elsewhere, so a commit may read those of the sealed token.

Neither swap has an operation to look for after a lost reply: both have a goal that another server
may reach as well (the branch has a token; this token is not the staging token any more), so the row
is read again, and if the goal is reached nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from lochan.base.errors import Exhausted, LochanError, NotABranch, ReferenceNotFound
from lochan.base.ids import STAGING_TOKEN_BYTES, InstanceId, StagingToken
from lochan.base.limits.staging import SEALED_FOLD_MIN, SEALED_TOKENS_MAX
from lochan.base.names import RefName
from lochan.codec.rows import TOKEN_FORM, ReferenceRow, StagingTokenRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.moves import rewritten
from lochan.kv.store import Kind, Store, partition
from lochan.persist.references import StampedRow
from lochan.persist.rows import Done, Doubt, RowTable, Write
from lochan.persist.staged import tokens_of
from lochan.staging.branch_rows import FindRow
from lochan.staging.folds import FOLDED_MARK, choose_tokens, copy_records, left_of

_CHANGED: Final = Doubt("the branch got a new staging token", "send the request again")

_Change = Callable[[ReferenceRow], ReferenceRow | None]


class TokenRows(RowTable[StagingTokenRow]):
    """The registered tokens of one repository."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        super().__init__(
            store, partition(instance, Kind.STAGING), TOKEN_FORM, lambda row: row.token
        )


class BranchTokens:
    """Registers tokens and sets them in the rows of branches."""

    def __init__(
        self, context: RepositoryContext, find: FindRow, fold_min: int = SEALED_FOLD_MIN
    ) -> None:
        self._context = context
        self._find = find
        self._fold_min = fold_min
        self._rows = TokenRows(context.store, context.instance)

    def ensure(self, row: ReferenceRow) -> ReferenceRow:
        """Returns the row of a branch with a staging token; sets the first one."""
        if row.staging_token:
            return row
        return self._set_new(row, lambda found: not found.staging_token, self._with_token)

    def seal(self, row: ReferenceRow) -> ReferenceRow:
        """Seals the staging token that the row has; returns the row of the same branch then.

        If another server has sealed it, nothing is left to do. If many tokens are sealed already,
        some of them are folded into one before.
        """
        token = row.staging_token
        if len(row.sealed_tokens) >= self._fold_min:
            row = self._folded(row)
        return self._set_new(row, lambda found: found.staging_token == token, self._sealed)

    def discard(self, row: ReferenceRow) -> ReferenceRow:
        """Takes all tokens that the row has out of it; the next write sets a new one.

        Also a token that they were folded into meanwhile.
        """
        known = tokens_of(row)[::-1]

        def without(found: ReferenceRow) -> ReferenceRow | None:
            gone = left_of(known, tokens_of(found)[::-1])
            if not gone:
                return None
            left = tuple([one for one in found.sealed_tokens if one not in gone])
            staging = b"" if found.staging_token in gone else found.staging_token
            return self._changed(found, staging_token=staging, sealed_tokens=left)

        return self._swap(row, without)

    def register(self, name: RefName, incarnation: int, mark: bytes = b"") -> StagingToken:
        """Step 1; the token ends with the mark."""
        context = self._context
        token = StagingToken(context.random.random_bytes(STAGING_TOKEN_BYTES) + mark)
        row = StagingTokenRow(1, token, name, incarnation, context.clock.now_us())
        write = self._rows.condition(row, None)
        # No other caller has this token, so there is nothing to compare with.
        context.repeat(lambda: context.store.put_many([(write.partition, write.key, write.value)]))
        return token

    def _folded(self, row: ReferenceRow) -> ReferenceRow:
        """Returns the row with fewer sealed tokens (`folds.py`); as it is if that fails."""
        context = self._context
        try:
            tokens = tuple(choose_tokens(context, row.sealed_tokens))
            new = self.register(RefName(row.name), row.incarnation, FOLDED_MARK)
            copy_records(context, tokens, new)
            return self._swap(row, lambda found: self._with_folded(found, tokens, new))
        except LochanError:
            # The branch is right without it; the next seal tries again.
            return row

    def _with_folded(
        self, row: ReferenceRow, tokens: tuple[bytes, ...], new: StagingToken
    ) -> ReferenceRow | None:
        """Returns the row with one token in the place of several; None if they are not there."""
        sealed = row.sealed_tokens
        at = sealed.index(tokens[0]) if tokens[0] in sealed else 0
        if sealed[at : at + len(tokens)] != tokens:
            return None
        left = (*sealed[:at], new, *sealed[at + len(tokens) :])
        return self._changed(row, sealed_tokens=left)

    def _set_new(
        self,
        row: ReferenceRow,
        is_wanted: Callable[[ReferenceRow], bool],
        change: Callable[[ReferenceRow, StagingToken], ReferenceRow],
    ) -> ReferenceRow:
        """Both steps; the row as it is if another server has reached the goal."""

        def with_new(found: ReferenceRow) -> ReferenceRow | None:
            if not is_wanted(found):
                return None
            return change(found, self.register(RefName(row.name), row.incarnation))

        return self._swap(row, with_new)

    def _swap(self, row: ReferenceRow, change: _Change) -> ReferenceRow:
        """Step 2; `change` returns None if the goal is reached, by this swap or another one."""
        name = RefName(row.name)

        def decide(found: StampedRow | None) -> Write[ReferenceRow, ReferenceRow] | _Kept:
            if found is None or found.row.deleted:
                raise ReferenceNotFound(f"Named reference '{name}' not found")
            present = found.row
            if present.kind != "BRANCH":
                raise NotABranch(f"{name!r} is not a branch; files are staged on branches")
            written = change(present) if present.incarnation == row.incarnation else None
            return Done(present) if written is None else Write(written, written)

        context = self._context
        return context.references.swap(
            name, decide, context.retry_steps(), _CHANGED, read=lambda: self._find(name)
        )

    def _with_token(self, row: ReferenceRow, token: StagingToken) -> ReferenceRow:
        return self._changed(row, staging_token=token)

    def _sealed(self, row: ReferenceRow, token: StagingToken) -> ReferenceRow:
        if len(row.sealed_tokens) >= SEALED_TOKENS_MAX:
            text = (
                f"{row.name!r} has {len(row.sealed_tokens)} sealed tokens that no commit has "
                "taken; commit without table operations, or reset the branch"
            )
            raise Exhausted(text, public=text)
        sealed = (*row.sealed_tokens, row.staging_token)
        return self._changed(row, staging_token=token, sealed_tokens=sealed)

    def _changed(self, row: ReferenceRow, **changes: object) -> ReferenceRow:
        operation = self._context.random.random_bytes(16)
        return msgspec.structs.replace(rewritten(row, operation), **changes)


_Kept = Done[ReferenceRow]
