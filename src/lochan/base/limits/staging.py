"""Files before their commit: tokens, rows of branches in memory, sweeps."""

from __future__ import annotations

from typing import Final

# Sealed tokens of one branch: each costs every read one more lookup. Commits that succeed take all
# of them, and many are folded into one; more than these are left only if folding fails, too.
SEALED_TOKENS_MAX: Final = 32

# Sealed tokens from which on a seal folds several into one.
SEALED_FOLD_MIN: Final = 12

# Records up to which a token is small: one call of the store shows it.
FOLDED_SMALL_MAX: Final = 1_000

# Small neighbours that are folded without the others, so that the records of a large token are
# copied rarely.
FOLDED_SMALL_MIN: Final = 4

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

# Deleted files that a page of a listing passes before it ends early: two calls of the store.
LISTING_HIDDEN_MAX: Final = 2_000

# Deleted files that a page passes which runs as long work: some seconds.
LISTING_PASSED_MAX: Final = 400_000

# A listing seals the staging token only while fewer tokens than these are sealed, so that listings
# never fill the list.
LISTING_SEALED_MAX: Final = 4

# Deleted files in a row from which on a listing remembers the range: shorter ones cost less than a
# jump over them, which is one more call of the store for each token.
HIDDEN_RUN_MIN: Final = 64

# Ranges that are remembered for one state of a branch: each has two keys, so all have 2 MB at most,
# if every path is as long as it may be.
HIDDEN_RUNS_MAX: Final = 1_024

# States of branches whose ranges are remembered: those of the branches that are listed now.
HIDDEN_RUNS_BASES_MAX: Final = 8
