"""A simulated server: a process that dies as a whole, with its own store, clock and randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lochan.base.checks import check
from lochan.base.errors import Bug, Corrupt, LochanError, NewerFormat
from lochan.kv.store import Name
from lochan.testing.faults import Fault, FaultKind, PlannedCall, SimulatedCrash
from lochan.testing.ports import ManualClock
from lochan.testing.sim.history import Event
from lochan.testing.sim.ports import SimLock, SimRandom, SimWaiting
from lochan.testing.sim.store import SimStore

if TYPE_CHECKING:
    from lochan.testing.sim.actors import Actor
    from lochan.testing.sim.world import World

_Result = TypeVar("_Result")

NEVER_FAULTY: Final = (FaultKind.OK,)
"""The possible faults of a pause that is no store call: none."""

# Each call moves its server's clock and no other, so calls of two servers still commute.
CALL_US: Final = 100


class Server:
    """The argument of an actor: a store, clock, randomness and waiting, and `do` to record calls.

    Actors of one server share what `open` built for it (`app`) and die together. The scheduler
    sees only calls of the store, of locks and of `pause`.
    """

    def __init__(self, world: World, name: str, now_us: int) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.actors: list[Actor] = []
        self.app: Any = None
        self.clock = ManualClock(now_us)
        self.random = SimRandom(f"{world.seed}/{name}")
        self.waiting = SimWaiting(self)
        scenario = world.scenario
        self.store = SimStore(
            self,
            world.store,
            atomic_apply=scenario.atomic_apply,
            row_locks=scenario.row_locks,
            return_points=scenario.return_points,
        )

    def do(self, operation: str, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Calls the function with the arguments and records it; errors pass on."""
        world = self.world
        actor = world.current
        if actor is None:
            return function(*arguments)
        event = Event(actor.name, self.name, operation, arguments)
        world.history.events.append(event)
        actor.beginning.append(event)
        try:
            result = function(*arguments)
        except LochanError as error:
            event.error = error
            world.end_event(actor, event)
            raise
        except SimulatedCrash:
            event.crashed = True
            raise
        event.result = result
        world.end_event(actor, event)
        return result

    def attempt(
        self, operation: str, function: Callable[..., _Result], *arguments: object
    ) -> _Result | None:
        """As `do`, but returns None for an error that a client must expect."""
        try:
            return self.do(operation, function, *arguments)
        except (Bug, Corrupt, NewerFormat):
            raise
        except LochanError:
            return None

    def pause(self, operation: str = "pause", arguments: tuple[object, ...] = ()) -> None:
        """Lets other actors run first, as every store call does."""
        self.world.park(self, PlannedCall(0, operation, None, None, 0, NEVER_FAULTY, arguments))

    def wait_until(self, condition: Callable[[], bool], what: str = "wait") -> None:
        """Blocks the actor until the condition holds, as for a lane or an event.

        The condition looks at memory of this server only. If it never holds that is a deadlock.
        """
        actor = self.world.current
        if actor is None:
            check(condition(), f"outside of an actor nothing can end this {what}")
            return
        actor.until = condition
        self.pause(what)
        actor.until = None

    def decide(self, call: PlannedCall) -> Fault:
        """Waits for the scheduler before a store call; returns what happens to it."""
        fault = self.world.park(self, call)
        self.clock.advance_us(CALL_US)
        return fault

    def new_lock(self) -> SimLock:
        """Returns an unlocked lock between the actors of this server."""
        return SimLock(self)

    def acquire(self, lock: SimLock) -> None:
        """Takes a lock, after its present owner has released it."""
        world = self.world
        actor = world.current
        if actor is not None and (
            lock.owner is not None or (world.scenario.lock_points and len(self.actors) > 1)
        ):
            self.wait_until(lock.is_free, "lock")
        lock.owner = actor

    def pass_time(self, duration_us: int, all_servers: bool) -> None:
        """Moves the clock, and those of all other servers if the time is long."""
        for server in self.world.servers if all_servers else [self]:
            server.clock.advance_us(duration_us)

    def hold_row(self, name: Name) -> None:
        """Locks a row for the actor that is running."""
        if self.world.current is not None:
            self.world.held[name] = self.world.current

    def release_row(self, name: Name) -> None:
        """Unlocks a row, if the actor that is running has it."""
        if self.world.held.get(name) is self.world.current:
            self.world.held.pop(name, None)

    def send_late(self, call: PlannedCall, carry_out: Callable[[], object]) -> None:
        """Adds a late write, which the scheduler carries out later or never."""
        self.world.send_late(call, carry_out)
