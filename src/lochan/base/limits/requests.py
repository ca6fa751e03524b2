"""What one request may name, read and write."""

from __future__ import annotations

from typing import Final

# A page bounds memory and the time of one request; clients request the next page.
PAGE_ENTRIES_MAX: Final = 1_000

# A store's page: large enough to amortise a round trip (measured best at 1,000 to 5,000).
SCAN_ENTRIES_MAX: Final = 10_000

# A specification with more relative steps is a mistake; each step may cost some tens of reads.
SPEC_STEPS_MAX: Final = 10

# Commits that one page of a filtered log looks at: 2,000 are 100 fetches, well under a second on a
# networked database; a shorter page contains a token for the next one.
LOG_SCANNED_MAX: Final = 2_000

# Operations that one page of a log looks at: as many as one commit may have, some megabytes and a
# twentieth of a second. A page ends with the commit that reaches it; its token continues there.
LOG_OPERATIONS_MAX: Final = 10_000

# Messages and contents in one page of a log, as they are stored: as many as one commit may bring.
LOG_BYTES_MAX: Final = 8 * 1_024 * 1_024

# Nessie's own limit for a page of a log, whatever the client requests; some dozens of kilobytes.
LOG_PAGE_COMMITS_MAX: Final = 250

# A commit is checked and planned as a whole; more operations are several commits.
COMMIT_OPERATIONS_MAX: Final = 10_000

# One call may create a branch for each of a large team's jobs; more are several calls.
REFERENCES_PER_CALL_MAX: Final = 10_000

# A client's key for one write: a UUID, or the client's own name of the request.
IDEMPOTENCY_KEY_CHARACTERS_MAX: Final = 255

# Namespaces that version 1 of the API returns in one answer, which has no pages: some tens of MB.
NAMESPACES_LISTED_MAX: Final = 100_000

# Keys of a namespace that a refused deletion looks at for one that the caller may read: a few
# milliseconds in the lane of the branch. Without any, the refusal names no reason.
NAMESPACE_KEYS_LOOKED_AT_MAX: Final = 1_000

# Settings of one type are rules for tools, a few KB; the row must fit every database.
SETTINGS_BYTES_MAX: Final = 65_536

# Rules by reference name in the settings of a collector; people write them.
SETTINGS_POLICIES_MAX: Final = 1_000

# Writers that a settings row remembers: one whose reply was lost finds its own id there.
SETTINGS_WRITERS_MAX: Final = 16

# Objects of one bulk call: a few MB of ordinary nodes, far above where a round trip is amortised.
OBJECTS_PER_CALL_MAX: Final = 1_000

# The same in bytes, what one call may hold in memory; a single object always fits.
OBJECTS_BYTES_PER_CALL_MAX: Final = 32 * 1_024 * 1_024

# Objects that are read at once before their bytes are counted: the largest make 12 MB.
OBJECTS_FETCHED_AT_ONCE: Final = 32

# Some hundreds of keys in a body, each a lookup in a tree that is in memory: a few milliseconds.
BRIEF_KEYS_BYTES_MAX: Final = 16_384

# Digits of a commit by which it may be named instead of all: the first four name its partition,
# and with six a repository of a thousand commits has two that begin alike in 3 of 100 cases.
COMMIT_PREFIX_DIGITS_MIN: Final = 6
