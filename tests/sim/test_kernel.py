"""The kernel holds its promises under every schedule tried; counts are printed."""

from __future__ import annotations

import pytest

from lochan.testing.sim import explore
from tests.sim.kernel_scenarios import SCENARIOS

SCHEDULES = 3_000


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_promise_holds_under_every_schedule(scenario):
    report = explore(scenario, schedules=SCHEDULES)
    print(report.line())
    assert report.schedules == SCHEDULES
    assert report.lost_replies > SCHEDULES / 20
