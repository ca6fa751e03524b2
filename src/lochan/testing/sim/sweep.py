"""Crashes a scenario at every store call, then runs a follow-up on another server.

The scenario is run once to count its calls. Then, for each call, the server dies before it, after
it, and in the middle of it where it is a batch that may be torn; a new server is started on what is
left; it does one of the follow-ups; the invariants are checked. Only cases in which the crash was
really reached are counted. With `late` a write is also still pending when its server dies, and
takes effect when the follow-up has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from lochan.testing.faults import Fault, FaultKind, PlannedCall
from lochan.testing.sim.actors import Act
from lochan.testing.sim.choosers import FirstChooser, RandomChooser
from lochan.testing.sim.explore import Stage, run
from lochan.testing.sim.plans import NO_FAULTS, FaultAt, torn_counts
from lochan.testing.sim.scenario import Scenario
from lochan.testing.sim.server import Server
from lochan.testing.sim.world import Chooser

BEFORE: Final = Fault(FaultKind.CRASH_BEFORE)
AFTER: Final = Fault(FaultKind.CRASH_AFTER)


@dataclass
class SweepReport:
    """Counts of crashes by fault and follow-up."""

    scenario: str
    calls: int = 0
    cases: int = 0
    reached: int = 0
    by_fault: Counter[str] = field(default_factory=Counter)
    by_follow_up: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """One line for people."""
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.by_fault.items()))
        return (
            f"{self.scenario}: {self.calls} calls, {self.reached} of {self.cases} crashes reached"
            f" ({faults}), follow-ups {len(self.by_follow_up)}"
        )


def crash_sweep(
    scenario: Scenario,
    follow_ups: Mapping[str, Act],
    *,
    seeds: Iterable[int] = (),
    late: bool = False,
    one_in: int = 1,
) -> SweepReport:
    """Crashes at every call in every way, with every follow-up; raises Violation if one is wrong.

    Without seeds the actors run one after the other; with seeds the sweep is made for each of
    these random schedules as well. With `late` each write is also left under way, and the
    server of the next call dies before it. Of `one_in` cases that follow each other the first is
    run: a number that shares no divisor with that of the follow-ups leaves none of them out.
    Faults of the scenario itself are left out.
    """
    report = SweepReport(scenario.name)
    calm = Stage(replace(scenario, faults=NO_FAULTS, restart=None))
    for seed in (None, *seeds):
        calls = run(calm, _chooser(seed)).trace.store_calls()
        report.calls += len(calls)
        cases = (
            (number, fault, name)
            for number, call in enumerate(calls)
            for fault in (*crashes_of(call), *(late_ones_of(call) if late else ()))
            for name in follow_ups
        )
        for number, fault, name in islice(cases, 0, None, one_in):
            plan = _plan(number, fault)
            crashing = after_crash(scenario, name, follow_ups[name])
            run(calm.twin(replace(crashing, faults=plan)), _chooser(seed))
            report.cases += 1
            report.reached += plan.reached
            report.by_fault[fault.kind.value] += plan.reached
            report.by_follow_up[name] += plan.reached
    return report


def after_crash(scenario: Scenario, name: str, follow_up: Act) -> Scenario:
    """Returns the scenario in which that comes after a crash; for the repetition of a trace."""

    def restart(_: Server) -> list[Act]:
        return [follow_up]

    return replace(scenario, name=f"{scenario.name}, then {name}", restart=restart)


def crashes_of(call: PlannedCall) -> Iterator[Fault]:
    """Returns every way in which a server can die at a call."""
    yield BEFORE
    yield AFTER
    if FaultKind.TORN in call.possible:
        # None of the items is as good as a crash before the call.
        yield from (Fault(FaultKind.TORN, count) for count in torn_counts(call) if count)


def late_ones_of(call: PlannedCall) -> Iterator[Fault]:
    """Returns the way in which a call is still under way when its server dies."""
    if FaultKind.LATE in call.possible:
        yield Fault(FaultKind.LATE)


def _plan(number: int, fault: Fault) -> FaultAt:
    if fault.kind is FaultKind.LATE:
        return FaultAt({number: fault, number + 1: BEFORE})
    return FaultAt({number: fault})


def _chooser(seed: int | None) -> Chooser:
    return FirstChooser() if seed is None else RandomChooser(seed)
