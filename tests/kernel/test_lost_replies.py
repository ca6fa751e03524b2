"""Commits whose replies are lost, late or cut: the answer is right, each operation there once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import pytest

from lochan.base.errors import Exhausted, KeysConflict, LochanError, Unavailable, Unknown
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.commits import COMMIT_TIMEOUT_MS, RETRY_SLEEP_MAX_MS
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Published
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall, SimulatedCrash
from tests.kernel.workbench import (
    MAIN,
    Bench,
    LockingStore,
    OnCalls,
    Wants,
    branch,
    element,
    nth,
    operations,
    plan,
    published,
    put,
    table,
    wants,
)

LOST = Fault(FaultKind.LOST_REPLY)
AWAY = Fault(FaultKind.NOT_APPLIED)
FAULTS = [LOST, AWAY, *(Fault(FaultKind.LATE, count) for count in (1, 2, 3, 4, 9))]


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.commit(wants(0))
    return bench


def on_apply(bench: Bench, *faults: Fault, first: int = 0) -> tuple[Bench, FaultyStore]:
    store = FaultyStore(bench.store, nth("apply", first, *faults))
    return bench.again(store), store


def check_log(bench: Bench, expected: list[str]) -> None:
    log = bench.again(seed=9).log()
    assert operations(log) == expected
    for parent, child in pairwise(log):
        assert child.parent == parent.obj_id
        assert child.sequence == parent.sequence + 1


@pytest.mark.parametrize("faults", list(product(FAULTS, FAULTS)), ids=repr)
def test_two_faults_in_a_row_make_one_commit(bench, faults):
    """A lost reply, a late application or none at all, of the write and of its repetition."""
    slow, store = on_apply(bench, *faults)
    (made,) = slow.commit(wants(1))
    store.settle()
    check_log(bench, ["put 0", "put 1"])
    assert bench.log()[-1].obj_id == made.head.obj_id
    # The publisher knows where it stands, or reads it: the next one goes on.
    slow.commit(wants(2))
    check_log(bench, ["put 0", "put 1", "put 2"])


@pytest.mark.parametrize("faults", list(product(FAULTS, FAULTS)), ids=repr)
def test_two_faults_in_a_row_on_a_held_row_make_one_commit(bench, faults):
    store = LockingStore(bench.store, nth("apply", 1, *faults))
    slow = bench.again(store)
    slow.publisher._known = bench.publisher._known
    bench.commit(wants(1))
    # The first apply is lost, so the next one has the row held.
    (made,) = slow.commit(wants(2))
    store.settle()
    check_log(bench, ["put 0", "put 1", "put 2"])
    assert bench.log()[-1].obj_id == made.head.obj_id


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("resent", [*FAULTS, Fault(FaultKind.OK)], ids=repr)
@pytest.mark.parametrize("steps", [1, 25])
def test_other_commits_between_a_write_and_its_repetition(bench, fault, resent, steps):
    """Looking at the head alone would find the commit of another server there, and write twice."""
    other = bench.again(seed=5)
    faults, wins = [fault, resent], []

    def rival_between(call: PlannedCall) -> Fault | None:
        if call.operation != "apply" or not faults:
            return None
        if len(faults) == 1:
            wins.extend(other.commit(wants(100 + number)) for number in range(steps))
        return faults.pop(0)

    store = FaultyStore(bench.store, OnCalls(rival_between))
    slow = bench.again(store)
    made = slow.commit(wants(1), wants(2))
    store.settle()
    log = operations(bench.log())
    assert sorted(log) == sorted(
        ["put 0", "put 1", "put 2", *(f"put {100 + number}" for number in range(steps))]
    )
    ids = [view.obj_id for view in bench.log()]
    assert all(one.head.obj_id in ids for one in made)
    assert log.index("put 2") == log.index("put 1") + 1
    if fault is LOST:
        assert log[1:3] == ["put 1", "put 2"]


@pytest.mark.parametrize("move", ["assign away", "assign twice", "delete", "delete and create"])
@pytest.mark.parametrize("applied", [True, False])
def test_a_branch_that_was_moved_after_the_lost_reply(bench, move, applied):
    """The walk starts at the old pointer of every later move, too."""
    other = bench.again(seed=5)
    faults = [LOST if applied else Fault(FaultKind.LATE, 1_000)]
    seen = []

    def move_between(call: PlannedCall) -> Fault | None:
        if call.operation != "apply":
            return None
        if faults:
            return faults.pop()
        if not seen:
            seen.append(call)
            head = other.head().obj_id
            if move.startswith("assign"):
                other.names.assign(MAIN, head, EMPTY_ID, Initiator("me"))
                if move == "assign twice":
                    other.commit(wants(50))
                    other.names.assign(MAIN, other.head().obj_id, EMPTY_ID, Initiator("me"))
            else:
                other.names.delete(MAIN, head, Initiator("me"))
                if move == "delete and create":
                    other.names.create_many([branch("main")], Initiator("me"))
        return None

    slow = bench.again(FaultyStore(bench.store, OnCalls(move_between)))
    bound = Wants(plan([put(table(1), element(1))], "mine"), incarnation=bench.row().incarnation)
    try:
        settled: object = slow.publisher.publish([bound])[0]
    except LochanError as error:
        settled = error
    assert seen
    if applied:
        # It was published and acknowledged; that it was moved away is another story.
        assert isinstance(settled, Published)
        assert operations(bench.log()) in ([], ["put 0", "mine"])
    elif move.startswith("assign"):
        assert isinstance(settled, Published)
        assert operations(bench.log()) == ["mine"]
    else:
        assert isinstance(settled, LochanError)
        assert settled.kind == "reference_not_found"


def commit_with_moves_between(bench: Bench, move: Callable[[], None]) -> Published:
    """Commits; the reply is lost, and before the repetition the branch is moved."""
    faults, seen = [LOST], []

    def choose(call: PlannedCall) -> Fault | None:
        if call.operation != "apply":
            return None
        if faults:
            return faults.pop()
        if not seen:
            seen.append(call)
            move()
        return None

    (made,) = bench.again(FaultyStore(bench.store, OnCalls(choose))).commit(wants(1))
    assert operations(bench.log()) == []
    return made


def test_moves_that_left_the_row_are_found_in_the_log(bench):
    other = bench.again(seed=5)

    def move() -> None:
        for _ in range(20):
            other.names.assign(MAIN, other.head().obj_id, EMPTY_ID, Initiator("me"))

    made = commit_with_moves_between(bench, move)
    assert all(one.old != made.head.obj_id for one in bench.row().moves)


def test_moves_that_are_not_yet_in_the_log_are_found_in_the_row(bench):
    def move() -> None:
        other = bench.again(seed=5)
        other.names.assign(MAIN, other.head().obj_id, EMPTY_ID, Initiator("me"))

    made = commit_with_moves_between(bench, move)
    row = bench.row()
    assert row.moves[-1].old == made.head.obj_id
    log = bench.context.moves.fetch_after(MAIN, row.incarnation, 1)
    assert made.head.obj_id not in [one.old for one in log]


def test_a_refusal_beside_a_lost_reply_counts(bench):
    slow, _ = on_apply(bench, LOST)
    made, error, last = slow.publisher.publish(
        [wants(1), Wants(plan([put(table(1), element(2), None)], "no")), wants(2)]
    )
    assert isinstance(error, KeysConflict)
    assert published(last).head.parent == published(made).head.obj_id
    check_log(bench, ["put 0", "put 1", "put 2"])


@pytest.mark.parametrize("applied", [True, False])
def test_what_stays_unknown_is_raised_as_unknown(bench, applied):
    faults = iter([LOST] if applied else [])
    plans = OnCalls(
        lambda call: (
            next(faults, Fault(FaultKind.LATE, 10**6)) if call.operation == "apply" else None
        )
    )
    store = FaultyStore(bench.store, plans)
    slow = bench.again(store)
    with pytest.raises(Unknown, match="unknown whether the commit took effect"):
        slow.publisher.publish([wants(1)])
    elapsed_ms = slow.clock.monotonic_ns() / 1e6
    assert COMMIT_TIMEOUT_MS <= elapsed_ms <= COMMIT_TIMEOUT_MS + 2 * RETRY_SLEEP_MAX_MS
    # All of them arrive after all; one at most can win.
    store.settle()
    check_log(bench, ["put 0", "put 1"])


@pytest.mark.parametrize("operation", ["get", "scan", "get_many"])
@pytest.mark.parametrize("times", [1, 3, None])
def test_a_walk_that_cannot_read_never_says_without_effect(bench, operation, times):
    """Found by review: Unavailable reached the caller of a commit that had taken effect."""
    other = bench.again(seed=5)
    state = {"applies": 0, "left": times}

    def choose(call: PlannedCall) -> Fault | None:
        if call.operation == "apply":
            state["applies"] = (state["applies"] or 0) + 1
            if state["applies"] == 1:
                return LOST
            if state["applies"] == 2:
                other.commit(wants(100))
        elif call.operation == operation and (state["applies"] or 0) >= 2:
            if state["left"] is None:
                return AWAY
            if state["left"]:
                state["left"] -= 1
                return AWAY
        return None

    slow = bench.again(FaultyStore(bench.store, OnCalls(choose)))
    if times is None:
        with pytest.raises(Unknown):
            slow.publisher.publish([wants(1)])
    else:
        slow.commit(wants(1))
    check_log(bench, ["put 0", "put 1", "put 100"])


def test_unavailable_means_without_effect(bench):
    slow, _ = on_apply(bench, *[AWAY] * 500)
    with pytest.raises((Exhausted, Unavailable)):
        slow.publisher.publish([wants(1)])
    check_log(bench, ["put 0"])


@pytest.mark.parametrize("kind", [FaultKind.PARTIAL, FaultKind.LOST_REPLY])
def test_a_store_that_writes_objects_first_may_stop_between(bench, kind):
    for kept in range(3):
        fault = Fault(kind, kept)
        store = FaultyStore(bench.store, nth("apply", 0, fault), atomic_apply=False)
        slow = bench.again(store, seed=20 + kept)
        slow.commit(wants(kept + 1), wants(kept + 11))
    assert len(bench.log()) == 7
    assert len(set(operations(bench.log()))) == 7


@pytest.mark.parametrize("fault", [LOST, AWAY, Fault(FaultKind.PARTIAL, 2)], ids=repr)
@pytest.mark.parametrize("ordinal", range(2))
def test_objects_too_large_for_one_statement_are_sent_again_too(bench, fault, ordinal):
    big = [(bytes([number]) * 32, bytes([number]) * 400_000) for number in range(1, 5)]
    proposal = Wants(plan([put(table(1), element(1))], "big", objects=big))
    operation = ["add_many", "apply"][ordinal]
    if operation == "apply" and fault.kind is FaultKind.PARTIAL:
        fault = Fault(FaultKind.LATE, 2)
    store = FaultyStore(bench.store, nth(operation, 0, fault))
    bench.again(store).commit(proposal)
    store.settle()
    check_log(bench, ["put 0", "big"])


def test_crashes_around_the_swap_leave_nothing_or_everything(bench):
    expected = ["put 0"]
    for number, kind in enumerate([FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER] * 3):
        slow, _ = on_apply(bench, Fault(kind))
        with pytest.raises(SimulatedCrash):
            slow.publisher.publish([wants(number + 1), wants(number + 20)])
        if kind is FaultKind.CRASH_AFTER:
            expected += [f"put {number + 1}", f"put {number + 20}"]
        check_log(bench, expected)


def test_the_same_operation_sent_by_a_client_after_unknown_is_the_same_commit(bench):
    """A retry of one operation on the same parent makes the same id, so nothing is there twice."""
    first = bench.publisher.preview([wants(1)])[0]
    second = bench.again(seed=8).publisher.preview([wants(1)])[0]
    assert published(first).head.obj_id == published(second).head.obj_id
