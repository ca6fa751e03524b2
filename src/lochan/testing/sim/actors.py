"""What can happen next in a simulated world: steps of actors, late writes, clock jumps, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lochan.testing.faults import OK, Fault, PlannedCall, SimulatedCrash
from lochan.testing.sim.greenlets import new_greenlet
from lochan.testing.sim.history import Event
from lochan.testing.sim.plans import CRASHES
from lochan.testing.sim.server import NEVER_FAULTY
from lochan.testing.sim.trace import CLOCK_MARK, LATE_MARK, STOP

if TYPE_CHECKING:
    from lochan.testing.sim.server import Server
    from lochan.testing.sim.world import World

Act = Callable[["Server"], object]
"""The function that an actor runs; its argument is the server."""

START: Final = PlannedCall(0, "start", None, None, 0, NEVER_FAULTY)
STOPPING: Final = PlannedCall(0, "stop", None, None, 0, NEVER_FAULTY)


class Actor:
    """One thread of work on a server; it waits before its `pending` call until `go`."""

    def __init__(self, world: World, server: Server, name: str, act: Act) -> None:
        self.world = world
        self.server = server
        self.name = name
        self.alive = True
        self.pending = START
        self.until: Callable[[], bool] | None = None
        self.beginning: list[Event] = []
        self.late_count = 0
        self._act = act
        self._greenlet = new_greenlet(self._body)

    def start(self) -> None:
        """Runs to the first call, without a step: other actors see nothing of it."""
        self._enter(OK)

    def go(self, fault: Fault) -> None:
        """Makes the pending call with that fault, then runs to the next one."""
        world = self.world
        number = len(world.trace.steps)
        world.trace.steps.append((self.name, self.pending, fault))
        if self.beginning:
            for event in self.beginning:
                event.start = number
            self.beginning.clear()
        if fault is OK:
            self._enter(OK)
            return
        world.faults_left -= 1
        if fault.kind in CRASHES:
            self.server.dead = True
            self._enter(fault)
            world.end_server(self.server)
        else:
            self._enter(fault)

    def kill(self) -> None:
        """Dies before its pending call; its exception handlers run but cannot use the store."""
        if not self.alive:
            return
        self.server.dead = True
        if self.pending is START:
            self.alive = False
            return
        self.world.current = self
        self._greenlet.throw(SimulatedCrash)
        self.world.current = None

    def _enter(self, fault: Fault) -> None:
        self.world.current = self
        self._greenlet.switch(fault)
        self.world.current = None

    def _body(self, _: object) -> None:
        try:
            self._act(self.server)
        except SimulatedCrash:
            pass
        finally:
            self.alive = False


class LateWrite:
    """A write whose sender got Unknown and that may still take effect."""

    def __init__(
        self, world: World, name: str, call: PlannedCall, carry_out: Callable[[], object]
    ) -> None:
        self.world = world
        self.name = name
        self.pending = call
        self._carry_out = carry_out

    def go(self, _: Fault) -> None:
        """Carries out the write on the present state."""
        self.world.late.remove(self)
        self.world.trace.steps.append((self.name, self.pending, OK))
        self._carry_out()


class ClockJump:
    """Sets a server's clock to another time; its monotonic clock does not change."""

    def __init__(self, world: World, server: Server, distance_us: int) -> None:
        self.world = world
        self.server = server
        self.name = f"{CLOCK_MARK}{server.name}{distance_us:+d}"
        self.pending = PlannedCall(0, "jump", None, None, 0, NEVER_FAULTY, (distance_us,))
        self._distance_us = distance_us

    def go(self, _: Fault) -> None:
        """Sets the clock."""
        self.world.faults_left -= 1
        self.world.trace.steps.append((self.name, self.pending, OK))
        self.server.clock.jump_us(self._distance_us)


class Stop:
    """Ends a run with pending late writes, which never take effect."""

    name = STOP
    pending = STOPPING

    def __init__(self, world: World) -> None:
        self.world = world

    def go(self, _: Fault) -> None:
        """Drops the pending late writes."""
        self.world.trace.steps.append((self.name, self.pending, OK))
        self.world.late.clear()


Candidate = Actor | LateWrite | ClockJump | Stop

Move = tuple[Candidate, Fault]
"""What happens next, and the fault of its call."""


def late_name(actor: Actor) -> str:
    """Names the next late write of an actor; the same in every run that did the same so far."""
    actor.late_count += 1
    return f"{LATE_MARK}{actor.name}{actor.late_count}"
