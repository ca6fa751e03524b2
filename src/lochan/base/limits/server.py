"""The process that serves: threads, lanes, batches, files."""

from __future__ import annotations

from typing import Final

# Connections that the operating system queues when many clients connect at once.
LISTEN_BACKLOG: Final = 1_024

# Every connection has a file descriptor, and the embedded store has some thousands of files.
FILES_MAX: Final = 65_536

# Decoding a larger body blocks the event loop for a millisecond and more: never on the loop.
BRIEF_BODY_BYTES_MAX: Final = 131_072

# A proposal with more operations is planned and built in a thread, not on the event loop.
BRIEF_OPERATIONS_MAX: Final = 100

# Calls that wait for a thread; further callers are refused and retry later.
POOL_QUEUE_MAX: Final = 1_000

# Lanes with their remembered rows, a few kilobytes each; idle ones beyond this are forgotten.
LANES_MAX: Final = 4_096

# How long a stopping server waits for requests that are under way.
DRAIN_TIMEOUT_S: Final = 20.0

# The loop gets the interpreter lock back from a busy thread this soon, each time it has work. A
# thread that waits for a busy loop starts its wait again whenever the loop releases the lock for a
# moment; if this were longer than the time between those moments, a thread would hardly ever run.
SWITCH_INTERVAL_S: Final = 0.000_05

# The share of the interpreter that threads with long work get beside a busy loop: with a third,
# long work takes three times as long as alone, and a little more makes up for the switching.
LONG_SHARE: Final = 0.36

# How often the loop looks whether they have had it; more often would be more switching.
SHARE_EVERY_S: Final = 0.004

# The longest time for which the loop sleeps then: small requests wait that long. A chain of 64
# commits keeps the loop for about as long.
SHARE_SLICE_MAX_S: Final = 0.012

# The switch interval while long work is under way: a thread gets the lock by the sleep of the loop,
# and a loop that wakes up gets it back after this time.
SHARE_SWITCH_INTERVAL_S: Final = 0.001

# New objects between two rounds of Python's garbage collector, and rounds between those of older
# generations. A round stops all threads for as long as it looks at objects: 5 ms for 40,000 on an
# idle machine, five times as long on a busy one. There is hardly anything to find, since nearly all
# objects are freed without it; rounds of older generations look at all that the caches hold, so
# they are made rare.
GC_THRESHOLDS: Final = (2_000, 500, 10)

# One write of several branches waits for the database while the next is being planned.
WRITES_TOGETHER_MAX: Final = 2

# Reads that one thread serves together: their rows are one statement, their answers a few
# milliseconds of work.
READS_TOGETHER_MAX: Final = 32

# While one thread waits for the database, another one may compute.
READS_UNDER_WAY_MAX: Final = 3

# Repositories that a server keeps open: 15 KB each, 16 MB in all; their caches share one budget.
REPOSITORIES_OPEN_MAX: Final = 1_024

# Lines of the audit log that wait to be written, some megabytes; when there are more, requests wait
# for the disk: the log has every line.
AUDIT_QUEUE_MAX: Final = 10_000

# The pause before a line that could not be written is tried again.
AUDIT_RETRY_S: Final = 1.0

# Imports that one server runs at once: each has a thread and its entries in memory.
BACKGROUND_WORK_MAX: Final = 4

# How often work in the background shows that it is alive: six times before it counts as stopped
# (IMPORT_STALE_US), so that a slow store does not look like a dead server.
BACKGROUND_RENEWED_S: Final = 5.0
