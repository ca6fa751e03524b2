"""Files before their commit: tokens, rows of branches in memory, sweeps."""

from __future__ import annotations

from typing import Final

# Sealed tokens of one branch: each costs every read one more lookup. Commits that succeed take all
# of them; more than these are left only by commits that died or were refused one after the other.
SEALED_TOKENS_MAX: Final = 32

# How long a row is used without a look at the store. It is only a guess that every write and read
# checks afterwards, so a longer time would give more retries, not wrong answers.
BRANCH_ROW_TTL_MS: Final = 500

# Branches whose rows are in memory; a row has a few hundred bytes.
BRANCH_ROWS_MAX: Final = 4_096

# A writer that read a token puts its record within seconds; an hour later none is under way, also
# if the clocks of servers differ by minutes.
TOKEN_DROP_INTERVAL_S: Final = 3_600

# Records that a commit or a listing reads with one call of the store.
STAGED_RECORDS_READ: Final = 1_000

# Hidden keys that a page of a listing passes before it folds the staged records into a tree: that
# costs about as much as passing a few pages of them.
LISTING_HIDDEN_MAX: Final = 2_000
