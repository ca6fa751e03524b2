"""The row protocol under the explorer, with a kind of row that only this test knows.

Each actor adds a power of ten of its own, so that the digits of the total show which additions took
effect, and how often.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.kv.store import Lost, Won
from lochan.persist import rows
from lochan.persist.retry import Retry, RetryPolicy
from lochan.testing.sim import Act, Faults, History, Scenario, Server, World, explore
from tests.profile import counted
from tests.sim import counter_rows
from tests.sim.counter_rows import Counters
from tests.sim.mutants import find_violation

NAME = "visits"
SCHEDULES_MAX = 2_000

Patch = Callable[[pytest.MonkeyPatch], None]


def adder(*digits: int) -> Act:
    """Returns an actor that adds these powers of ten, one after the other."""

    def act(server: Server) -> None:
        counters = Counters(server.store)
        for digit in digits:
            server.attempt("add", add, digit, counters, server)

    return act


def add(digit: int, counters: Counters, server: Server) -> int:
    retry = Retry(server.clock, server.random, server.waiting, RetryPolicy())
    return counters.add(NAME, 10**digit, server.random, retry)


def check_each_addition_counts_once(world: World, history: History) -> None:
    found = Counters(world.store).fetch(NAME)
    total = 0 if found is None else found.row.total
    for event in history:
        digit = event.arguments[0]
        assert isinstance(digit, int)
        times = total // 10**digit % 10
        possible = (0, 1) if event.uncertain else (int(event.acknowledged),)
        assert times in possible, f"{event} took effect {times} times"


COUNTERS = Scenario(
    name="counters on two servers",
    servers={"s1": [adder(0, 1), adder(2)], "s2": [adder(3), adder(4)]},
    checks={"each addition counts once": check_each_addition_counts_once},
    faults=Faults(lost_reply=0.12, late=0.12, not_applied=0.1, crash_after=0.03, most=4),
)


def test_a_new_kind_of_row_costs_at_most_fifty_lines():
    assert len(Path(counter_rows.__file__).read_text().splitlines()) <= 50


def test_a_new_kind_of_row_is_right_under_lost_replies_and_crashes():
    report = explore(COUNTERS, counted(1_000, 10_000))
    assert min(report.lost_replies, report.late, report.not_applied, report.crashes) > 20


def no_second_write_after_unknown(patch: pytest.MonkeyPatch) -> None:
    def look_only(send, find_done, *_):
        try:
            return send()
        except Unknown:
            return find_done() or Lost(None)

    patch.setattr(rows, "send_until_known", look_only)


def unknown_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    right = rows.send_until_known

    def never_look(send, find_done, *others):
        return right(send, lambda: None, *others)

    patch.setattr(rows, "send_until_known", never_look)


def the_last_write_is_compared_and_not_the_operation_id(patch: pytest.MonkeyPatch) -> None:
    def contains(self, written):
        found = self.fetch(written.name)
        return found is not None and found.row == written

    patch.setattr(Counters, "contains", contains)


def unavailable_after_unknown_counts_as_no_effect(patch: pytest.MonkeyPatch) -> None:
    def trusting(send, find_done, retry, doubt):
        in_doubt = False
        while True:
            try:
                outcome = send()
                if isinstance(outcome, Won) or not in_doubt:
                    return outcome
                return find_done() or outcome
            except Unknown:
                in_doubt = True
            except Unavailable:
                raise
            retry.again()

    patch.setattr(rows, "send_until_known", trusting)


@pytest.mark.parametrize(
    "mutant",
    [
        no_second_write_after_unknown,
        unknown_counts_as_lost,
        the_last_write_is_compared_and_not_the_operation_id,
        unavailable_after_unknown_counts_as_no_effect,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_the_explorer_finds(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    violation = find_violation([COUNTERS], SCHEDULES_MAX)
    assert violation.invariant == "each addition counts once"
