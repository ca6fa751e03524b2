"""Two servers on one branch: stale memory never refuses wrongly, lost swaps are tried again."""

from __future__ import annotations

import pytest

from lochan.base.errors import Exhausted, HeadConflict, KeysConflict, NotFound, Unavailable
from lochan.base.ids import EMPTY_ID
from lochan.base.keys import Universe
from lochan.base.limits.commits import COMMIT_TIMEOUT_MS, RETRY_SLEEP_MAX_MS
from lochan.base.names import RefName
from lochan.kernel.plan import CommitPlan
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.testing.faults import FaultKind, FaultyStore
from tests.kernel.workbench import (
    MAIN,
    Bench,
    LockingStore,
    OnCalls,
    Reacts,
    Wants,
    branch,
    counted,
    element,
    operations,
    plan,
    published,
    put,
    table,
    wants,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_refusal_on_a_stale_row_is_computed_again(bench):
    other = bench.again()
    bench.commit(wants(1))
    other.commit(Wants(plan([put(table(1), None)], "removed")))
    # What the first server remembers would refuse this.
    (made,) = bench.publisher.publish([Wants(plan([put(table(1), element(2), None)], "free"))])
    assert published(made).head.sequence == 3
    assert operations(bench.log()) == ["put 1", "removed", "free"]


def test_nothing_to_do_on_a_stale_row_is_computed_again(bench):
    other = bench.again()
    bench.commit(wants(1))
    other.commit(wants(2))
    react = Reacts(lambda head: list(wants(3).plans) if head.find([table(2)])[table(2)] else [])
    (made,) = bench.publisher.publish([react])
    assert len(published(made).commits) == 1
    assert operations(bench.log()) == ["put 1", "put 2", "put 3"]


def test_a_true_refusal_costs_one_read_and_stays_one(bench):
    bench.commit(wants(1))
    store, counts = counted(bench.store)
    warm = bench.again(store)
    warm.commit(wants(2))
    for _ in range(3):
        counts.reset()
        (error,) = warm.publisher.publish([Wants(plan([put(table(1), element(2), None)]))])
        assert isinstance(error, KeysConflict)
        assert counts.calls == {"get": 1}


def test_a_refusal_ends_though_another_server_moves_the_branch_at_every_read(bench):
    """Found by review: a row that was read for the last attempt had aged before the next one."""
    bench.commit(wants(1))
    other = bench.again(seed=3)
    moved = []

    def move_first(call):
        if call.operation == "get":
            moved.append(other.commit(wants(100 + len(moved))))

    rival = bench.again(FaultyStore(bench.store, OnCalls(move_first)))
    rival.publisher._known = bench.publisher._known
    (error,) = rival.publisher.publish([Wants(plan([put(table(1), element(2), None)]))])
    assert isinstance(error, KeysConflict)
    assert len(moved) <= 4


def test_a_swap_lost_to_another_server_is_tried_again_on_the_new_head(bench):
    other = bench.again()
    bench.commit(wants(1))
    for number in range(2, 12):
        [bench, other][number % 2].commit(wants(number))
    assert operations(bench.log()) == [f"put {number}" for number in range(1, 12)]
    assert set(bench.content(bench.head(), Universe.TABLES)) == {table(n) for n in range(1, 12)}


def test_same_key_and_same_expectation_have_one_winner_on_two_servers(bench):
    other = bench.again()
    bench.commit(wants(1))
    other.commit(wants(2))
    for number in range(10, 20):
        wish = plan([put(table(number), element(number), None)], f"{number}")
        first = bench.publisher.publish([Wants(wish)])[0]
        second = other.publisher.publish([Wants(wish)])[0]
        assert published(first).commits
        assert isinstance(second, KeysConflict)


def rivals_before_every_apply(bench: Bench, limit: int | None = None) -> tuple[FaultyStore, list]:
    """A store on which another server wins before each of our swaps."""
    other, wins = bench.again(seed=77), []

    def win_first(call):
        if call.operation == "apply" and (limit is None or len(wins) < limit):
            wins.append(other.commit(wants(1_000 + len(wins))))

    return FaultyStore(bench.store, OnCalls(win_first)), wins


def test_retries_are_bounded_and_exhaustion_names_attempts_and_time(bench):
    store, wins = rivals_before_every_apply(bench)
    slow = bench.again(store)
    with pytest.raises(Exhausted) as caught:
        slow.publisher.publish([wants(1)])
    elapsed_ms = slow.clock.monotonic_ns() / 1e6
    assert f"after {len(wins)} attempts" in caught.value.message
    assert f"in {elapsed_ms:.0f} ms" in caught.value.message
    assert COMMIT_TIMEOUT_MS <= elapsed_ms < COMMIT_TIMEOUT_MS + RETRY_SLEEP_MAX_MS + 1
    assert 10 < len(wins) < 100
    assert "put 1" not in operations(bench.log())
    assert len(bench.log()) == len(wins)


def test_sleeps_grow_and_are_bounded_and_the_first_retry_does_not_sleep(bench):
    store, wins = rivals_before_every_apply(bench, 12)
    slow = bench.again(store)
    slow.commit(wants(1))
    sleeps = slow.waiting.sleeps_ms
    assert len(sleeps) == len(wins) - 1
    assert 5 <= sleeps[0] <= 25
    assert all(sleep <= RETRY_SLEEP_MAX_MS for sleep in sleeps)
    assert all(sleep >= RETRY_SLEEP_MAX_MS - 1 for sleep in sleeps[7:])
    assert operations(bench.log())[-1] == "put 1"


def test_members_keep_their_plans_over_lost_swaps_and_the_chain_stays_whole(bench):
    store, wins = rivals_before_every_apply(bench, 3)
    slow = bench.again(store)
    slow.commit(wants(1), wants(2), wants(3))
    assert operations(bench.log())[len(wins) :] == ["put 1", "put 2", "put 3"]


def test_a_store_that_is_away_for_a_while_is_tried_again(bench):
    away = [FaultKind.NOT_APPLIED] * 4
    plans = OnCalls(lambda call: away.pop() if call.operation == "apply" and away else None)
    slow = bench.again(FaultyStore(bench.store, plans))
    slow.commit(wants(1))
    assert operations(bench.log()) == ["put 1"]


def test_a_store_that_stays_away_is_exhausted_and_nothing_is_written(bench):
    plans = OnCalls(lambda call: FaultKind.NOT_APPLIED if call.operation == "apply" else None)
    slow = bench.again(FaultyStore(bench.store, plans))
    with pytest.raises(Exhausted):
        slow.publisher.publish([wants(1)])
    assert bench.log() == []


def test_a_row_that_cannot_be_read_is_unavailable(bench):
    # The first two calls open the repository.
    plans = OnCalls(lambda call: None if call.ordinal < 2 else FaultKind.NOT_APPLIED)
    slow = bench.again(FaultyStore(bench.store, plans))
    with pytest.raises(Unavailable):
        slow.publisher.publish([wants(1)])
    assert bench.log() == []


def test_a_branch_that_is_assigned_by_another_server_is_followed(bench):
    bench.commit(wants(1))
    bench.commit(wants(2))
    first = bench.log()[0].obj_id
    bench.again().names.assign(MAIN, bench.head().obj_id, first, Initiator("me"))
    bench.commit(wants(3))
    assert operations(bench.log()) == ["put 1", "put 3"]
    with pytest.raises(HeadConflict):
        bench.names.assign(MAIN, first, EMPTY_ID, Initiator("me"))


def test_a_branch_deleted_and_created_again_takes_commits_of_who_does_not_mind(bench):
    bench.commit(wants(1))
    other = bench.again()
    old = bench.row().incarnation
    other.names.delete(MAIN, bench.head().obj_id, Initiator("me"))
    other.names.create_many([branch("main")], Initiator("me"))
    bound = Wants(plan([], "bound"), incarnation=old)
    error, made = bench.publisher.publish([bound, wants(2)])
    assert isinstance(error, NotFound)
    assert published(made).head.sequence == 1


def test_rows_are_held_after_a_lost_swap_and_for_eight_undisturbed_rounds():
    base = Bench()
    plans = OnCalls(lambda _: None)
    bench = base.again(LockingStore(base.store, plans))
    bench.commit(wants(1))
    base.commit(wants(2))

    def calls(number: int) -> list[str]:
        plans.seen.clear()
        bench.commit(wants(number))
        return [call.operation for call in plans.seen if call.operation in ("hold", "apply")]

    assert calls(3) == ["apply", "hold", "apply"]
    rounds = [calls(number) for number in range(4, 16)]
    held = rounds.count(["hold", "apply"])
    assert held == 8
    assert rounds[:held] == [["hold", "apply"]] * held
    assert rounds[held:] == [["apply"]] * (12 - held)
    base.commit(wants(16))
    assert calls(17) == ["apply", "hold", "apply"]
    assert operations(base.log()) == [f"put {number}" for number in range(1, 18)]


def test_a_held_row_is_given_up_whatever_happens(monkeypatch):
    released = []
    base = Bench()
    monkeypatch.setattr("lochan.kv.defaults.PlainHold.release", lambda _: released.append(1))
    bench = base.again(LockingStore(base.store, OnCalls(lambda _: None)))
    bench.commit(wants(1))
    base.commit(wants(2))
    bench.commit(wants(3))
    (error,) = bench.publisher.publish([Wants(plan([put(table(1), element(2), None)]))])
    assert isinstance(error, KeysConflict)

    def broken(_: object) -> list[CommitPlan]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.publisher.publish([Reacts(broken)])
    bench.names.delete(MAIN, base.head().obj_id, Initiator("me"))
    with pytest.raises(NotFound):
        bench.publisher.publish([wants(4)])
    assert len(released) == 4


def test_branches_do_not_disturb_each_other(bench):
    bench.names.create_many([branch("side")], Initiator("me"))
    side = Publisher(bench.context, RefName("side"))
    for number in range(20):
        bench.commit(wants(number))
        side.publish([wants(100 + number)])
    assert len(bench.log()) == len(bench.log(RefName("side"))) == 20
    assert not set(operations(bench.log())) & set(operations(bench.log(RefName("side"))))
