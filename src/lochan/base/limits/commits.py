"""Commits, references, chains and retries."""

from __future__ import annotations

from typing import Final

from lochan.base.limits.storage import OBJECT_BYTES_MAX

# A commit is a row too; with 1,000 own keys and both embedded indexes it stays far below the
# smallest value limit of the databases.
COMMIT_BYTES_MAX: Final = OBJECT_BYTES_MAX

# A page of history is read with one fetch; 20 ids are 640 bytes in every commit.
COMMIT_TAIL_MAX: Final = 20

# Up to here a commit lists its own keys, which makes its log entry cheap; above, its operations are
# the difference to its parent, and a tree of the keys that it put again as they were.
COMMIT_OWN_KEYS_MAX: Final = 1_000

# The same bound in bytes, for long keys.
COMMIT_OWN_BYTES_MAX: Final = 65_536

# Git hosts cut messages far earlier; a bound keeps a commit inside one row.
MESSAGE_BYTES_MAX: Final = 65_536

# Headers are for people and tools, not for data.
HEADERS_BYTES_MAX: Final = 32_768

# Nessie's own limit is the pattern; a row's key and a URL path segment must hold the name.
REFERENCE_NAME_BYTES_MAX: Final = 255

# Replaced heads that a row remembers; Nessie keeps as many.
PREVIOUS_POINTERS_MAX: Final = 20

# Moves that a row holds until they are copied to the log; more would make commits slower.
MOVES_MAX: Final = 16

# Proposals of one chain: those that wait are published together, but a lost swap costs all again.
CHAIN_PROPOSALS_MAX: Final = 64

# The same in bytes: one statement of a database, and what a lost swap wastes.
CHAIN_BYTES_MAX: Final = 1_048_576

# Commits that wait for one branch on one server; further callers are refused and retry later.
LANE_QUEUE_MAX: Final = 1_000

# All attempts of one commit together; then the caller gets an error with their number and time.
COMMIT_TIMEOUT_MS: Final = 5_000

# The first sleep after a lost attempt is between these: time for the other writer to finish.
RETRY_SLEEP_FIRST_MS: Final = (5, 25)

# Sleeps double up to here; longer ones would waste the time that is left.
RETRY_SLEEP_MAX_MS: Final = 250

# A step of several writes gives up this long after its first read, far below the collector's grace.
MULTI_STEP_TIMEOUT_MS: Final = 60_000

# A tag may point at a tag; longer chains of tags have no use, and each tag costs a read.
TAG_DEPTH_MAX: Final = 8

# Commits that one rebase replays: they are planned in memory and stored before the branch moves.
REBASE_COMMITS_MAX: Final = 10_000

# Roles that a commit or a move records: a caller of more roles is an exception, and a row with 16
# moves is written by every commit.
ROLES_RECORDED_MAX: Final = 32

# The same in characters of all roles together.
ROLES_CHARACTERS_MAX: Final = 1_024

# Commits of a busy branch that its publisher remembers: writers are rarely further behind.
RECENT_COMMITS_MAX: Final = 1_024

# Keys that it remembers as changed; about two megabytes for the busiest branch.
RECENT_KEYS_MAX: Final = 10_000

# Commits that the publisher of a branch remembers of what was merged into it, about 150 bytes each;
# a search for a merge base that passes more of them goes through history.
REACH_COMMITS_MAX: Final = 4_000

# A merge of so many commits of the source at most is looked at before it is planned: whether it is
# so small that it is planned in the lane. Each is one read.
LIGHT_MERGE_COMMITS_MAX: Final = 8

# The target of such a merge has so many commits of its own at most. The first search for a merge
# base passes all of them, on the event loop, in about 10 us each.
LIGHT_MERGE_TARGET_COMMITS_MAX: Final = 2_000

# A commit of fewer changes is built in the lane: that takes some milliseconds, and storing its
# objects before would be one more write.
GRAFT_CHANGES_MIN: Final = 100

# Differences between two heads that are put into a prepared tree in the lane: each touches about
# one leaf, so this is some milliseconds, on the event loop.
GRAFT_DIFFERENCES_MAX: Final = 256

# How often a preparation reads the row outside the lane before it is offered to the lane. Each time
# there is less left to do: only what was committed during the time before.
GRAFT_ROUNDS_MAX: Final = 8

# How often a proposal is planned outside the lane, because the head has changed what it relies on;
# then it is planned in the lane. So it takes three times as long as alone, at most.
GRAFT_PLANS_MAX: Final = 2

# How often a preparation is offered to the lane with a bound on the work there; then without.
GRAFT_OFFERS_MAX: Final = 4

# A graft of more commits, a replay, is done in a thread: each commit is made again in the lane.
GRAFT_COMMITS_ON_LOOP_MAX: Final = 16

# Objects of a preparation that one call stores. An embedded store is locked meanwhile, for about a
# millisecond, and other writes wait.
GRAFT_STORED_TOGETHER: Final = 64

# Values of one commit that are kept in memory for its events; those of larger ones are read again.
VALUES_KEPT_MAX: Final = 64
