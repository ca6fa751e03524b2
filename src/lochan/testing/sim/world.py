"""A world of simulated servers around one store, in which a chooser decides which actor runs next.

The run of a world is one thread. Each actor waits before a call; the chooser selects one of them
and the fault of its call; the actor makes the call and runs until it waits before the next one. So
an interleaving is a list of choices, and the same choices give the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_uppercase
from typing import Any, Final, Protocol

from lochan.base.errors import Bug
from lochan.kv.store import Name, Store
from lochan.testing.faults import OK, Fault, PlannedCall, SimulatedCrash
from lochan.testing.sim.actors import Act, Actor, LateWrite, Move, late_name
from lochan.testing.sim.footprint import footprint
from lochan.testing.sim.greenlets import current_greenlet
from lochan.testing.sim.history import NOT_YET, Event, History
from lochan.testing.sim.scenario import Scenario
from lochan.testing.sim.server import Server
from lochan.testing.sim.trace import Trace

# Set-up happens an hour before the run, so that no clock goes back in between.
SETUP_US: Final = 1_700_000_000_000_000
RUN_US: Final = SETUP_US + 3_600 * 1_000_000
RESTART_US: Final = 1_000_000


class Broken(AssertionError):
    """A run failed as a whole, for example by a deadlock; `invariant` names the reason."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(message)
        self.invariant = invariant


class Chooser(Protocol):
    """Decides what happens next."""

    seed: int

    def next(self, world: World, ready: list[Actor]) -> Move:
        """Returns what happens next, and the fault of its call.

        That is a step of one of the ready actors, a late write of the world, the jump of a clock,
        or, when no actor is left, the end.
        """
        ...


class World:
    """One run: servers and actors of a scenario, what they did and what they saw."""

    def __init__(self, scenario: Scenario, seed: int, store: Store, prepared: Any = None) -> None:
        self.scenario = scenario
        self.seed = seed
        self.store = store
        self.prepared = prepared
        self.plan = scenario.faults
        self.faults_left = scenario.faults.most
        self.trace = Trace(seed)
        self.history = History()
        self.servers: list[Server] = []
        self.actors: list[Actor] = []
        self.late: list[LateWrite] = []
        self.held: dict[Name, Actor] = {}
        self.current: Actor | None = None
        self.watched: list[Any] = []
        self.last_end = NOT_YET
        self.crashes = 0
        self._main = current_greenlet()

    def ready(self) -> list[Actor]:
        """Returns the actors that can make their next call."""
        ready = [
            actor for actor in self.actors if actor.alive and (actor.until is None or actor.until())
        ]
        return [actor for actor in ready if not self._row_is_held(actor)] if self.held else ready

    def run(self, chooser: Chooser) -> None:
        """Starts the scenario's actors and runs them until all have ended."""
        self._main = current_greenlet()
        for name, acts in self.scenario.servers.items():
            self.start_server(name, acts, RUN_US)
        steps = self.trace.steps
        steps_max = self.scenario.steps_max
        watch = self.scenario.watch
        if watch is not None:
            watch(self)
        while True:
            ready = self.ready()
            if not ready:
                if any(actor.alive for actor in self.actors):
                    raise self._deadlock()
                if not self.late:
                    break
            candidate, fault = chooser.next(self, ready)
            candidate.go(fault)
            if watch is not None:
                watch(self)
            if len(steps) > steps_max:
                raise Broken("no end", f"still running after {steps_max} steps")

    def start_server(self, name: str, acts: Any, now_us: int) -> Server:
        """Adds a server; `acts` are its actors, or a function of the server that returns them."""
        server = self.new_server(name, now_us)
        if callable(acts):
            acts = acts(server)
        for act in acts:
            self._add_actor(server, act)
        # Actors of one server share memory, so even what they do before their first call has an
        # order; what a single actor does is seen by no other.
        if len(server.actors) == 1:
            server.actors[0].start()
        return server

    def new_server(self, name: str, now_us: int = RUN_US) -> Server:
        """Adds a server without actors, opened; outside of actors its calls are not interleaved."""
        server = Server(self, name, now_us)
        self.servers.append(server)
        if self.scenario.open is not None:
            server.app = self._outside(lambda: self.scenario.open(server))  # type: ignore[misc]
        return server

    def park(self, server: Server, call: PlannedCall) -> Fault:
        """Stops the running actor before a call until it is chosen; returns the fault."""
        if server.dead:
            raise SimulatedCrash("the server is dead")
        actor = self.current
        if actor is None:
            return OK
        if actor.server is not server:
            raise Bug(f"actor {actor.name} uses {server.name}, which is not its server")
        actor.pending = call
        fault: Fault = self._main.switch()
        return fault

    def end_event(self, actor: Actor, event: Event) -> None:
        """Notes that an operation returned."""
        self.last_end = event.end = len(self.trace.steps) - 1
        if event.start == NOT_YET:
            event.start = event.end
            actor.beginning.remove(event)

    def send_late(self, call: PlannedCall, carry_out: Callable[[], object]) -> None:
        """Adds a late write of the running actor."""
        actor = self.current
        if actor is None:
            raise Bug("only an actor's write can be late")
        self.late.append(LateWrite(self, late_name(actor), call, carry_out))

    def end_server(self, server: Server) -> None:
        """Ends the actors of a dead server; starts another one if the scenario has `restart`."""
        self.crashes += 1
        for actor in server.actors:
            actor.kill()
        self.held = {name: actor for name, actor in self.held.items() if actor.server is not server}
        if self.scenario.reopen is not None:
            self._reopen(self.scenario.reopen)
        if self.scenario.restart is not None:
            now_us = server.clock.now_us() + RESTART_US
            self.start_server(f"{server.name}'", self.scenario.restart, now_us)

    def end(self) -> None:
        """Kills the remaining actors and closes the store."""
        for actor in self.actors:
            actor.kill()
        self.store.close()

    def _add_actor(self, server: Server, act: Act) -> None:
        number = len(self.actors)
        letters = ascii_uppercase[number % 26] * (1 + number // 26)
        actor = Actor(self, server, letters, act)
        server.actors.append(actor)
        self.actors.append(actor)

    def _outside(self, function: Callable[[], Any]) -> Any:
        """Calls a function outside of any actor, so that its store calls are no steps."""
        current, self.current = self.current, None
        try:
            return function()
        finally:
            self.current = current

    def _reopen(self, reopen: Callable[[Store], Store]) -> None:
        self.store = reopen(self.store)
        self.late.clear()
        for server in self.servers:
            server.store.use(self.store)

    def _row_is_held(self, actor: Actor) -> bool:
        rows = footprint(actor.pending, row_locks=True).writes
        return any(self.held.get(name, actor) is not actor for name in rows)

    def _deadlock(self) -> Broken:
        """Returns the error that no actor can run."""
        waiting = [
            f"{actor.name} for {actor.pending.operation}" for actor in self.actors if actor.alive
        ]
        return Broken("deadlock", f"no actor can run; waiting: {', '.join(waiting)}")
