"""Nodes, objects, rows and caches."""

from __future__ import annotations

from typing import Final

from lochan.base.limits.contents import KEY_BYTES_MAX

# The measured optimum for CPU and bytes written is a node of about 4 KB, 40 table elements.
NODE_ELEMENTS_TARGET: Final = 40

# Half the target: smaller nodes would cost more writes than they save.
NODE_ELEMENTS_MIN: Final = 20

# Twice the target: bounds what one edit rewrites when no key is a boundary.
NODE_ELEMENTS_MAX: Final = 80

# From here on a boundary is eight times likelier, which keeps large nodes rare.
NODE_ELEMENTS_EAGER: Final = 50

# Entries with long metadata must not make huge nodes; a tenth of the smallest value limit of the
# databases (DynamoDB's 400 KB) also allows for a last element of the largest size.
NODE_RAW_BYTES_CAP: Final = 65_536

# One key in so many ends a node whatever its size, so that parallel builders may cut there.
HARD_BREAK_ONE_IN: Final = 50_000

# 64 bits of element count in an inner entry could never overflow; 20 levels never be reached.
TREE_LEVELS_MAX: Final = 20

# The measured optimum for one-put commits: 8 KB costs one more KB per commit.
EMBEDDED_BYTES_MAX: Final = 4_096

# Branches that were created together must not spill together: the limit varies by this much.
EMBEDDED_STAGGER_BYTES: Final = 2_048

# The stored form of an object is bounded by the smallest value limit of the databases, 400 KB
# in DynamoDB, less what its row needs beside it.
OBJECT_BYTES_MAX: Final = 393_216

# First-parent commits whose own keys are in one pack: a search reads one row of about 100 KB in
# place of so many commits; at the head of a branch it reads fewer commits than this one by one.
KEY_PACK_COMMITS: Final = 512

# Commits with many keys get packs of fewer commits: two thirds of what a row may have.
KEY_PACK_BYTES_MAX: Final = 262_144

# Runs whose packs wait to be built in the background: of half a million commits. One that is left
# out is noted again by the first search that needs its pack.
KEY_PACKS_DUE_MAX: Final = 1_024

# Runs whose packs one turn of a sweep builds: each takes some milliseconds of one thread.
KEY_PACKS_BUILT_MAX: Final = 32

# A partition name is an instance id, a kind and a short suffix; one byte must hold its length.
PARTITION_BYTES_MAX: Final = 255

# The key of a store's row: a content key is the longest thing that names one.
STORE_KEY_BYTES_MAX: Final = KEY_BYTES_MAX

# Memory for the caches of all repositories of a server: inner nodes 96 MB (ten million keys),
# leaves 288 MB, commits 64 MB (some tens of thousands), contents 32 MB. Either half of the leaves'
# share holds a million keys (110 MB), so that commits at random places read nothing: with a third
# of this three of four read a leaf, and cost a quarter more (ADR-0012). Filled by use only.
CACHE_BYTES_MAX: Final = 480 * 1_024 * 1_024

# Half of the 24 hours for which unreachable objects are kept; storing again refreshes at this age.
HALF_GRACE_S: Final = 12 * 3_600

# How long objects, tombstones and claims are kept after the last reference to them is gone: longer
# than any operation may take and than the clocks of servers may differ.
GRACE_S: Final = 2 * HALF_GRACE_S
