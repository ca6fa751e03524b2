"""Chains of mixed proposals leave what the plain model of history predicts, in every schedule.

Each schedule draws its own requests from its seed, so it is another mix as well as another
interleaving. `LOCHAN_TEST_PROFILE=deep` runs the full counts.
"""

from __future__ import annotations

import pytest

from lochan.testing.sim import RandomChooser, Stage, explore, replay, run
from tests.profile import counted
from tests.sim.mixed_scenarios import AGAIN, CATALOG_MOVES, SCENARIOS

SCHEDULES = counted(230, 2_300)

# Shares of interleavings that differ in the order of conflicting calls; together at least 20,000 in
# the deep profile. Schedules with other requests and the same order of calls count as one.
DISTINCT_MIN = {AGAIN: 0.4, CATALOG_MOVES: 0.75}
DISTINCT_MIN_ELSE = 0.85
DISTINCT_MIN_TOGETHER = counted(2_000, 20_000)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_commit_and_every_answer_is_that_of_the_model(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES
    assert report.distinct >= SCHEDULES * DISTINCT_MIN.get(scenario.name, DISTINCT_MIN_ELSE)
    assert report.lost_replies >= SCHEDULES / 20
    assert report.rechecked >= SCHEDULES / 20


def test_the_counts_together_are_what_is_promised():
    names = [scenario.name for scenario in SCENARIOS]
    assert DISTINCT_MIN.keys() <= set(names)
    shares = [DISTINCT_MIN.get(name, DISTINCT_MIN_ELSE) for name in names]
    assert sum(shares) * SCHEDULES >= DISTINCT_MIN_TOGETHER


def test_what_a_schedule_draws_is_in_its_trace():
    scenario = SCENARIOS[1]
    first, second = (run(Stage(scenario), RandomChooser(seed)) for seed in (3, 4))
    again = replay(scenario, first.trace.text())
    assert again.history.text() == first.history.text()
    assert second.history.text() != first.history.text()
