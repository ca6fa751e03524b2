"""Branches whose time is over go by themselves, in every repository."""

from __future__ import annotations

from lochan.assembly.serving import sweep
from lochan.kernel.repository import Ports
from lochan.service.calls import ANYONE
from lochan.service.references import NewReference
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededChance


def test_expired_branches_of_every_repository_are_deleted_a_minute_later():
    clock = ManualClock()
    store = MemoryStore()
    ports = Ports(clock, SeededChance(1), RecordedWaiting(clock))
    repositories = Repositories(store, ports)
    for name in ("one", "two"):
        repository = repositories.create(ANYONE, name)
        for branch, after_s in (("short", 10), ("long", 10_000)):
            new = NewReference(
                kind="BRANCH",
                name=branch,
                source="main",
                expires_us=clock.now_us() + after_s * 1_000_000,
            )
            asked = repository.references.create(ANYONE, new)
            (settled,) = repository.publisher(asked.branch).publish([asked.member])
            asked.finish(settled)

    def names() -> list[list[str | None]]:
        return [
            [one.name for one in repositories.open(name).references.list().items]
            for name in ("one", "two")
        ]

    clock.advance_us(60_000_000)
    sweep(repositories)
    assert names() == [["long", "main", "short"]] * 2
    clock.advance_us(20_000_000)
    sweep(repositories)
    assert names() == [["long", "main"]] * 2
