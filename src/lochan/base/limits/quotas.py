"""What one caller, and one repository, may have under way on a server."""

from __future__ import annotations

from typing import Final

from lochan.base.limits.commits import LANE_QUEUE_MAX
from lochan.base.limits.http import HTTP_BODIES_BYTES_MAX, STREAMS_MAX
from lochan.base.limits.server import POOL_QUEUE_MAX

# Requests of one caller that are served at once: as many as the connections of a large job; more
# wait for their turn.
PRINCIPAL_REQUESTS_MAX: Final = 64

# The same while several callers are active, where the event loop does the work: a request of
# another caller waits for what these have left to do.
SHARED_REQUESTS_MAX: Final = 8

# The most that an operator may choose for it: half of what waits for a thread or for a branch, so
# that one caller never fills either.
PRINCIPAL_REQUESTS_CEILING: Final = min(POOL_QUEUE_MAX, LANE_QUEUE_MAX) // 2

# Requests of one caller that wait for the others of the same caller; then they are refused.
PRINCIPAL_WAITING_MAX: Final = 1_000

# Streams of one caller: a quarter of all, so that one caller never has all of them.
PRINCIPAL_STREAMS_MAX: Final = STREAMS_MAX // 4

# Bodies of one caller: a quarter of the memory for all that are being read, and as much for those
# of requests that wait.
PRINCIPAL_BODIES_BYTES_MAX: Final = HTTP_BODIES_BYTES_MAX // 4

# Requests of one repository that are served at once, of all callers together: four times those of
# one caller.
REPOSITORY_REQUESTS_MAX: Final = 256

# How often callers are looked for that were idle since the last time, and forgotten: after that a
# single caller has the server for itself. Not less than the allowance of a rate takes to grow.
QUOTA_IDLE_S: Final = 1.0

# How long requests of one caller may keep the event loop before that of another has its turn.
TURN_S: Final = 0.0005

# Requests of one caller that are served as they come although other callers are active: together
# they keep the loop about as long as one turn. With turns for all, 64 callers with one request each
# cost a fifth more for each commit, because fewer of them are published at once.
TURN_FREE_REQUESTS_MAX: Final = 4

# The body of a request that needs no credentials: names and a password, never a bulk of data.
OPEN_BODY_BYTES_MAX: Final = 65_536
