"""Which faults may happen to the calls of a simulated world.

A plan is used in two ways: a random chooser draws a fault from it, an exhaustive one requests all
faults that are possible. `testing/faults.py` defines what a fault does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from lochan.testing.faults import OK, Fault, FaultKind, PlannedCall

Draw = Callable[[], float]
"""Returns a number in [0, 1)."""

CRASHES: Final = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.TORN)
"""After these the server is dead."""

# An operator or a bad time server moves a clock by this much; the grace of the collector is 24 h.
CLOCK_JUMP_US: Final = 3_600 * 1_000_000


class Faults:
    """Faults by probability for each call, at most `most` in one run.

    For a random chooser the numbers are probabilities; for an exhaustive one every kind with a
    probability above zero is possible at every call. `only` narrows it down by actor and call.
    """

    def __init__(
        self,
        *,
        not_applied: float = 0,
        lost_reply: float = 0,
        late: float = 0,
        partial: float = 0,
        crash_before: float = 0,
        crash_after: float = 0,
        torn: float = 0,
        clock_jump: float = 0,
        most: int = 2,
        only: Callable[[str, PlannedCall], bool] | None = None,
    ) -> None:
        weights = (
            (FaultKind.NOT_APPLIED, not_applied),
            (FaultKind.LOST_REPLY, lost_reply),
            (FaultKind.LATE, late),
            (FaultKind.PARTIAL, partial),
            (FaultKind.CRASH_BEFORE, crash_before),
            (FaultKind.CRASH_AFTER, crash_after),
            (FaultKind.TORN, torn),
        )
        self._weights = tuple((kind, weight) for kind, weight in weights if weight > 0)
        self._sum = sum(weight for _, weight in self._weights)
        self._only = only
        self.clock_jump = clock_jump
        self.most = most if self._weights or clock_jump else 0

    def draw(self, random: Draw, actor: str, call: PlannedCall) -> Fault:
        """Returns what happens to this call, OK as a rule."""
        point = random()
        if point >= self._sum:
            return OK
        for kind, weight in self._weights:
            point -= weight
            if point < 0:
                return self._make(kind, random, actor, call)
        return OK

    def options(self, actor: str, call: PlannedCall) -> list[Fault]:
        """Returns everything but OK that may happen to this call."""
        if self._only is not None and not self._only(actor, call):
            return []
        found = []
        for kind, _ in self._weights:
            if kind in call.possible:
                found += [Fault(kind, count) for count in _counts(kind, call)]
        return found

    def _make(self, kind: FaultKind, random: Draw, actor: str, call: PlannedCall) -> Fault:
        if kind not in call.possible or (self._only is not None and not self._only(actor, call)):
            return OK
        counts = _counts(kind, call)
        return Fault(kind, counts[int(random() * len(counts))]) if counts else OK


NO_FAULTS: Final = Faults()


class Plan(Protocol):
    """What a chooser needs of a plan."""

    most: int
    clock_jump: float

    def draw(self, random: Draw, actor: str, call: PlannedCall) -> Fault:
        """Returns what happens to this call."""
        ...

    def options(self, actor: str, call: PlannedCall) -> list[Fault]:
        """Returns everything but OK that may happen to this call."""
        ...


class FaultAt:
    """Given faults at given store calls, counted from 0 over all servers; others have none."""

    clock_jump = 0.0

    def __init__(self, faults: Mapping[int, Fault]) -> None:
        self._faults = faults
        self._calls = 0
        self._reached = 0
        self.most = len(faults)

    @property
    def reached(self) -> bool:
        """Every fault has happened."""
        return self._reached == self.most

    def draw(self, random: Draw, actor: str, call: PlannedCall) -> Fault:  # noqa: ARG002
        """Looks the number of this call up."""
        found = self.options(actor, call)
        return found[0] if found else OK

    def options(self, actor: str, call: PlannedCall) -> list[Fault]:  # noqa: ARG002
        """Looks the number of this call up; must be called once for each call."""
        fault = self._faults.get(self._calls)
        self._calls += 1
        if fault is None or fault.kind not in call.possible:
            return []
        self._reached += 1
        return [fault]


def torn_counts(call: PlannedCall) -> range:
    """How many items of a batch may be kept when it is torn: none to all but one."""
    return range(call.items)


def _counts(kind: FaultKind, call: PlannedCall) -> range:
    if kind in (FaultKind.TORN, FaultKind.PARTIAL):
        return torn_counts(call)
    return range(1)
