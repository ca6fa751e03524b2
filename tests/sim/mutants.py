"""Exploring a planted fault: it must be found, and by an invariant."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.testing.sim import Scenario, Violation, explore

PROGRAMMING_ERRORS = (AttributeError, NameError, TypeError)
"""A mutant that raises one of these no longer fits the code that it patches, and shows nothing."""


def find_violation(scenarios: Sequence[Scenario], schedules: int) -> Violation:
    """Returns the violation that a planted fault leads to; fails if there is none."""
    for scenario in scenarios:
        try:
            explore(scenario, schedules)
        except Violation as violation:
            if isinstance(violation.__cause__, PROGRAMMING_ERRORS):
                raise
            return violation
    raise AssertionError(f"no violation in {schedules} schedules of {len(scenarios)} scenarios")
