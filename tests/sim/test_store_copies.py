"""A store that is copied while it is written: the copy is the source of one moment, or none.

The copier reads the shared store page by page, and writers commit, create, delete and assign
between any two of its reads. It may be killed, and then it continues. What it has finished must be
equal to all rows of the source as they were at one moment, with every object that they refer to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from lochan.base.ids import ROOT_INSTANCE
from lochan.kernel.check_store import CheckOptions, check_store
from lochan.kernel.publish import Publisher
from lochan.kernel.repository import Ports
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION, check_format, find_copy_mark
from lochan.kv.store import Kind, Page, Partition
from lochan.kv.walk import WalkPage
from lochan.stores.memory.store import MemoryStore
from lochan.testing.sim import Faults, History, Scenario, Server, World, explore
from lochan.transfer.retried import Retried
from lochan.transfer.sources import StoreSource
from lochan.transfer.store_copy import StoreCopy, list_instances
from tests.profile import counted
from tests.sim.kernel_scenarios import (
    MAIN,
    NAMES,
    SIDE,
    App,
    Write,
    assigns,
    creates,
    deletes,
    publish,
    set_up,
)
from tests.sim.mutants import find_violation

SCHEDULES = counted(250, 2_500)
SOURCE = b"s" * 16
PAGE = 3
PAUSES = 6
ENDED: Counter[int] = Counter()
"""Runs by the rounds that they took; 0 for those that were refused."""

_TARGETS: WeakKeyDictionary[World, MemoryStore] = WeakKeyDictionary()


class SimSource:
    """The shared store, read as one server reads it: other actors may run before each page."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        return self._server.store.scan(partition, start, end, min(limit, PAGE))

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        walk = self._server.store.walk
        assert walk is not None
        return walk(prefix, cursor, min(limit, PAGE))


def target_of(world: World) -> MemoryStore:
    return _TARGETS.setdefault(world, MemoryStore())


def copies(server: Server) -> None:
    def copy() -> Any:
        ports = Ports(server.clock, server.random, server.waiting)
        target = target_of(server.world)
        return StoreCopy(SimSource(server), target, ports, SOURCE, retried=Retried(ports)).run()

    if is_finished(target_of(server.world)):
        return
    for _ in range(2):
        report = server.attempt("copy", copy)
        ENDED[0 if report is None else report.rounds] += 1
        if report is not None:
            return


def writes_slowly(name: str, count: int) -> Callable[[Server], None]:
    """Commits, with pauses in which the copier reads."""

    def act(server: Server) -> None:
        publisher = Publisher(server.app.context, MAIN)
        for number in range(count):
            for _ in range(PAUSES):
                server.pause("think")
            operation = f"{name}{number}"
            server.attempt("commit", publish, publisher, [Write(operation, [operation])])

    return act


def names_come_and_go(server: Server) -> None:
    for act in (creates(NAMES[2]), deletes(NAMES[2]), assigns(SIDE), creates(NAMES[3])):
        for _ in range(PAUSES):
            server.pause("think")
        act(server)


def is_finished(target: MemoryStore) -> bool:
    found = target.get(FORMAT_PARTITION, FORMAT_KEY)
    return found is not None and find_copy_mark(found) is None


def prepare(server: Server) -> Any:
    check_format(server.store)
    return set_up(server)


def rows_now(store: MemoryStore) -> frozenset[tuple[bytes, bytes, bytes]]:
    """All rows that are not bulk, of the root and of the instances that are listed."""
    wanted = {ROOT_INSTANCE, *list_instances(StoreSource(store))}
    return frozenset(
        (place, entry.key, entry.value)
        for place, table in store._tables.items()
        if place[:16] in wanted and place[16] not in (Kind.OBJECTS, Kind.KEY_PACKS)
        for entry in table.rows.values()
    )


def watch(world: World) -> None:
    """Notes the rows after every step in which they changed."""
    assert isinstance(world.store, MemoryStore)
    writes = world.store._writes
    if not world.watched or world.watched[-1][0] != writes:
        world.watched.append((writes, rows_now(world.store)))


def copy_is_of_one_moment(world: World, _: History) -> None:
    target = target_of(world)
    if is_finished(target):
        assert rows_now(target) in {rows for _, rows in world.watched}, "rows of no one moment"


def copy_is_whole(world: World, _: History) -> None:
    target = target_of(world)
    if is_finished(target):
        server = world.new_server("checker")
        ports = Ports(server.clock, server.random, server.waiting)
        report = check_store(target, ports, CheckOptions(history=True))
        assert not report.damaged, report.findings


def last_copy_finishes(world: World, _: History) -> None:
    """When all is quiet, a run finishes what the others have begun."""
    server = world.new_server("last")
    copies(server)
    assert is_finished(target_of(world))
    copy_is_of_one_moment(world, _)
    copy_is_whole(world, _)


CHECKS = {
    "one moment": copy_is_of_one_moment,
    "whole": copy_is_whole,
    "finishes": last_copy_finishes,
}

SCENARIOS = [
    Scenario(
        "copy beside commits",
        {"W": [writes_slowly("w", 5)], "C": [copies]},
        CHECKS,
        setup=prepare,
        open=App,
        watch=watch,
    ),
    Scenario(
        "copy beside names that come and go",
        {
            "W": [names_come_and_go],
            "C": [copies],
        },
        CHECKS,
        setup=prepare,
        open=App,
        watch=watch,
    ),
    Scenario(
        "copy that is killed beside commits",
        {"W": [writes_slowly("w", 5)], "C": [copies]},
        CHECKS,
        setup=prepare,
        open=App,
        watch=watch,
        restart=lambda _: [copies],
        faults=Faults(crash_before=0.02, crash_after=0.02, most=2),
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_copy_of_a_store_that_is_written_is_of_one_moment(scenario, record_property):
    ENDED.clear()
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    rounds = dict(sorted(ENDED.items()))
    record_property("counted", f"{scenario.name}: runs by rounds, 0 if refused: {rounds}")
    assert report.schedules == SCHEDULES
    assert sum(count for ended, count in ENDED.items() if ended != 1) > SCHEDULES // 4


def no_second_look(patch: pytest.MonkeyPatch) -> None:
    """Ends after the first pass over rows and objects."""
    original = StoreCopy._copy_rows

    def once(self):
        return self._rounds > 0 or original(self)

    patch.setattr(StoreCopy, "_copy_rows", once)


def objects_first(patch: pytest.MonkeyPatch) -> None:
    """Copies objects before the rows that refer to them, and rows only once."""
    original = StoreCopy._copy_rows

    def once(self):
        if self._rounds == 0:
            self._instances = list_instances(self._source)
            return False
        original(self)
        return True

    patch.setattr(StoreCopy, "_copy_rows", once)


def position_is_kept(patch: pytest.MonkeyPatch) -> None:
    """Continues behind objects that were copied before the rows that have changed since."""

    def change(self):
        self._rows += 1

    patch.setattr(StoreCopy, "_change", change)


def objects_once(patch: pytest.MonkeyPatch) -> None:
    """Takes the objects of the first round for those of all rounds."""

    def change(self):
        self._rows += 1
        if self._rounds == 0 and not self._is_set_back:
            self._is_set_back = True

    patch.setattr(StoreCopy, "_change", change)


COMMITS, COMING_NAMES, KILLS = SCENARIOS
MUTANTS = {
    no_second_look: COMING_NAMES,
    objects_first: COMMITS,
    position_is_kept: COMMITS,
    objects_once: COMMITS,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_fault_in_the_copy_is_found(mutant, monkeypatch):
    mutant(monkeypatch)
    assert find_violation([MUTANTS[mutant]], 2_000).invariant in CHECKS
