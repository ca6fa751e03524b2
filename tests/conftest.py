"""Settings that every test shares: Hypothesis profiles, time-outs, and the speed of a test."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.profile import PROFILE
from tests.speed import forks, is_slow_folder, without_processes

# No test, and no process of a test, uses credentials of the user that runs it.
for _name in [name for name in os.environ if name.startswith(("LOCHAN_TOKEN", "LOCHAN_PROFILE"))]:
    del os.environ[_name]
os.environ["LOCHAN_CREDENTIALS"] = "/nonexistent/credentials.toml"

# A test that takes longer is stuck. Time-outs of single tests are for the default profile only.
DEEP_TIMEOUT_S = 3_600

# No deadlines: times on two busy cores mean little; the number of examples is the
# bound. `print_blob` prints what is needed to repeat a failure on another machine.
_SHARED = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("default", parent=_SHARED, max_examples=100)
settings.register_profile("deep", parent=_SHARED, max_examples=5_000)
settings.load_profile(PROFILE)


def pytest_ignore_collect(collection_path, config):
    """Skips folders of which no test would be selected, because importing them takes long."""
    if config.option.markexpr == "not slow" and is_slow_folder(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if is_slow_folder(item.path) or forks(getattr(item, "function", None)):
            item.add_marker(pytest.mark.slow)
        if PROFILE == "deep":
            # Before the test's own mark, so that this one is used.
            item.add_marker(pytest.mark.timeout(DEEP_TIMEOUT_S), append=False)


def pytest_collection_finish():
    """Excludes thousands of collected tests from every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if item.get_closest_marker("slow"):
        return (yield)
    # Fixtures that slow tests have shared may have to end their processes first.
    with without_processes(item.nodeid, signals=True):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if item.get_closest_marker("slow"):
        return (yield)
    with without_processes(item.nodeid, signals=False):
        return (yield)


def pytest_terminal_summary(terminalreporter):
    """Prints what tests have counted, such as schedules and crashes; works with several workers."""
    lines = sorted(
        str(value)
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "counted"
    )
    if lines:
        terminalreporter.section("counted")
        for line in lines:
            terminalreporter.line(line)
