"""Quotas by caller and by repository: one that takes much waits or is refused, others are not."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import TooManyRequests
from lochan.base.limits.quotas import (
    PRINCIPAL_BODIES_BYTES_MAX,
    PRINCIPAL_STREAMS_MAX,
    PRINCIPAL_WAITING_MAX,
    QUOTA_IDLE_S,
    TURN_FREE_REQUESTS_MAX,
)
from lochan.transport.fair_queue import FairQueue
from lochan.transport.quotas import QuotaLimits, Quotas


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def started():
    return []


def quotas_of(clock, **limits) -> Quotas:
    return Quotas(QuotaLimits(**limits), clock)


def entering(quotas: Quotas, started: list[str]):
    """Enters requests, each with a name under which its start is noted."""

    def enter(caller: str, called: str, repository: str | None = None, body_bytes: int = 0):
        return quotas.enter(caller, repository, body_bytes, lambda: started.append(called))

    return enter


# The accounts by themselves.


def test_requests_over_the_number_of_their_caller_wait_in_order_and_others_do_not(clock, started):
    quotas = quotas_of(clock, principal_requests_max=2)
    enter = entering(quotas, started)
    noisy = [enter("noisy", str(number)) for number in range(5)]
    assert [each.is_running for each in noisy] == [True, True, False, False, False]
    assert enter("quiet", "quiet").is_running
    quotas.leave(noisy[1])
    assert started == ["2"]
    quotas.leave(noisy[0])
    quotas.leave(noisy[2])
    assert started == ["2", "3", "4"]


def test_while_others_are_active_a_caller_has_fewer_under_way(clock, started):
    quotas = quotas_of(clock, principal_requests_max=4, shared_requests_max=2)
    enter = entering(quotas, started)
    noisy = [enter("noisy", str(number)) for number in range(6)]
    assert [each.is_running for each in noisy] == [True] * 4 + [False] * 2
    assert enter("quiet", "quiet").is_running
    for each in noisy[:2]:
        quotas.leave(each)
    assert started == []
    quotas.leave(noisy[2])
    assert started == ["4"]
    # The quiet one is forgotten; what waited stays in order.
    quotas._accounts.pop("quiet")
    assert not enter("noisy", "6").is_running
    quotas.leave(noisy[3])
    assert started == ["4", "5", "6"]


def test_a_request_that_is_given_up_while_it_waits_is_not_started(clock, started):
    quotas = quotas_of(clock, principal_requests_max=1)
    enter = entering(quotas, started)
    first, second, third = (enter("a", str(number)) for number in range(3))
    quotas.leave(second)
    quotas.leave(first)
    assert started == ["2"]
    quotas.leave(third)
    assert enter("a", "next").is_running


def test_a_full_queue_refuses_its_caller_and_no_other(clock, started):
    quotas = quotas_of(clock, principal_requests_max=1)
    enter = entering(quotas, started)
    for number in range(1 + PRINCIPAL_WAITING_MAX):
        enter("noisy", str(number))
    with pytest.raises(TooManyRequests, match="1000 requests of this caller wait") as refused:
        enter("noisy", "more")
    assert refused.value.retry_after_s == 1
    assert refused.value.public_message == refused.value.message
    assert enter("quiet", "quiet").is_running


def test_what_waits_holds_a_bounded_number_of_bytes(clock, started):
    quotas = quotas_of(clock, principal_requests_max=1)
    enter = entering(quotas, started)
    first = enter("a", "first", body_bytes=PRINCIPAL_BODIES_BYTES_MAX)
    enter("a", "second", body_bytes=PRINCIPAL_BODIES_BYTES_MAX - 10)
    with pytest.raises(TooManyRequests):
        enter("a", "third", body_bytes=11)
    enter("a", "fourth", body_bytes=10)
    quotas.leave(first)
    assert started == ["second"]
    enter("a", "fifth", body_bytes=1_000)


def test_callers_take_turns_for_a_repository_that_is_full(clock, started):
    quotas = quotas_of(clock, repository_requests_max=1)
    enter = entering(quotas, started)
    running_now = enter("a", "a0", "full")
    assert enter("a", "elsewhere", "other").is_running
    assert enter("a", "nowhere").is_running
    waiting = {name: enter(name[0], name, "full") for name in ("a1", "a2", "a3", "b1", "c1", "b2")}
    assert not any(each.is_running for each in waiting.values())
    for _ in range(6):
        quotas.leave(running_now)
        running_now = waiting[started[-1]]
    assert started == ["a1", "b1", "c1", "a2", "b2", "a3"]
    quotas.leave(running_now)
    assert not quotas._repositories.keys() & {"full"}


def test_a_caller_whose_request_waits_for_a_repository_may_leave(clock, started):
    quotas = quotas_of(clock, repository_requests_max=1, principal_requests_max=1)
    enter = entering(quotas, started)
    first = enter("a", "a", "full")
    second = enter("b", "b", "full")
    third = enter("b", "b again", "full")
    quotas.leave(second)
    quotas.leave(first)
    assert started == ["b again"]
    quotas.leave(third)
    assert quotas._repositories == {}


def test_a_caller_may_send_so_many_requests_a_second(clock, started):
    quotas = quotas_of(clock, principal_requests_per_s=2.0)
    enter = entering(quotas, started)
    enter("a", "1")
    enter("a", "2")
    with pytest.raises(TooManyRequests, match="2 requests a second") as refused:
        enter("a", "3")
    assert refused.value.retry_after_s == 1
    enter("b", "other")
    clock.now_s += 0.5
    enter("a", "4")
    with pytest.raises(TooManyRequests):
        enter("a", "5")
    clock.now_s += 1_000
    for number in range(2):
        enter("a", str(number))
    with pytest.raises(TooManyRequests):
        enter("a", "6")


def test_a_slow_rate_names_the_time_to_wait(clock, started):
    quotas = quotas_of(clock, principal_requests_per_s=0.1)
    enter = entering(quotas, started)
    enter("a", "1")
    with pytest.raises(TooManyRequests) as refused:
        enter("a", "2")
    assert refused.value.retry_after_s == 10


def test_streams_have_a_number_of_their_own(clock, started):
    quotas = quotas_of(clock, principal_requests_max=1)
    for _ in range(PRINCIPAL_STREAMS_MAX):
        quotas.enter_stream("a")
    with pytest.raises(TooManyRequests, match="streams"):
        quotas.enter_stream("a")
    quotas.enter_stream("b")
    assert entering(quotas, started)("a", "request").is_running
    quotas.leave_stream("a")
    quotas.enter_stream("a")


def test_bodies_of_one_caller_have_a_share(clock):
    quotas = quotas_of(clock)
    granted: list[str] = []
    half = PRINCIPAL_BODIES_BYTES_MAX // 2
    shares = [
        quotas.reserve_body("a", size, partial(granted.append, name))
        for name, size in (("1", half), ("2", half), ("3", half), ("4", 1))
    ]
    assert granted == ["1", "2"]
    quotas.reserve_body("b", half, lambda: granted.append("b"))
    assert granted == ["1", "2", "b"]
    quotas.release_body(shares[2])
    assert granted == ["1", "2", "b"]
    quotas.release_body(shares[0])
    assert granted == ["1", "2", "b", "4"]


def test_a_body_larger_than_the_share_is_granted_alone(clock):
    quotas = quotas_of(clock)
    granted: list[int] = []
    share = quotas.reserve_body("a", 2 * PRINCIPAL_BODIES_BYTES_MAX, lambda: granted.append(1))
    quotas.reserve_body("a", 1, lambda: granted.append(2))
    assert granted == [1]
    quotas.release_body(share)
    assert granted == [1, 2]


def test_callers_that_are_idle_are_forgotten(clock, started):
    quotas = quotas_of(clock)
    enter = entering(quotas, started)
    for number in range(1_000):
        quotas.leave(enter(f"caller {number}", ""))
    kept = enter("busy", "")
    quotas.enter_stream("streams")
    assert quotas.is_shared
    for _ in range(3):
        quotas.forget_idle(clock.now_s)
        clock.now_s += QUOTA_IDLE_S
    assert sorted(quotas._accounts) == ["busy", "streams"]
    quotas.leave(kept)
    quotas.leave_stream("streams")
    for _ in range(3):
        quotas.forget_idle(clock.now_s)
        clock.now_s += QUOTA_IDLE_S
    assert not quotas._accounts
    assert not quotas.is_shared


def test_only_a_caller_with_many_requests_takes_turns_and_only_beside_others(clock, started):
    quotas = quotas_of(clock)
    enter = entering(quotas, started)
    noisy = [enter("noisy", "") for _ in range(TURN_FREE_REQUESTS_MAX + 1)]
    assert not quotas.takes_turns(noisy[-1]), "there is no other caller"
    quiet = enter("quiet", "")
    assert quotas.takes_turns(noisy[-1])
    assert not quotas.takes_turns(quiet)
    quotas.leave(noisy.pop())
    assert not quotas.takes_turns(noisy[-1])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60))
def test_however_requests_come_and_go_the_numbers_hold_and_nothing_is_left(steps):
    """Compared with counting: (caller, repository, leave the oldest instead)."""
    quotas = Quotas(QuotaLimits(principal_requests_max=2, repository_requests_max=3), lambda: 0.0)
    tickets: list[SimpleNamespace] = []

    def check() -> None:
        active = [each for each in tickets if each.ticket.is_running]
        for name in ("c0", "c1", "c2"):
            mine = [each for each in tickets if each.ticket.name == name]
            assert sum(each.ticket.holds_caller for each in mine) == min(2, len(mine))
        for name in ("r0", "r1", "r2"):
            assert sum(each.ticket.repository == name for each in active) <= 3
            waiting = [
                each
                for each in tickets
                if each.ticket.repository == name
                and each.ticket.holds_caller
                and not each.ticket.is_running
            ]
            free = 3 - sum(each.ticket.repository == name for each in active)
            assert not waiting or not free
        assert all(each.started == each.ticket.is_running for each in tickets)

    for caller, repository, leaves in steps:
        if leaves and tickets:
            quotas.leave(tickets.pop(repository % len(tickets)).ticket)
        else:
            entered = SimpleNamespace(started=False)
            entered.ticket = quotas.enter(
                f"c{caller}",
                f"r{repository}",
                0,
                partial(setattr, entered, "started", True),
            )
            entered.started = entered.started or entered.ticket.is_running
            tickets.append(entered)
        check()
    while tickets:
        quotas.leave(tickets.pop().ticket)
        check()
    assert quotas._repositories == {}
    assert all(each.is_idle for each in quotas._accounts.values())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_in_a_fair_queue_owners_take_turns_and_each_keeps_its_order(steps):
    queue: FairQueue[tuple[str, int]] = FairQueue()
    inside: dict[str, list[int]] = {}
    number = 0
    for owner, takes in steps:
        if takes and queue:
            taken, at = queue.pop()
            assert inside[taken].pop(0) == at
        else:
            number += 1
            queue.add(owner, (owner, number))
            inside.setdefault(owner, []).append(number)
        assert len(queue) == sum(map(len, inside.values()))
        assert [queue.has(each) for each in "abc"] == [bool(inside.get(each)) for each in "abc"]
    order = [queue.pop()[0] for _ in range(len(queue))]
    # Every owner has a turn early, however much the others have inside.
    owners = {each for each, left in inside.items() if left}
    assert set(order[: 2 * len(owners) + 1]) == owners


def test_one_item_does_not_wait_for_all_owners_with_many_and_they_are_not_starved():
    queue: FairQueue[str] = FairQueue()
    for owner in "abcdefgh":
        for _ in range(100):
            queue.add(owner, owner)
    for _ in range(16):
        queue.pop()
    turns = []
    for number in range(80):
        queue.add("quiet", "quiet")
        queue.add(f"another {number}", "another")
        turns.append([queue.pop() for _ in range(3)])
    assert all({"quiet", "another"} < set(each) for each in turns)
    served = [each for turn in turns for each in turn if len(each) == 1]
    assert [served.count(each) for each in "abcdefgh"] == [10] * 8
    # If so many come that they alone fill all turns, the others still get some.
    for number in range(100):
        queue.add(f"first {number}", "first")
    assert [queue.pop() for _ in range(100)].count("first") == 80
