"""Every schedule, or one of each kind: repeat a prefix, then take the next branch.

Reduction is by sleep sets. After a branch has been explored, its first move sleeps in the branches
beside it until some move that does not commute with it is made; a branch in which all possible
moves sleep is left out. Every order of moves that do not commute is still run. Moves commute only
if

    they are made by different servers, because actors of one server share memory;
    their calls touch different rows, or only read;
    at most one of them meets a fault, because the number of faults is limited;
    none of them is a crash, a long sleep or the end;
    it is not that one may end and the other begin a recorded operation, because checks may look at
    what came before what.
"""

from __future__ import annotations

import msgspec

from lochan.testing.faults import OK, Fault
from lochan.testing.sim.actors import Actor, Candidate, ClockJump, LateWrite, Move, Stop
from lochan.testing.sim.footprint import Footprint, commute, footprint
from lochan.testing.sim.plans import CLOCK_JUMP_US, CRASHES
from lochan.testing.sim.ports import LONG_SLEEP_MS
from lochan.testing.sim.world import Broken, World


class Pruned(Exception):
    """Only moves that sleep are left: an equal schedule has been run."""


class _Branch(msgspec.Struct, gc=False):
    """One move that can be made in some state, as far as commuting is concerned."""

    key: tuple[str, str, int]
    server: str
    touches: Footprint
    faulty: bool
    total: bool
    begins: bool
    ends: bool = False


class _Node:
    """One state: what can be done there, what is being tried, what sleeps."""

    __slots__ = ("asleep", "branches", "taken", "todo")

    def __init__(self, branches: list[_Branch], asleep: list[_Branch]) -> None:
        sleeping = {branch.key for branch in asleep}
        self.branches = branches
        self.asleep = asleep
        self.todo = [index for index in range(len(branches)) if branches[index].key not in sleeping]
        self.taken = -1

    def take_next(self) -> None:
        """Puts the branch that was tried to sleep and takes the next one."""
        if self.taken >= 0:
            self.asleep.append(self.branches[self.taken])
        self.taken = self.todo.pop(0)


class ExhaustiveChooser:
    """Enumerates all schedules of a scenario, one for each run, until `more` returns False.

    Without `reduce` it runs every single interleaving. Without `real_time` moves commute also if
    that swaps the end of one operation with the beginning of another: right for checks that look
    only at the store and at results.
    """

    seed = 0

    def __init__(self, *, reduce: bool = True, real_time: bool = True) -> None:
        self._reduce = reduce
        self._real_time = real_time
        self._stack: list[_Node] = []
        self._depth = 0

    def next(self, world: World, ready: list[Actor]) -> Move:
        """Repeats the prefix; beyond it takes the first branch that does not sleep."""
        moves = _moves(world, ready)
        depth = self._depth
        if depth:
            last = self._stack[depth - 1]
            last.branches[last.taken].ends = world.last_end == depth - 1
        if depth == len(self._stack):
            self._grow(world, moves)
        node = self._stack[depth]
        if len(node.branches) != len(moves):
            raise Broken("determinism", f"step {depth} has other choices than in the run before")
        self._depth = depth + 1
        return moves[node.taken]

    def more(self, world: World) -> bool:
        """Goes to the next schedule; returns False if there is none."""
        if self._depth == len(self._stack) and self._depth:
            last = self._stack[-1]
            last.branches[last.taken].ends = world.last_end == self._depth - 1
        self._depth = 0
        stack = self._stack
        while stack and not stack[-1].todo:
            stack.pop()
        if stack:
            stack[-1].take_next()
        return bool(stack)

    def _grow(self, world: World, moves: list[Move]) -> None:
        branches = [_branch(world, *move) for move in moves]
        asleep: list[_Branch] = []
        if self._reduce and self._stack:
            above = self._stack[-1]
            made = above.branches[above.taken]
            asleep = [one for one in above.asleep if self._commute(one, made)]
        node = _Node(branches, asleep)
        if not node.todo:
            raise Pruned
        node.take_next()
        self._stack.append(node)

    def _commute(self, one: _Branch, other: _Branch) -> bool:
        if one.total or other.total or one.server == other.server or (one.faulty and other.faulty):
            return False
        if self._real_time and ((one.ends and other.begins) or (one.begins and other.ends)):
            return False
        return commute(one.touches, other.touches)


def _moves(world: World, ready: list[Actor]) -> list[Move]:
    moves: list[Move] = [(actor, OK) for actor in ready]
    if world.faults_left > 0:
        for actor in ready:
            if len(actor.pending.possible) > 1:
                options = world.plan.options(actor.name, actor.pending)
                moves += [(actor, fault) for fault in options]
        if world.plan.clock_jump and ready:
            for server in world.servers:
                moves += [
                    (ClockJump(world, server, way * CLOCK_JUMP_US), OK)
                    for way in (1, -1)
                    if not server.dead
                ]
    moves += [(write, OK) for write in world.late]
    if not ready:
        moves.append((Stop(world), OK))
    return moves


def _branch(world: World, candidate: Candidate, fault: Fault) -> _Branch:
    key = (candidate.name, fault.kind.value, fault.count)
    call = candidate.pending
    if isinstance(candidate, Stop):
        server, total = "", True
    elif isinstance(candidate, LateWrite):
        server, total = candidate.name, False
    else:
        server = candidate.server.name
        total = fault.kind in CRASHES or (
            call.operation == "sleep" and float(str(call.arguments[0])) >= LONG_SLEEP_MS
        )
    return _Branch(
        key,
        server,
        footprint(call, row_locks=world.scenario.row_locks),
        fault is not OK or isinstance(candidate, ClockJump),
        total,
        isinstance(candidate, Actor) and bool(candidate.beginning),
    )
