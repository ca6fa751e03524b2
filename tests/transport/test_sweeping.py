"""What has served its time goes by itself on a server, in every repository."""

from __future__ import annotations

import logging

from lochan.access.policy import Call
from lochan.assembly.serve import periodic_tasks
from lochan.base.limits.maintenance import (
    DELETED_REPOSITORIES_EVERY_S,
    KEY_PACKS_EVERY_S,
    SWEEP_CLAIMS_EVERY_S,
    SWEEP_EVERY_S,
)
from lochan.kernel.repository import Ports
from lochan.kv.store import Kind, partition
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom


class World:
    """A store with two repositories, and the periodic_tasks of its server."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        ports = Ports(self.clock, SeededRandom(1), RecordedWaiting(self.clock))
        self.repositories = Repositories(self.store, ports)
        for name in ("one", "two"):
            self.make_branches(self.repositories.create(Call(), name))
        self.periodic_tasks = periodic_tasks(self.repositories)

    def make_branches(self, repository: Repository) -> None:
        for branch, after_s in (("short", 10), ("long", 10_000)):
            expires_us = self.clock.now_us() + after_s * 1_000_000
            new = NewReference(
                kind="BRANCH", name=branch, source=parse_spec("main"), expires_us=expires_us
            )
            write = repository.references.create(Call(), new)
            (settled,) = repository.publisher(write.branch).publish([write.proposal])
            write.finish(settled)

    def do_periodic_tasks(self) -> None:
        for task in self.periodic_tasks:
            while task.work() is True:
                pass

    def names(self) -> list[list[str | None]]:
        return [
            [one.name for one in self.repositories.open(name).references.list(Call()).items]
            for name in ("one", "two")
        ]


def test_expired_branches_of_every_repository_are_deleted_a_minute_later():
    world = World()
    world.clock.advance_us(60_000_000)
    world.do_periodic_tasks()
    assert world.names() == [["long", "main", "short"]] * 2
    world.clock.advance_us(20_000_000)
    world.do_periodic_tasks()
    assert world.names() == [["long", "main"]] * 2


def test_branches_claims_tokens_repositories_and_key_packs_are_swept_at_their_own_pace():
    assert [task.every_s for task in World().periodic_tasks] == [
        SWEEP_EVERY_S,
        SWEEP_CLAIMS_EVERY_S,
        SWEEP_CLAIMS_EVERY_S,
        DELETED_REPOSITORIES_EVERY_S,
        KEY_PACKS_EVERY_S,
    ]


def test_what_cannot_be_swept_is_logged_as_an_event_with_fields(caplog):
    world = World()
    instance = world.repositories.open("one").context.instance
    place = partition(instance, Kind.REFERENCES)
    world.store.put_many([(place, b"bad\nrow", b"nothing")])
    world.clock.advance_us(80_000_000)
    with caplog.at_level(logging.WARNING, "lochan.sweeps"):
        world.do_periodic_tasks()
        world.do_periodic_tasks()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "sweep skipped sweep=references repository=one what=reference row='bad\\nrow' error=corrupt"
    )
    assert world.names() == [["long", "main"]] * 2
