"""A crash before and after every store call of every step, then the next server (R1 to R4).

Each case is a world of its own: a step runs on a store that dies at its n-th call, then a fresh
server does one thing, then everything must be at rest and nothing acknowledged be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

from lochan.base.errors import AlreadyExists, LochanError, NotFound
from lochan.base.ids import ObjId
from lochan.base.names import REFS_NAME, RefName
from lochan.kernel.moves import read_move
from lochan.kernel.provenance import Initiator
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.repository import create_repository, open_repository
from lochan.kv.store import Kind, partition
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import (
    Fault,
    FaultKind,
    FaultyStore,
    ListedFaults,
    PlannedCall,
    SimulatedCrash,
)
from tests.kernel.workbench import (
    MAIN,
    Bench,
    OnCalls,
    branch,
    dies_after_the_swap,
    listed,
    wants,
)

NAME, OTHER = RefName("topic"), RefName("other")
X, Y = ObjId(bytes(31) + b"x"), ObjId(bytes(31) + b"y")
SEVENTEEN = 17


class World:
    """A prepared repository and what was acknowledged in it, as (name, incarnation, version)."""

    def __init__(self, state: str) -> None:
        self.bench = Bench()
        self.acknowledged: set[tuple[str, int, int]] = set()
        names = self.bench.names
        if state == "after another incarnation":
            self.create(names, NAME)
            self.note(names.delete(NAME, X, Initiator("me")))
        elif state != "never there":
            self.create(names, NAME)
        if state == "many moves":
            for _ in range(SEVENTEEN):
                self.note(names.assign(NAME, X, X, Initiator("me")))

    def note(self, row) -> None:
        self.acknowledged.add((row.name, row.incarnation, row.version))

    def create(self, names: ReferenceIndex, *wanted: RefName) -> None:
        for row in names.create_many([branch(name, X) for name in wanted], Initiator("me")):
            self.note(row)


Step = Callable[[World, ReferenceIndex], None]

STEPS: dict[str, tuple[str, Step]] = {
    "create": ("never there", lambda world, names: world.create(names, NAME)),
    "create again": ("after another incarnation", lambda world, names: world.create(names, NAME)),
    "create two": ("never there", lambda world, names: world.create(names, NAME, OTHER)),
    "delete": ("there", lambda world, names: world.note(names.delete(NAME, X, Initiator("me")))),
    "delete moved": (
        "many moves",
        lambda world, names: world.note(names.delete(NAME, X, Initiator("me"))),
    ),
    "assign": (
        "many moves",
        lambda world, names: world.note(names.assign(NAME, X, Y, Initiator("me"))),
    ),
}
VISITORS = ["get", "page", "create same", "create other", "delete same", "assign"]


def crashes(step: str) -> Iterator[tuple[World, Fault, int]]:
    """Yields worlds in which the step died, at every call, before it and after it."""
    state, run = STEPS[step]
    for kind in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER):
        ordinal = 0
        while True:
            world = World(state)
            # The first two calls open the repository.
            plan = ListedFaults({ordinal + 2: Fault(kind)})
            store = FaultyStore(world.bench.store, plan)
            dying = world.bench.again(store)
            try:
                run(world, dying.names)
            except SimulatedCrash:
                yield world, Fault(kind), ordinal
            else:
                break
            ordinal += 1


def visit(world: World, visitor: str) -> str:
    """One operation of a new server; returns what it found out about the name."""
    names = world.bench.again(seed=7).names
    if visitor == "get":
        return "there" if names.find(NAME) else "gone"
    if visitor == "page":
        return "there" if NAME in [row.name for row in names.page("", None, 10)] else "gone"
    if visitor == "create other":
        try:
            world.create(names, RefName("third"))
        except LochanError as error:
            return f"refused: {error.kind}"
        return "nothing"
    found = world.bench.context.references.fetch(NAME)
    head = ObjId(found.row.pointer) if found is not None else X
    try:
        if visitor == "create same":
            world.create(names, NAME)
            return "gone"
        if visitor == "assign":
            world.note(names.assign(NAME, head, Y, Initiator("me")))
        else:
            world.note(names.delete(NAME, head, Initiator("me")))
    except AlreadyExists:
        return "there"
    except NotFound:
        return "gone"
    return "there"


def check_world(world: World) -> None:
    """R1, and the ref-log holds every acknowledged move and has no gap."""
    bench = world.bench.again(seed=8)
    names = [entry.key.decode() for entry in scan(bench, Kind.REFERENCES)]
    # A listing finishes everything.
    seen = {row.name for row in bench.names.page("", None, 100)}
    rows = {name: bench.row(RefName(name)) for name in {*names, *seen}}
    live = {
        name: row.incarnation for name, row in rows.items() if not row.deleted and name != REFS_NAME
    }
    assert live == listed(bench.context)
    assert seen == set(live)
    log = [read_move(entry).move for entry in scan(bench, Kind.LOG)]
    keys = [entry.key for entry in scan(bench, Kind.LOG)]
    logged = set()
    for key, move in zip(keys, log, strict=True):
        name, _, rest = key.partition(b"\0")
        logged.add((name.decode(), int.from_bytes(rest[:8], "big"), move.version))
    for name, row in rows.items():
        logged |= {(name, row.incarnation, move.version) for move in row.moves}
        assert row.name == REFS_NAME or row.version in {
            version
            for one, incarnation, version in logged
            if (one, incarnation) == (name, row.incarnation)
        }
    assert world.acknowledged <= logged
    for name, incarnation, version in logged:
        # These worlds have no commits on the names, so versions have no gaps.
        assert version == 1 or (name, incarnation, version - 1) in logged


def scan(bench: Bench, kind: Kind):
    return bench.store.scan(partition(bench.context.instance, kind), b"", None, 1_000).entries


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("visitor", VISITORS)
def test_whoever_comes_next_after_a_crash_finishes_the_step(step, visitor):
    cases = 0
    for world, fault, ordinal in crashes(step):
        try:
            learned = visit(world, visitor)
            again = visit(world, "get")
            check_world(world)
        except BaseException as error:
            error.add_note(f"{fault.kind.value}, call {ordinal}")
            raise
        # One outcome: what one visitor learned, the next one sees.
        if visitor in ("get", "page"):
            assert again == learned
        elif visitor == "create other":
            assert learned == "nothing"
        else:
            assert again == ("gone" if visitor == "delete same" else again)
            if visitor == "create same":
                assert again == "there"
            if visitor == "assign":
                assert again == learned
        cases += 1
    print(f"{step}, then {visitor}: {cases} crashes")
    assert cases >= 6


@pytest.mark.parametrize("step", STEPS)
def test_all_visitors_learn_the_same(step):
    """R2: the outcome of a half-done step does not depend on who comes next."""
    learned: dict[tuple[str, int], dict[str, str]] = {}
    for visitor in VISITORS:
        if visitor == "create other":
            continue
        for world, fault, ordinal in crashes(step):
            key = (fault.kind.value, ordinal)
            learned.setdefault(key, {})[visitor] = visit(world, visitor)
    for case, answers in learned.items():
        assert len(set(answers.values())) == 1, (case, answers)
    outcomes = [next(iter(answers.values())) for answers in learned.values()]
    expected = {"assign": {"there"}}.get(step, {"there", "gone"})
    assert set(outcomes) == expected


@pytest.mark.parametrize("step", ["create two"])
def test_many_are_created_all_or_none_under_a_crash_at_any_call(step):
    for world, fault, ordinal in crashes(step):
        names = world.bench.again(seed=7).names
        both = [names.find(name) is not None for name in (NAME, OTHER)]
        assert both in ([True, True], [False, False]), (fault, ordinal)
        check_world(world)


@pytest.mark.slow
def test_two_crashes_in_a_row_are_finished_too():
    """The one who finishes dies as well, at every call; the third one finds the same outcome."""
    cases = 0
    for step in STEPS:
        for kind in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER):
            for ordinal in range(12):
                for world, _, _ in crashes(step):
                    store = FaultyStore(world.bench.store, ListedFaults({ordinal + 2: Fault(kind)}))
                    second = world.bench.again(store, seed=7)
                    try:
                        second.names.find(NAME)
                    except SimulatedCrash:
                        cases += 1
                    else:
                        continue
                    first, then = visit(world, "get"), visit(world, "page")
                    assert first == then
                    check_world(world)
    print(f"{cases} double crashes")
    assert cases > 300


def test_moves_are_copied_before_they_leave_the_row():
    """Until then only the row knows them; a server that dies after its swap loses none."""
    world = World("there")
    bench = world.bench
    incarnation = bench.row(NAME).incarnation
    for number in range(40):
        bench.again(seed=number).names.assign(NAME, X, X, Initiator("me"))
        world.acknowledged.add((NAME, incarnation, number + 2))
    check_world(world)
    with pytest.raises(SimulatedCrash):
        bench.again(dies_after_the_swap(bench.store)).names.delete(NAME, X, Initiator("me"))
    world.acknowledged.add((NAME, incarnation, 42))
    world.create(bench.again(seed=5).names, NAME)
    check_world(world)
    log = bench.context.moves.fetch_after(NAME, incarnation, 0)
    assert [move.version for move in log] == list(range(1, 43))
    assert log[-1].kind == "delete"


def test_a_repository_whose_creation_crashed_is_not_there_or_whole():
    """Found by review: a crash at the end left a repository without its default branch."""
    outcomes = []
    ports = Bench().ports
    for kind in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER):
        for ordinal in range(100):
            inner = MemoryStore()
            store = FaultyStore(inner, ListedFaults({ordinal: Fault(kind)}))
            try:
                create_repository(store, ports, "repo")
                break
            except SimulatedCrash:
                pass
            try:
                context = open_repository(inner, ports, "repo")
            except NotFound:
                outcomes.append("not there")
                context = create_repository(inner, ports, "repo")
            else:
                outcomes.append("there")
            assert [row.name for row in ReferenceIndex(context).page("", None, 10)] == ["main"]
            Bench(inner, fresh=False).commit(wants(1))
    assert set(outcomes) == {"there", "not there"}
    assert outcomes.count("there") == 1


@pytest.mark.parametrize("kind", [FaultKind.LOST_REPLY, FaultKind.LATE, FaultKind.NOT_APPLIED])
def test_a_repository_is_created_once_whatever_happens_to_replies(kind):
    ports = Bench().ports
    outcomes = []
    for ordinal in range(20):
        inner = MemoryStore()
        writes = count()

        def choose(call: PlannedCall, writes: Iterator[int] = writes, at: int = ordinal):
            hit = kind in call.possible and not call.operation.startswith("get")
            return Fault(kind, 1) if hit and next(writes) == at else None

        try:
            create_repository(FaultyStore(inner, OnCalls(choose)), ports, "repo")
            outcomes.append("done")
        except LochanError as error:
            outcomes.append(error.kind)
            with suppress(AlreadyExists):
                # Whether it was created or not, the next one finds out.
                create_repository(inner, ports, "repo")
        assert ReferenceIndex(open_repository(inner, ports, "repo")).get(MAIN).row.name == "main"
        with pytest.raises(AlreadyExists):
            create_repository(inner, ports, "repo")
    assert outcomes[-1] == "done"
    assert kind is FaultKind.NOT_APPLIED or outcomes[4] == "done", (
        "the claim of the name is resolved"
    )
