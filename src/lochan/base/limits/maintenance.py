"""Checks and sweeps."""

from __future__ import annotations

from typing import Final

# Findings that a check of a repository lists; more are only counted, so memory stays bounded.
CHECK_FINDINGS_MAX: Final = 1_000

# How long a reference may be half created before a check reports a lost row: ten times what an
# operation may take, and the clocks of servers differ a little.
CHECK_UNFINISHED_S: Final = 600

# Heads from which a check reads history at once, some tens of MB; with more it reads in rounds.
CHECK_HEADS_MAX: Final = 100_000

# A branch is swept this long after its expiry: the clocks of servers differ a little.
EXPIRY_GRACE_S: Final = 60

# How often expired branches are searched: half the time between their expiry and their removal.
SWEEP_EVERY_S: Final = 30.0

# How often old claims are searched: rows are read in no order of age, so each round reads all of
# them, and one an hour leaves at most a day's claims and a twenty-fourth more.
SWEEP_CLAIMS_EVERY_S: Final = 3_600.0

# Rows that one turn of a sweep reads: a tenth of a second of one thread; the next turn continues.
SWEEP_ROWS_MAX: Final = 10_000

# The least number of rows that a repository counts for in such a turn: opening one that is not in
# use takes some reads.
SWEEP_REPOSITORY_ROWS: Final = 20

# The pause between two turns of one round, so that a sweep never occupies a thread.
SWEEP_PAUSE_S: Final = 1.0

# Rows that a sweep could not read and has reported, remembered so that each is reported once.
SWEEP_REPORTED_MAX: Final = 1_000

# An embedded repository sweeps after this number of writes, and reads twice as many rows as they
# can have made, so that the number of old rows does not grow.
EMBEDDED_SWEEP_WRITES: Final = 256

# Rows of references and of claims that it reads, each: some milliseconds.
EMBEDDED_SWEEP_ROWS: Final = 512

# Runs whose key packs it builds then, of about 512 commits each: it makes half a run meanwhile, and
# the rest is for searches that have found packs missing. Some milliseconds each.
EMBEDDED_KEY_PACKS_BUILT_MAX: Final = 4

# How often a server builds the key packs that are due. Until then a search reads the commits.
KEY_PACKS_EVERY_S: Final = 10.0

# How often a server looks whether a repository that it has open was deleted by another server: one
# read of a row for each. Until then it answers for the repository.
DELETED_REPOSITORIES_EVERY_S: Final = 5.0

# Bytes that a page of a copy should have: the next page has as many rows as are expected to have
# that many. Some calls a second, and some MB of memory.
COPY_PAGE_BYTES: Final = 2_097_152

# Rows of its first page, which are not known to be small.
COPY_PAGE_ROWS_FIRST: Final = 100

# Rows of a page of small ones: what stores read at once at most.
COPY_PAGE_ROWS_MAX: Final = 1_000

# Pages of objects after which a copy makes durable what it has written and notes its position: what
# a copy that was killed repeats, about 32 MB.
COPY_PAGES_UNSAVED_MAX: Final = 16

# How often a copy reads everything because its source was written meanwhile, before it asks for the
# servers to be stopped: a source with few writers may be quiet once.
COPY_ROUNDS_MAX: Final = 3

# How long a copy or an erasure goes on trying when a database does not answer: longer than an
# election of a new primary takes.
STORE_WORK_TIMEOUT_MS: Final = 60_000

# Pages of an instance whose partitions one step of an erasure drops: some seconds at most.
ERASE_PAGES_MAX: Final = 20

# How long after its deletion a repository may still be written by a server that has it open: it
# looks for that every few seconds, and a request may be under way. Only then is it known that
# nothing is added behind an erasure.
ERASE_GRACE_S: Final = 60

# Rows of one kind that a quick count reads before it gives "at least" that many: a second or two.
STATS_ROWS_MAX: Final = 10_000

# Objects that it reads before it reads a sample of their partitions instead: a few MB.
STATS_OBJECTS_MAX: Final = 2_000

# Partitions of the sample, of 65,536: their ids are hashes, so each has as many as any other, and a
# sample of 512 is off by some percent when there are 50,000 objects or more.
STATS_PARTITIONS: Final = 512

# Pages that one step of a count reads: a second or two, so a server answers in time.
STATS_PAGES_MAX: Final = 20
