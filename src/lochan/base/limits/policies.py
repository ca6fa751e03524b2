"""Policies of access and the decisions by them."""

from __future__ import annotations

from typing import Final

# Statements of one policy: every request of a caller is decided by all statements of its policies,
# which are combined when the caller is seen first.
POLICY_STATEMENTS_MAX: Final = 100

# Actions or patterns in one list of a statement; longer lists belong into groups of names that
# share a prefix.
STATEMENT_ITEMS_MAX: Final = 200

# All texts of one policy together; a row of a policy has to fit into every store.
POLICY_BYTES_MAX: Final = 65_536

# Repositories and actions whose decisions one caller keeps in memory: names come from requests, so
# their number has to have a bound. One has about a kilobyte.
RIGHTS_PLANS_MAX: Final = 256

# The same for all callers together, for statements without conditions: callers with the same
# policies share them.
RIGHTS_PLANS_SHARED_MAX: Final = 4_096

# References whose decisions are kept for one caller, one repository and one action. They are kept
# by reference only if a condition reads the name of the reference.
RIGHTS_REFERENCES_MAX: Final = 256

# Compiled policies kept in memory; all callers share them.
POLICIES_COMPILED_MAX: Final = 1_024

# Combinations of statements whose keys are kept in memory, a few KB each; all callers share them.
STATEMENTS_COMBINED_MAX: Final = 4_096

# Compiled conditions kept in memory, a few KB each.
CONDITIONS_COMPILED_MAX: Final = 1_024

# Results of conditions kept in memory for all callers, about 200 bytes each.
CONDITION_RESULTS_MAX: Final = 65_536

# The estimated time to evaluate a condition once. Decisions on keys may evaluate one for each key
# of a page; evaluating a comparison or two takes 5 microseconds, a regular expression 50.
CONDITION_US_MAX: Final = 500

# Roles that a condition may loop over; evaluating a condition fails for a caller with more.
CONDITION_ROLES_MAX: Final = 100

# Keys that an event of the audit log lists by name; it contains the number of all.
AUDIT_KEYS_MAX: Final = 5
