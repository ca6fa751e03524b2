"""Repositories on the memory store with time and chance in hand, and a lane that is one thread.

Shared by the tests of the service; holds no test of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lochan.access.policy import Call
from lochan.base.errors import LochanError
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.commits import CommitMeta, Committed, Operation, Put
from lochan.model.contents import Content, IcebergTable, Namespace
from lochan.model.specs import parse_spec
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import optional_spec

_Answer = TypeVar("_Answer")

CALL = Call("alice")


class Service:
    """One server's view of one repository."""

    def __init__(self, store: Store | None = None, *, seed: int = 1) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.clock = ManualClock()
        self.waiting = RecordedWaiting(self.clock)
        self.ports = Ports(self.clock, SeededRandom(seed), self.waiting)
        self.repositories = Repositories(self.store, self.ports)
        self.repository = self.repositories.open_or_create(CALL, "repo")

    def again(self, store: Store | None = None, *, seed: int = 2) -> Service:
        """Another server on the same store, or on a wrapper of it."""
        return Service(self.store if store is None else store, seed=seed)

    def run(self, lane: PendingWrite[_Answer]) -> _Answer:
        """Publishes one proposal and returns its answer."""
        (settled,) = self.repository.publisher(lane.branch).publish([lane.proposal])
        return lane.finish(settled)

    def run_all(self, *lanes: PendingWrite[_Answer]) -> list[_Answer | LochanError]:
        """Publishes proposals as one chain; what was refused is told by its error."""
        settled = self.repository.publisher(lanes[0].branch).publish(
            [one.proposal for one in lanes]
        )
        answers: list[_Answer | LochanError] = []
        for lane, one in zip(lanes, settled, strict=True):
            try:
                answers.append(lane.finish(one))
            except LochanError as error:
                answers.append(error)
        return answers

    def commit(
        self,
        *operations: Operation,
        expected: str | None = None,
        branch: str = "main",
        message: str = "m",
    ) -> Committed:
        """Commits operations, on whatever the head is unless said otherwise."""
        meta = CommitMeta(message=message)
        commits = self.repository.commits
        return self.run(commits.commit(CALL, branch, optional_spec(expected), meta, operations))

    def put(self, *elements: str, **fields) -> Committed:
        """Puts a new table."""
        return self.commit(Put(key=elements, content=table(**fields)))

    def space(self, *elements: str) -> Committed:
        """Makes a namespace."""
        return self.commit(Put(key=elements, content=Namespace(elements=elements)))

    def content(self, key: Sequence[str], spec: str = "main") -> Content:
        """What a key holds."""
        return self.repository.contents.get(CALL, parse_spec(spec), tuple(key))[0]


def table(location: str = "s3://t", snapshot: int = 1, content_id: str | None = None):
    """A table with an id or without."""
    return IcebergTable(
        id=content_id,
        metadata_location=location,
        snapshot_id=snapshot,
        schema_id=1,
        spec_id=1,
        sort_order_id=1,
    )
