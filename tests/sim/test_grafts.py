"""Work that is prepared outside the lane leaves what the plain model of history predicts.

The checks are those of mixed chains: every commit is what the model works out on its parent, and
what was refused is refused by the model on a head that the branch had meanwhile.
"""

from __future__ import annotations

import pytest

from lochan.testing.sim import explore
from tests.profile import counted
from tests.sim.graft_scenarios import SCENARIOS

SCHEDULES = counted(60, 2_000)
DISTINCT_MIN = 0.8


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_was_prepared_is_what_the_model_makes_of_the_head(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES
    assert report.distinct >= SCHEDULES * DISTINCT_MIN
    assert report.lost_replies >= SCHEDULES / 20
