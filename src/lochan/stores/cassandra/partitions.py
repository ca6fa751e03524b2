"""Turns on one partition for this process, and partitions on which a write is in doubt.

Paxos is for each partition of the database, and two proposals at a time stop each other and sleep:
four writers beside each other write no more than one, sixteen a third less, and time out. So the
conditional writes of one process to a partition take turns, and those that wait for a turn together
are sent together; between processes Paxos itself decides.

A write that timed out may have been accepted without being committed. Reads at a quorum do not see
it until a later round of Paxos on the partition completes it. So this process reads a partition
serially, which is such a round, after its own write to it has timed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock
from typing import Final

from lochan.base.errors import Exhausted, LochanError, Unknown
from lochan.kv.store import Outcome, Partition, SetIf

# Locks for all partitions; two that share one wait for each other without need.
_LOCKS: Final = 256

# Time for several requests of each earlier caller; after that an error is better than waiting.
TURN_WAIT_S: Final = 5.0


# Rows and bytes that one conditional batch writes; the database allows half a segment of its log.
BATCH_ROWS: Final = 32
BATCH_BYTES: Final = 1_048_576

Outcomes = dict[bytes, Outcome]
"""Outcomes by the keys of one partition."""


class _WaitingWrites:
    """Changes of different rows of one partition that wait for their turn."""

    def __init__(self) -> None:
        self.changes: dict[bytes, SetIf] = {}
        self._bytes = 0
        self.outcomes: Future[Outcomes] = Future()

    def take(self, changes: Sequence[SetIf]) -> bool:
        """Adds changes if they fit into one batch with those that wait."""
        size = sum(len(one.key) + len(one.value) for one in changes)
        rows = len(self.changes) + len(changes)
        if self.changes and (rows > BATCH_ROWS or self._bytes + size > BATCH_BYTES):
            return False
        if any(one.key in self.changes for one in changes):
            return False
        self.changes |= {one.key: one for one in changes}
        self._bytes += size
        return True


class Partitions:
    """What one process knows about the partitions that it writes."""

    def __init__(self) -> None:
        self._locks = [Lock() for _ in range(_LOCKS)]
        self._doubtful: set[Partition] = set()
        self._lock = Lock()
        self._waiting: dict[Partition, _WaitingWrites] = {}

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

    def write(
        self, changes: Sequence[SetIf], send: Callable[[Sequence[SetIf]], Outcomes]
    ) -> Outcomes:
        """Sends changes of one partition, with those of other callers that wait for the same turn.

        What `send` raises is true of all changes that it got: the first caller that waits calls it.
        """
        partition = changes[0].partition
        with self._lock:
            writes = self._waiting.get(partition)
            if joined := writes is not None and writes.take(changes):
                mine = writes
            else:
                mine = self._waiting[partition] = _WaitingWrites()
                mine.take(changes)
        if not joined:
            self._send(partition, mine, send)
        try:
            outcomes = mine.outcomes.result()
        except LochanError as error:
            # Each caller has a traceback of its own.
            raise type(error)(error.message) from None
        return {one.key: outcomes[one.key] for one in changes}

    def _send(
        self,
        partition: Partition,
        writes: _WaitingWrites,
        send: Callable[[Sequence[SetIf]], Outcomes],
    ) -> None:
        try:
            with self.turn(partition):
                self._close(partition, writes)
                writes.outcomes.set_result(send(list(writes.changes.values())))
        except LochanError as error:
            self._close(partition, writes)
            writes.outcomes.set_exception(error)
        finally:
            if not writes.outcomes.done():
                self._close(partition, writes)
                writes.outcomes.set_exception(Unknown("the caller that wrote for others has ended"))

    def _close(self, partition: Partition, writes: _WaitingWrites) -> None:
        """Begins: later callers wait for another turn."""
        with self._lock:
            if self._waiting.get(partition) is writes:
                del self._waiting[partition]

    def is_doubtful(self, partition: Partition) -> bool:
        """Returns whether the last write of this process to the partition may be unfinished."""
        return partition in self._doubtful

    def settle(self, partition: Partition) -> None:
        """Notes that a serial read has completed whatever was accepted."""
        self._doubtful.discard(partition)
