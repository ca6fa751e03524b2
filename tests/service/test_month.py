"""A month of requests with keys, by the test's clock: what is kept for them does not grow."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType
from typing import Any

from lochan.access.policy import Call
from lochan.assembly.serve import periodic_tasks
from lochan.base.limits.maintenance import EMBEDDED_SWEEP_WRITES
from lochan.embedded import Embedded
from lochan.kernel import recent
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.kv.store import Kind, Store, partition
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.requests import MergeRequest, NewReference
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from lochan.persist.cache import Caches
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.profile import counted
from tests.service.bench import table

DAYS = 30
HOUR_US = 3_600 * 1_000_000
STEPS = counted(8, 24)
"""Of a day, after each of which a server sweeps."""
STEP_US = 24 * HOUR_US // STEPS
COMMITS = counted(2, 40)
PER_STEP = COMMITS + 3
SMALL = Tuning(Caches(60_000))


class Month:
    """One repository on a server, whose clients send every write with a key."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        ports = Ports(self.clock, SeededRandom(1), RecordedWaiting(self.clock))
        self.repositories = Repositories(self.store, ports, tuning=SMALL)
        self.repository = self.repositories.create(Call(), "default")
        self.publishers: dict[str, Any] = {}
        self.keys = 0

    def call(self) -> Call:
        self.keys += 1
        return Call("client", f"key {self.keys}", b"request")

    def run(self, asked: PendingWrite[Any]) -> Any:
        if asked.branch not in self.publishers:
            self.publishers[asked.branch] = self.repository.publisher(asked.branch)
        (settled,) = self.publishers[asked.branch].publish([asked.proposal])
        return asked.finish(settled)

    def write(self, run: Any) -> None:
        """Some commits; a merge with nothing to do; a branch that comes and goes."""
        repository = self.repository
        for _ in range(COMMITS):
            self.clock.advance_us(STEP_US // (COMMITS + 1))
            run(commit(repository, self.call(), self.keys % 2 == 0))
        new = NewReference(kind="BRANCH", name=f"b{self.keys}", source=parse_spec("main"))
        run(repository.references.create(self.call(), new))
        ask = MergeRequest(branch="main", expected=None, source=parse_spec(new.name))
        merged: Merged = run(repository.merges.merge(self.call(), ask))
        assert not merged.applied
        repository.references.delete(self.call(), new.name, None)
        self.clock.advance_us(STEP_US // (COMMITS + 1))

    def rows(self, kind: Kind) -> int:
        return count_rows(self.store, partition(self.repository.context.instance, kind))


def commit(repository: Repository, call: Call, there: bool) -> PendingWrite[Any]:
    key = ("t",)
    head = repository.references.get(Call(), "main").hash
    found, _ = repository.contents.get_many(Call(), parse_spec("main"), [key])
    does = [Delete(key=key)] if found else [Put(key=key, content=table("t"))]
    return repository.commits.commit(
        call, "main", parse_spec(head), CommitMeta(message=f"{there}"), does
    )


def count_rows(store: Store, place: Any) -> int:
    count = 0
    start: bytes | None = b""
    while start is not None:
        page = store.scan(place, start, None, 1_000)
        count += len(page.entries)
        start = page.next_start
    return count


def count_objects(*roots: Any) -> int:
    """How many objects are reachable from some, but for code and for the store itself."""
    seen: set[int] = set()
    left = list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | MemoryStore):
            continue
        seen.add(id(one))
        left += gc.get_referents(one)
    return len(seen)


def test_rows_and_memory_of_a_server_reach_a_plateau(record_property, monkeypatch):
    # What is bounded anyway reaches its bound within the first days.
    monkeypatch.setattr(recent, "RECENT_COMMITS_MAX", 16)
    monkeypatch.setattr(recent, "RECENT_KEYS_MAX", 16)
    month = Month()
    work = periodic_tasks(month.repositories)
    claims: list[int] = []
    references: list[int] = []
    objects: list[int] = []
    for _ in range(DAYS):
        most = 0
        for _ in range(STEPS):
            month.write(month.run)
            most = max(most, month.rows(Kind.CLAIMS))
            for task in work:
                while task.work() is True:
                    pass
        # A publisher is kept while its branch is busy; as lanes do, others are forgotten.
        month.publishers.clear()
        claims.append(most)
        references.append(month.rows(Kind.REFERENCES))
        objects.append(count_objects(month.repositories, *(task.work for task in work)))
    record_property(
        "counted", f"claims by day {claims}, references {references}, objects {objects}"
    )
    assert max(claims) <= (STEPS + 2) * PER_STEP
    assert min(claims[2:]) >= (STEPS - 1) * PER_STEP
    # The default branch, the index, and the tombstones of a day and a step.
    assert max(references) <= 2 + STEPS + 2
    assert max(objects[20:]) <= 1.1 * max(objects[:20])


def test_rows_of_an_embedded_repository_reach_a_plateau(record_property):
    month = Month()
    runner = Embedded(month.store, month.repository, "me")._lane_runner
    claims: list[int] = []
    references: list[int] = []
    for _ in range(DAYS):
        for _ in range(STEPS):
            month.write(lambda write: runner.durably(lambda: runner.publish(write)))
        claims.append(month.rows(Kind.CLAIMS))
        references.append(month.rows(Kind.REFERENCES))
    record_property("counted", f"claims by day {claims}, references {references}")
    # Deletions do not go through a lane here, so each step counts one write less than claims.
    between = EMBEDDED_SWEEP_WRITES * PER_STEP // (PER_STEP - 1)
    assert max(claims) <= (STEPS + 1) * PER_STEP + 2 * between
    assert max(references) <= 2 + STEPS + 1 + 2 * EMBEDDED_SWEEP_WRITES // (PER_STEP - 1)
    assert max(claims[20:]) <= 1.1 * max(claims[:20])


def test_an_embedded_repository_sweeps_everything_when_asked(record_property):
    month = Month()
    embedded = Embedded(month.store, month.repository, "me")
    month.write(month.run)
    month.clock.advance_us(25 * HOUR_US)
    swept = embedded.sweep()
    assert swept.removed == COMMITS + 3 + 1
    assert month.rows(Kind.CLAIMS) == 0
