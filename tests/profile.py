"""Numbers of schedules, seeds, cycles and steps, by the profile of the test run."""

from __future__ import annotations

import os

PROFILE = os.environ.get("LOCHAN_TEST_PROFILE", "default")


def counted(default: int, deep: int) -> int:
    """Returns how often something is tried: `deep` for `make test-deep`, `default` for `make test`."""
    return deep if PROFILE == "deep" else default
