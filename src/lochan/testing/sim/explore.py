"""Runs a scenario under many schedules and checks its invariants after every run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from lochan.kv.store import Store
from lochan.stores.memory.store import MemoryStore, _Table
from lochan.testing.sim.choosers import Diverged, RandomChooser, ReplayChooser
from lochan.testing.sim.exhaustive import ExhaustiveChooser, Pruned
from lochan.testing.sim.report import Report, Violation, ViolationGuard
from lochan.testing.sim.scenario import Scenario
from lochan.testing.sim.server import Server
from lochan.testing.sim.world import SETUP_US, Broken, Chooser, World

# As in FoundationDB: enough to notice hidden randomness within a few hundred schedules.
RECHECK_EVERY: Final = 20


class Stage:
    """A scenario whose set-up was run; creates worlds that begin there."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._template: MemoryStore | None = None
        self._prepared: Any = None

    def new_world(self, seed: int) -> World:
        """Returns a world in which nothing has happened yet."""
        if self._template is None:
            store, prepared = self._set_up()
            if not isinstance(store, MemoryStore):
                return World(self.scenario, seed, store, prepared)
            self._template, self._prepared = store, prepared
        return World(self.scenario, seed, copy_of(self._template), self._prepared)

    def twin(self, scenario: Scenario) -> Stage:
        """Returns the stage of a scenario that differs only in what happens after the set-up."""
        other = Stage(scenario)
        other._template, other._prepared = self._template, self._prepared
        return other

    def _set_up(self) -> tuple[Store, Any]:
        store = self.scenario.store()
        if self.scenario.setup is None:
            return store, None
        world = World(self.scenario, 0, store)
        with ViolationGuard(world, "set-up"):
            return store, self.scenario.setup(Server(world, "setup", SETUP_US))
        raise AssertionError("unreachable")


def copy_of(store: MemoryStore) -> MemoryStore:
    """Returns a store with the same rows and stamps; rows are values, so they are shared."""
    twin = MemoryStore()
    twin._writes = store._writes
    for partition, table in store._tables.items():
        copied = twin._tables[partition] = _Table()
        copied.rows = dict(table.rows)
        copied.keys = list(table.keys)
    return twin


def run(stage: Stage, chooser: Chooser) -> World:
    """Runs one schedule and checks it; returns the world, ended."""
    world = stage.new_world(chooser.seed)
    try:
        _run_and_check(world, chooser)
    finally:
        world.end()
    return world


def _run_and_check(world: World, chooser: Chooser) -> None:
    with ViolationGuard(world, "an actor failed"):
        world.run(chooser)
    for name, check in world.scenario.checks.items():
        with ViolationGuard(world, name):
            check(world, world.history)


def explore(
    scenario: Scenario,
    schedules: int,
    *,
    chooser: Callable[[int], Chooser] = RandomChooser,
    first_seed: int = 0,
    recheck_every: int = RECHECK_EVERY,
) -> Report:
    """Runs the scenario once for each seed; raises Violation at the first run that is wrong."""
    stage = Stage(scenario)
    report = Report(scenario.name)
    started = perf_counter()
    for seed in range(first_seed, first_seed + schedules):
        world = run(stage, chooser(seed))
        report.count(world)
        if recheck_every and seed % recheck_every == 0:
            _recheck(stage, chooser(seed), world)
            report.rechecked += 1
    report.seconds = perf_counter() - started
    return report


def exhaust(
    scenario: Scenario,
    *,
    reduce: bool = True,
    real_time: bool = True,
    schedules_max: int = 1_000_000,
    recheck_every: int = RECHECK_EVERY,
    on_violation: Callable[[Violation], None] | None = None,
) -> Report:
    """Runs every schedule of the scenario, or one of each class of equal ones.

    `complete` in the report is True if all schedules were run. With `on_violation` the enumeration
    continues after a violation, to count them.
    """
    stage = Stage(scenario)
    report = Report(scenario.name)
    chooser = ExhaustiveChooser(reduce=reduce, real_time=real_time)
    started = perf_counter()
    more = True
    while more and report.schedules < schedules_max:
        world = stage.new_world(chooser.seed)
        try:
            _run_and_check(world, chooser)
        except Pruned:
            report.pruned += 1
        except Violation as violation:
            if on_violation is None:
                raise
            report.count(world)
            on_violation(violation)
        else:
            report.count(world)
            if recheck_every and report.schedules % recheck_every == 1:
                _recheck(stage, ReplayChooser(world.trace.text()), world)
                report.rechecked += 1
        finally:
            world.end()
        more = chooser.more(world)
    report.complete = not more
    report.seconds = perf_counter() - started
    return report


def replay(scenario: Scenario, text: str, *, strict: bool = True) -> World:
    """Runs a printed trace again: raises the same Violation, or returns the world.

    A strict repetition raises a Violation of `repetition of a trace` if the code has changed since.
    """
    chooser = ReplayChooser(text, strict=strict)
    world = run(Stage(scenario), chooser)
    if strict and chooser.digest not in ("", world.trace.digest()):
        with ViolationGuard(world, ""):
            raise Diverged("the same choices made other calls")
    return world


def _recheck(stage: Stage, chooser: Chooser, before: World) -> None:
    """Runs a schedule again; a difference shows that the run depends on something outside of it."""
    try:
        after = run(stage, chooser)
        difference = after.trace.difference(before.trace)
        if after.history.text() != before.history.text():
            difference += f"\n{after.history.text()}\nagainst\n{before.history.text()}"
    except Violation as violation:
        difference = str(violation)
    if difference:
        with ViolationGuard(before, "determinism"):
            raise Broken("determinism", f"the same schedule twice is not the same: {difference}")
