"""The kernel keeps its promises under every schedule tried; the counts are printed at the end."""

from __future__ import annotations

import pytest

from lochan.testing.sim import explore
from tests.profile import counted
from tests.sim.kernel_scenarios import SCENARIOS

SCHEDULES = counted(250, 2_500)

# Interleavings that differ in the order of conflicting calls; together at least 20,000 in `deep`.
DISTINCT_MIN = {
    "expectations on one key": counted(75, 300),
    "proposals of several commits": counted(200, 1_500),
}
DISTINCT_MIN_ELSE = counted(220, 2_050)
DISTINCT_MIN_TOGETHER = counted(2_000, 20_000)
LOST_REPLIES_MIN = SCHEDULES * 2 // 25


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
