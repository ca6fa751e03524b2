"""Turns on one partition for this process, and partitions on which a write is in doubt.

Paxos is for each partition of the database, and two proposals at a time stop each other and sleep:
four writers beside each other write no more than one, sixteen a third less, and time out. So the
conditional writes of one process to a partition take turns; between processes Paxos itself decides.

A write that timed out may have been accepted without being committed. Reads at a quorum do not see
it until a later round of Paxos on the partition completes it. So this process reads a partition
serially, which is such a round, after its own write to it has timed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from lochan.base.errors import Exhausted, Unknown
from lochan.kv.store import Partition

# Locks for all partitions; two that share one wait for each other without need.
_LOCKS: Final = 256

# Time for several requests of each earlier caller; after that an error is better than waiting.
TURN_WAIT_S: Final = 5.0


class Partitions:
    """What one process knows about the partitions that it writes."""

    def __init__(self) -> None:
        self._locks = [Lock() for _ in range(_LOCKS)]
        self._doubtful: set[Partition] = set()

    @contextmanager
    def turn(self, partition: Partition) -> Iterator[None]:
        """Waits for its turn; the body executes rounds of Paxos on the partition."""
        lock = self._locks[hash(partition) % _LOCKS]
        if not lock.acquire(timeout=TURN_WAIT_S):
            raise Exhausted("too many writes wait for one partition of Cassandra")
        try:
            yield
            self._doubtful.discard(partition)
        except Unknown:
            self._doubtful.add(partition)
            raise
        finally:
            lock.release()

    def is_doubtful(self, partition: Partition) -> bool:
        """Returns whether the last write of this process to the partition may be unfinished."""
        return partition in self._doubtful

    def settle(self, partition: Partition) -> None:
        """Notes that a serial read has completed whatever was accepted."""
        self._doubtful.discard(partition)
