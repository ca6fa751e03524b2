"""Choosers of one schedule: random, by priorities, in order, and the repetition of a trace."""

from __future__ import annotations

from random import Random
from typing import Final

from lochan.testing.faults import OK, Fault
from lochan.testing.sim.actors import Actor, Candidate, ClockJump, LateWrite, Move, Stop
from lochan.testing.sim.plans import CLOCK_JUMP_US
from lochan.testing.sim.trace import CLOCK_MARK, STOP, parse
from lochan.testing.sim.world import Broken, World

# The probability to stay with the same actor, and the weight of late writes: each run draws one of
# three values. Some bugs need many switches between actors, others few.
STAY: Final = (0.0, 0.4, 0.8)
LATE_WEIGHT: Final = (1.0, 0.3, 0.05)


class RandomChooser:
    """Decides everything by one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rng = Random(seed)
        self._random = random = self._rng.random
        self._stay = STAY[int(random() * 3)]
        self._late_weight = LATE_WEIGHT[int(random() * 3)]
        self._last: Actor | None = None

    def next(self, world: World, ready: list[Actor]) -> Move:
        """Draws an actor, rarely something else."""
        random = self._random
        if world.late:
            weight = self._late_weight * len(world.late)
            if not ready or random() * (len(ready) + weight) < weight:
                return self._draw_late(world, ready)
        if world.faults_left and world.plan.clock_jump and random() < world.plan.clock_jump:
            server = world.servers[int(random() * len(world.servers))]
            return ClockJump(world, server, int((2 * random() - 1) * CLOCK_JUMP_US)), OK
        actor = self._draw_actor(world, ready)
        if world.faults_left > 0 and len(actor.pending.possible) > 1:
            return actor, world.plan.draw(random, actor.name, actor.pending)
        return actor, OK

    def _draw_actor(self, world: World, ready: list[Actor]) -> Actor:  # noqa: ARG002
        last = self._last
        if last is None or last not in ready or self._random() >= self._stay:
            self._last = last = ready[int(self._random() * len(ready))]
        return last

    def _draw_late(self, world: World, ready: list[Actor]) -> Move:
        if not ready and self._random() < 0.5:
            return Stop(world), OK
        return world.late[int(self._random() * len(world.late))], OK


class PriorityChooser(RandomChooser):
    """The ready actor of the highest priority runs; at a few random steps it gets the lowest.

    Probabilistic concurrency testing: a bug that needs `depth` orderings among `steps` steps is
    found with a probability that can be given, which pays off in long programs.
    """

    def __init__(self, seed: int, *, depth: int = 3, steps: int = 60) -> None:
        super().__init__(seed)
        self._priorities: dict[str, float] = {}
        self._changes = {int(self._random() * steps) for _ in range(depth - 1)}

    def _draw_actor(self, world: World, ready: list[Actor]) -> Actor:
        for actor in ready:
            if actor.name not in self._priorities:
                self._priorities[actor.name] = self._random()
        best = max(ready, key=lambda actor: self._priorities[actor.name])
        if len(world.trace.steps) in self._changes:
            self._priorities[best.name] = -float(len(world.trace.steps))
        return best


class FirstChooser:
    """The first ready actor runs, one after the other; late writes take effect at the end."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def next(self, world: World, ready: list[Actor]) -> Move:
        """Takes the first."""
        if not ready:
            return world.late[0], OK
        actor = ready[0]
        if world.faults_left > 0 and len(actor.pending.possible) > 1:
            return actor, world.plan.draw(lambda: 0.0, actor.name, actor.pending)
        return actor, OK


class Diverged(Broken):
    """A trace does not fit the present code."""

    def __init__(self, message: str) -> None:
        super().__init__("repetition of a trace", message)


class ReplayChooser:
    """Repeats the steps of a trace.

    A strict one raises Diverged when a step is impossible. A lenient one leaves such steps out and
    then runs actors one after the other: for traces of old bugs in code that has changed since.
    """

    def __init__(self, text: str, *, strict: bool = True) -> None:
        self.seed, self._steps, self.digest = parse(text)
        self._strict = strict
        self._position = 0

    def next(self, world: World, ready: list[Actor]) -> Move:
        """Returns the next step of the trace."""
        while self._position < len(self._steps):
            name, fault = self._steps[self._position]
            self._position += 1
            candidate = _find(name, world, ready)
            if candidate is not None and _possible(candidate, fault):
                return candidate, fault
            if self._strict:
                raise Diverged(f"step {self._position - 1}: {name} is not ready for that step")
        if self._strict:
            raise Diverged(f"the trace ends after {self._position} steps, the run does not")
        return (ready[0] if ready else world.late[0]), OK


def _find(name: str, world: World, ready: list[Actor]) -> Candidate | None:
    if name == STOP:
        return None if ready else Stop(world)
    if name.startswith(CLOCK_MARK):
        for server in world.servers:
            distance = name[1 + len(server.name) :]
            if name[1:].startswith(server.name) and distance.lstrip("+-").isdecimal():
                return ClockJump(world, server, int(distance))
        return None
    others: list[Actor | LateWrite] = [*ready, *world.late]
    return next((one for one in others if one.name == name), None)


def _possible(candidate: Candidate, fault: Fault) -> bool:
    return fault is OK or (
        isinstance(candidate, Actor) and fault.kind in candidate.pending.possible
    )
