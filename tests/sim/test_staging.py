"""Staged files keep their promises under every schedule tried; what is not promised is found."""

from __future__ import annotations

import pytest

from lochan.staging import committer
from lochan.testing.sim import crash_sweep, explore
from tests.profile import counted
from tests.sim.mutants import find_violation
from tests.sim.staging_scenarios import ANOMALIES, SCENARIOS, commits, in_turn, reads, writes

SCHEDULES = counted(110, 2_200)

# Interleavings that differ in the order of conflicting calls; together at least 20,000 in `deep`.
DISTINCT_MIN = {
    "conditional writes": counted(80, 800),
    "a branch that is moved forward": counted(90, 1_700),
    "deletions and overwrites": counted(90, 1_700),
    "writers without faults": counted(60, 600),
    "reads that actors of one server share": counted(50, 250),
}
DISTINCT_MIN_ELSE = counted(98, 1_900)

FOLLOW_UPS = {
    "read": reads("x"),
    "write and commit": in_turn(writes("x", "after"), commits("after")),
    "commit": commits("after"),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_promise_holds_under_every_schedule(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES
    assert report.distinct >= DISTINCT_MIN.get(scenario.name, DISTINCT_MIN_ELSE)
    assert report.rechecked >= SCHEDULES / 20


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_commits_whose_files_are_streamed_keep_the_same_promises(
    scenario, monkeypatch, record_property
):
    monkeypatch.setattr(committer, "_OPERATIONS_MAX", 0)
    report = explore(scenario, schedules=counted(40, 700))
    record_property("counted", report.line())


def test_the_counts_together_are_what_is_promised():
    names = [scenario.name for scenario in SCENARIOS]
    together = sum(DISTINCT_MIN.get(name, DISTINCT_MIN_ELSE) for name in names)
    assert together >= counted(1_100, 20_000)


@pytest.mark.parametrize("scenario", SCENARIOS[:2], ids=lambda scenario: scenario.name)
def test_a_server_may_die_at_any_call(scenario, record_property):
    report = crash_sweep(scenario, FOLLOW_UPS, late=True, one_in=counted(7, 1))
    record_property("counted", report.line())
    assert report.reached > counted(15, 100)


@pytest.mark.parametrize("scenario", ANOMALIES, ids=lambda scenario: scenario.name)
def test_what_is_not_promised_is_found(scenario):
    violation = find_violation([scenario], 5_000)
    assert scenario.name in str(violation)
