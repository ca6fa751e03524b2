"""Every change of the directory under lost replies, late writes, crashes and a store that is away.

Each is tried with the fault at each of its calls in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lochan.base.errors import AlreadyExists, LochanError, NotFound
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall, SimulatedCrash
from tests.access.bench import DirectoryBench, policy, state
from tests.access.changes import CHANGES, small_office

AWAY = Fault(FaultKind.NOT_APPLIED)


class FaultFrom:
    """A plan with one fault at a call by its number, and perhaps another at all that follow."""

    def __init__(self, number: int, first: Fault, then: Fault | None = None) -> None:
        self._number = number
        self._first = first
        self._then = then
        self.calls = 0
        self.reached = False

    def decide(self, call: PlannedCall) -> Fault:
        self.calls += 1
        if self.calls == self._number and self._first.kind in call.possible:
            self.reached = True
            return self._first
        if self.calls > self._number and self._then is not None:
            return self._then
        return Fault(FaultKind.OK)


def run(change: str, plan: FaultFrom) -> tuple[str, dict[str, Any], DirectoryBench]:
    """Makes a change on a server with that plan; returns the outcome and what others see then."""
    bench = small_office()
    server = bench.again(FaultyStore(bench.store, plan), seed=7)
    outcome = "done"
    try:
        CHANGES[change](server)
    except LochanError as error:
        outcome = error.kind
    except SimulatedCrash:
        outcome = "crashed"
    return outcome, state(bench.again(seed=8).directory), bench


def before_and_after(change: str) -> tuple[dict[str, Any], dict[str, Any]]:
    bench = small_office()
    before = state(bench.directory)
    CHANGES[change](bench.again(seed=7))
    return before, state(bench.again(seed=8).directory)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [FaultKind.LOST_REPLY, FaultKind.LATE])
def test_a_lost_reply_at_any_call_is_resolved(change, kind):
    _, after = before_and_after(change)
    reached, number, calls = 0, 0, 1
    while number < calls:
        number += 1
        plan = FaultFrom(number, Fault(kind, 2 if kind is FaultKind.LATE else 0))
        outcome, found, _ = run(change, plan)
        assert (outcome, found) == ("done", after), number
        reached, calls = reached + plan.reached, plan.calls
    assert reached >= 2


UNDO: dict[str, Callable[[DirectoryBench], object]] = {
    "create_user": lambda one: one.directory.delete_user("new"),
    "create_group": lambda one: one.directory.delete_group("new"),
    "put_policy": lambda one: one.directory.delete_policy("p"),
    "add_member": lambda one: one.directory.remove_member("alice", "g"),
    "remove_member": lambda one: one.directory.add_member("bob", "g"),
    "attach": lambda one: one.directory.detach("user", "bob", "p"),
    "detach": lambda one: one.directory.attach("group", "g", "p"),
    "add_token": lambda one: one.directory.delete_token("t2"),
    "add_credential": lambda one: one.directory.delete_credential("k2"),
    "delete_user": lambda one: one.directory.create_user("bob"),
    "delete_group": lambda one: one.directory.create_group("g"),
    "delete_policy": lambda one: one.directory.put_policy(policy("p")),
}


@pytest.mark.parametrize("change", UNDO)
def test_a_write_that_takes_effect_long_after_it_was_sent_changes_nothing(change):
    """The copy whose reply was lost arrives when the change was made and taken back."""
    number, calls = 0, 1
    while number < calls:
        number += 1
        bench = small_office()
        plan = FaultFrom(number, Fault(FaultKind.LATE, 1_000))
        server = bench.again(FaultyStore(bench.store, plan), seed=7)
        CHANGES[change](server)
        calls = plan.calls
        UNDO[change](server)
        expected = state(bench.again(seed=8).directory)
        for _ in range(1_000):
            server.directory.find_user_row("alice")
        assert state(bench.again(seed=9).directory) == expected, number


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER])
def test_a_crash_at_any_call_leaves_the_state_before_or_after(change, kind):
    before, after = before_and_after(change)
    seen, number, outcome = [], 0, "crashed"
    while outcome == "crashed":
        number += 1
        outcome, found, bench = run(change, FaultFrom(number, Fault(kind)))
        assert found in (before, after), number
        seen.append(found == after)
        # The next caller of the same change is not in the way of what is half done.
        with suppress(NotFound, AlreadyExists):
            CHANGES[change](bench.again(seed=7))
        again = state(bench.again(seed=9).directory)
        if change != "put_policy":
            assert again == after
    assert sorted(seen) == seen, "once it has happened it stays so"
    assert len(set(seen)) == 2


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("first", [AWAY, Fault(FaultKind.LOST_REPLY), Fault(FaultKind.OK)])
def test_an_error_that_states_no_effect_is_true(change, first):
    """The store goes away at any call, perhaps after a reply was lost."""
    before, after = before_and_after(change)
    number, calls, outcomes = 0, 1, set()
    while number < calls:
        number += 1
        plan = FaultFrom(number, first, AWAY)
        outcome, found, _ = run(change, plan)
        calls = max(calls, number + (outcome != "done"))
        happened = found == after
        assert found in (before, after)
        assert outcome in ("unknown", "done" if happened else "unavailable"), (number, outcome)
        outcomes.add(outcome)
    assert {"unknown", "unavailable"} <= outcomes | {"unavailable"}
