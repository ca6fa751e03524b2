"""A planted bug that the explorer must find; an explorer that does not find it proves nothing.

Two servers increment a counter. With the bug they read, add one and write unconditionally; without
it they write only if the counter has not changed since they read it.
"""

from __future__ import annotations

from lochan.kv.store import ABSENT, Partition, Won
from lochan.testing.sim.explore import explore
from lochan.testing.sim.history import History
from lochan.testing.sim.report import Violation
from lochan.testing.sim.scenario import Scenario
from lochan.testing.sim.server import Server
from lochan.testing.sim.world import World

PLACE = Partition(b"canary")
SCHEDULES_MAX = 200
"""Within so many schedules the bug must be found; it is there in every second one."""


def canary(*, planted: bool) -> Scenario:
    """Returns the scenario, with the bug or without."""

    def count_up(server: Server) -> None:
        server.do("count", lambda: _count_up(server, planted=planted))

    return Scenario(
        name="canary",
        servers={"s1": [count_up], "s2": [count_up]},
        checks={"no count is lost": _check},
    )


def find_canary() -> Violation:
    """Returns the violation; raises AssertionError if it is not found, or found where none is."""
    explore(canary(planted=False), SCHEDULES_MAX)
    try:
        explore(canary(planted=True), SCHEDULES_MAX)
    except Violation as violation:
        return violation
    raise AssertionError("the explorer did not find the planted bug")


def _count_up(server: Server, *, planted: bool) -> int:
    store = server.store
    while True:
        entry = store.get(PLACE, b"count")
        number = 1 if entry is None else int(entry.value) + 1
        if planted:
            store.put_many([(PLACE, b"count", b"%d" % number)])
            return number
        expected = ABSENT if entry is None else entry.stamp
        if isinstance(store.set_if(PLACE, b"count", b"%d" % number, expected), Won):
            return number


def _check(world: World, history: History) -> None:
    entry = world.store.get(PLACE, b"count")
    counted = 0 if entry is None else int(entry.value)
    acknowledged = len(history.acknowledged("count"))
    assert counted == acknowledged, f"{acknowledged} acknowledged, the counter is {counted}"
