"""The smallest protocol: a counter. The right one holds, its mutant is found at once."""

from __future__ import annotations

import doctest

import pytest

import lochan.testing.sim
from lochan.testing.sim import (
    PriorityChooser,
    Violation,
    canary,
    exhaust,
    explore,
    find_canary,
    replay,
)


def test_the_how_to_of_the_simulator_is_true():
    results = doctest.testmod(lochan.testing.sim)
    assert results.attempted > 8
    assert results.failed == 0


def test_the_canary_is_found_within_few_schedules():
    violation = find_canary()
    assert violation.invariant == "no count is lost"
    assert violation.seed < 50


def test_the_canary_is_found_by_every_chooser():
    with pytest.raises(Violation):
        explore(canary(planted=True), 200, chooser=PriorityChooser)
    with pytest.raises(Violation):
        exhaust(canary(planted=True))


def test_a_counter_that_compares_and_sets_loses_nothing():
    report = explore(canary(planted=False), 1_000)
    assert report.schedules == 1_000
    assert report.rechecked == 50
    assert report.distinct == exhaust(canary(planted=False), real_time=False).schedules == 4


def test_a_printed_trace_shows_the_violation_again():
    violation = find_canary()
    with pytest.raises(Violation) as again:
        replay(canary(planted=True), violation.trace)
    assert again.value.trace == violation.trace
    assert again.value.invariant == violation.invariant
    assert str(again.value) == str(violation)


def test_a_trace_of_other_code_is_refused_or_followed_as_far_as_it_goes():
    violation = find_canary()
    with pytest.raises(Violation) as refused:
        replay(canary(planted=False), violation.trace)
    assert refused.value.invariant == "repetition of a trace"
    world = replay(canary(planted=False), violation.trace, strict=False)
    assert len(world.history.acknowledged("count")) == 2
    for text in ["", "sim2 1 A", "what is this"]:
        with pytest.raises(ValueError, match="not a trace"):
            replay(canary(planted=True), text)
