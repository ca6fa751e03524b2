"""Settings that every test shares; the Hypothesis profiles are here and nowhere else."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

from tests.profile import PROFILE

# Two busy cores make wall-clock deadlines lie, so there are none; the number of examples is the
# budget. `print_blob` prints what is needed to repeat a failure on another machine.
_SHARED = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("default", parent=_SHARED, max_examples=100)
settings.register_profile("deep", parent=_SHARED, max_examples=5_000)
settings.load_profile(PROFILE)


def pytest_collection_finish():
    """Leaves thousands of tests out of all later collections of garbage, which are many."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """Tells what tests have counted, such as schedules and crashes; works with several workers."""
    told = sorted(
        str(value)
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "told"
    )
    if told:
        terminalreporter.section("counted")
        for line in told:
            terminalreporter.line(line)
