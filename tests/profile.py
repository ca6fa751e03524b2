"""Numbers of schedules, seeds, cycles and steps, by the profile of the test run."""
# ruff: noqa: A005 - it is only imported as `tests.profile`

from __future__ import annotations

import os

import pytest

PROFILE = os.environ.get("LOCHAN_TEST_PROFILE", "default")


def counted(default: int, deep: int) -> int:
    """Returns how often something is tried: `deep` in `make test-deep`, else `default`."""
    return deep if PROFILE == "deep" else default


in_deep_only = pytest.mark.skipif(
    PROFILE != "deep", reason="runs in `make test-deep` only; a sibling of it runs here"
)
