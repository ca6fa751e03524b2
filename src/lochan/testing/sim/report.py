"""The results of exploring: a report, or a violation with the trace that repeats it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType

from lochan.testing.faults import FaultKind
from lochan.testing.sim.exhaustive import Pruned
from lochan.testing.sim.signature import signatures
from lochan.testing.sim.world import Broken, World

UNKNOWN_AFTER = (FaultKind.LOST_REPLY, FaultKind.PARTIAL)


class Violation(AssertionError):
    """An invariant did not hold; `trace` is the text that `replay` takes."""

    def __init__(self, scenario: str, invariant: str, world: World, message: str) -> None:
        self.scenario = scenario
        self.invariant = invariant
        self.seed = world.seed
        self.trace = world.trace.text()
        super().__init__(
            f"{scenario}: {invariant}: {message}\n"
            f"seed {self.seed}, trace {self.trace}\n"
            f"{world.trace.listing()}\n{world.history.text()}"
        )


class ViolationGuard:
    """Turns an error inside a `with` into a Violation of the named invariant.

    Any kind of error of an actor is a finding.
    """

    def __init__(self, world: World, invariant: str) -> None:
        self._world = world
        self._invariant = invariant

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, (Pruned, KeyboardInterrupt, SystemExit)):
            return
        invariant = error.invariant if isinstance(error, Broken) else self._invariant
        message = str(error) if isinstance(error, AssertionError) else repr(error)
        name = self._world.scenario.name
        raise Violation(name, invariant, self._world, message) from error


@dataclass
class Report:
    """Counts of schedules; `distinct` counts them by the order of conflicting calls."""

    scenario: str
    schedules: int = 0
    steps: int = 0
    lost_replies: int = 0
    late: int = 0
    not_applied: int = 0
    crashes: int = 0
    clock_jumps: int = 0
    rechecked: int = 0
    pruned: int = 0
    complete: bool = False
    seconds: float = 0.0
    orders: set[bytes] = field(default_factory=set, repr=False)
    orders_with_faults: set[bytes] = field(default_factory=set, repr=False)

    @property
    def distinct(self) -> int:
        """Schedules that differ in the order of conflicting calls, faults left aside."""
        return len(self.orders)

    @property
    def distinct_with_faults(self) -> int:
        """Schedules that differ in that order or in the faults."""
        return len(self.orders_with_faults)

    def count(self, world: World) -> None:
        """Adds one run without a violation."""
        self.schedules += 1
        self.steps += len(world.trace.steps)
        plain, faulty = signatures(world.trace.steps)
        self.orders.add(plain)
        self.orders_with_faults.add(faulty)
        if world.plan.most:
            self._count_faults(world)

    def _count_faults(self, world: World) -> None:
        kinds = world.trace.kinds()
        self.lost_replies += any(kind in kinds for kind in UNKNOWN_AFTER)
        self.late += FaultKind.LATE in kinds
        self.not_applied += FaultKind.NOT_APPLIED in kinds
        self.crashes += world.crashes > 0
        self.clock_jumps += any(call.operation == "jump" for _, call, _ in world.trace.steps)

    def add(self, other: Report) -> None:
        """Adds the counts of another report, such as that of another process."""
        for name in (
            "schedules",
            "steps",
            "lost_replies",
            "late",
            "not_applied",
            "crashes",
            "clock_jumps",
            "rechecked",
            "pruned",
            "seconds",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.orders |= other.orders
        self.orders_with_faults |= other.orders_with_faults

    def line(self) -> str:
        """One line for people."""
        whole = ", complete" if self.complete else ""
        return (
            f"{self.scenario}: {self.schedules} schedules{whole}, {self.distinct} distinct"
            f" ({self.distinct_with_faults} with faults), lost reply {self.lost_replies},"
            f" late {self.late}, not applied {self.not_applied}, crash {self.crashes},"
            f" clock {self.clock_jumps}, re-checked {self.rechecked}, pruned {self.pruned},"
            f" {self.seconds:.1f} s ({self.schedules / max(self.seconds, 1e-9):,.0f}/s)"
        )
