"""The catalog keeps its promises under every schedule tried; the counts are told at the end."""

from __future__ import annotations

import pytest

from lochan.testing.sim import explore
from tests.sim.catalog_scenarios import SCENARIOS

SCHEDULES = 500

# Interleavings that differ in the order of conflicting calls; together at least 3,500.
DISTINCT_MIN = {"a branch whose maker dies": 350}
DISTINCT_MIN_ELSE = 450
LOST_REPLIES_MIN = 100


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_promise_holds_under_every_schedule(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("told", report.line())
    assert report.schedules == SCHEDULES
    assert report.distinct >= DISTINCT_MIN.get(scenario.name, DISTINCT_MIN_ELSE)
    assert report.lost_replies >= LOST_REPLIES_MIN
    assert report.rechecked >= SCHEDULES / 20
