"""Limits of users, groups, policies and credentials."""

from __future__ import annotations

from typing import Final

# How long a server may act on what it has read about access before it looks for changes. So an
# acknowledged change of a user, a group, a policy or a credential counts on every server of a store
# after this time at the latest.
ACCESS_STALE_MS: Final = 2_000

# After this time everything about access is read again, whether a change was noticed or not. So a
# change that was never acknowledged, because its server ended in the middle, counts after this time
# at the latest.
ACCESS_AGE_MS_MAX: Final = 60_000

# An id is a name, an address of e-mail or what another party calls its user; the key of a row
# consists of two of them and must fit every database.
ACCESS_ID_CHARACTERS_MAX: Final = 128

# A description is a sentence or two for people.
ACCESS_DESCRIPTION_CHARACTERS_MAX: Final = 1_000

# Users of one store: twice the largest installation that seed 004 expects. All members of a group
# are found by reading all memberships.
USERS_MAX: Final = 100_000

# Groups of one store: some for each team and each table of a large installation.
GROUPS_MAX: Final = 10_000

# Policies of one store: as many as groups, because most are written for one.
POLICIES_MAX: Final = 10_000

# How long a server relies on a count of users, groups or policies before it counts again. The
# limits above protect the store and need not be exact.
ACCESS_COUNT_MS: Final = 60_000

# Groups of one user: each costs a read when the rights of the user are read.
GROUPS_PER_USER_MAX: Final = 100

# Policies of one user or one group: with those of 100 groups they still compile in milliseconds.
POLICIES_PER_SUBJECT_MAX: Final = 100

# Writers that a row of a policy remembers: one whose reply was lost finds its own id there.
POLICY_WRITERS_MAX: Final = 8

# Tokens of one user: one for each program that acts for it.
TOKENS_PER_USER_MAX: Final = 100

# Access keys of one user: one for each program, and a new one beside each while it is replaced.
ACCESS_KEYS_PER_USER_MAX: Final = 100

# Policies that limit one token.
SCOPES_PER_TOKEN_MAX: Final = 10

# Rows that one page of the members of a group looks at, because memberships are found by user: some
# tens of milliseconds. A page may be short, or empty, and still have a next one.
MEMBERSHIPS_SCANNED_MAX: Final = 10_000

# Attempts to read the rights of a user while nothing changes. Then they are used as they were read:
# they are at most as old as ACCESS_STALE_MS allows.
ACCESS_READ_ATTEMPTS_MAX: Final = 4
