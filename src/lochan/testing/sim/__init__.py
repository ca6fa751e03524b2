"""A deterministic simulator of several servers on one store, over unmodified synchronous code.

At every store call another actor may run first, a reply can be lost, a write can take effect late
and a server can die. How to use it:

    >>> from lochan.kv.store import ABSENT, Partition, Won
    >>> from lochan.testing.sim import Faults, Scenario, explore, exhaust
    >>> PLACE = Partition(b"place")
    >>> def count_up(store):
    ...     while True:
    ...         row = store.get(PLACE, b"n")
    ...         number = 1 if row is None else int(row.value) + 1
    ...         expected = ABSENT if row is None else row.stamp
    ...         if isinstance(store.set_if(PLACE, b"n", b"%d" % number, expected), Won):
    ...             return number
    >>> def actor(server):
    ...     server.attempt("count", count_up, server.store)
    >>> def no_count_is_lost(world, history):
    ...     row = world.store.get(PLACE, b"n")
    ...     counted = int(row.value) if row else 0
    ...     acknowledged = len(history.acknowledged("count"))
    ...     uncertain = sum(event.uncertain for event in history)
    ...     assert acknowledged <= counted <= acknowledged + uncertain
    >>> counting = Scenario(
    ...     name="counting",
    ...     servers={"s1": [actor], "s2": [actor]},
    ...     checks={"no count is lost": no_count_is_lost},
    ...     faults=Faults(lost_reply=0.1, late=0.1, crash_after=0.02, most=1),
    ... )
    >>> report = explore(counting, schedules=500)
    >>> report.schedules, report.rechecked, report.late > 50
    (500, 25, True)
    >>> exhaust(counting).complete
    True

A violation raises `Violation` with a line such as `sim1 17 A*2 B!lost_reply A .`; pass that line to
`replay(counting, line)` to see it again. `crash_sweep` kills the server at every call in turn and
starts another one after it. Rules for scenarios:

* the code under test uses time, randomness, locks and the store of its server only; the scheduler
  cannot see memory that two servers share, so there must be none;
* actors of one server may share memory: `open` builds it, every actor finds it in `server.app`;
* checks run when all actors have ended, on `world.store` or on `world.new_server(...)`; what they
  call there is not interleaved and has no faults.
"""

from __future__ import annotations

from lochan.testing.faults import Fault, FaultKind, SimulatedCrash
from lochan.testing.sim.actors import Act
from lochan.testing.sim.canary import canary, find_canary
from lochan.testing.sim.choosers import (
    FirstChooser,
    PriorityChooser,
    RandomChooser,
    ReplayChooser,
)
from lochan.testing.sim.exhaustive import ExhaustiveChooser
from lochan.testing.sim.explore import Stage, exhaust, explore, replay, run
from lochan.testing.sim.history import Event, History
from lochan.testing.sim.plans import NO_FAULTS, FaultAt, Faults
from lochan.testing.sim.report import Report, Violation
from lochan.testing.sim.scenario import Check, Scenario
from lochan.testing.sim.server import Server
from lochan.testing.sim.signature import signatures
from lochan.testing.sim.sweep import SweepReport, after_crash, crash_sweep
from lochan.testing.sim.trace import Trace
from lochan.testing.sim.world import Chooser, World

__all__ = [
    "NO_FAULTS",
    "Act",
    "Check",
    "Chooser",
    "Event",
    "ExhaustiveChooser",
    "Fault",
    "FaultAt",
    "FaultKind",
    "Faults",
    "FirstChooser",
    "History",
    "PriorityChooser",
    "RandomChooser",
    "ReplayChooser",
    "Report",
    "Scenario",
    "Server",
    "SimulatedCrash",
    "Stage",
    "SweepReport",
    "Trace",
    "Violation",
    "World",
    "after_crash",
    "canary",
    "crash_sweep",
    "exhaust",
    "explore",
    "find_canary",
    "replay",
    "run",
    "signatures",
]
