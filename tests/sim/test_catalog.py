"""The catalog keeps its promises under every schedule tried; the counts are printed at the end."""

from __future__ import annotations

import pytest

from lochan.testing.sim import explore
from tests.profile import counted
from tests.sim.catalog_scenarios import SCENARIOS

SCHEDULES = counted(60, 600)

# Interleavings that differ in the order of conflicting calls; together at least 5,000 in `deep`.
DISTINCT_MIN = {"a branch whose maker dies": counted(50, 400)}
DISTINCT_MIN_ELSE = counted(55, 515)
DISTINCT_MIN_TOGETHER = counted(500, 5_000)
LOST_REPLIES_MIN = SCHEDULES // 6


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_promise_holds_under_every_schedule(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES
    assert report.distinct >= DISTINCT_MIN.get(scenario.name, DISTINCT_MIN_ELSE)
    assert report.lost_replies >= LOST_REPLIES_MIN
    assert report.rechecked >= SCHEDULES / 20


def test_the_counts_together_are_what_is_promised():
    names = [scenario.name for scenario in SCENARIOS]
    assert DISTINCT_MIN.keys() <= set(names)
    together = sum(DISTINCT_MIN.get(name, DISTINCT_MIN_ELSE) for name in names)
    assert together >= DISTINCT_MIN_TOGETHER
