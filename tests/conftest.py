"""Settings that every test shares; the Hypothesis profiles live here and nowhere else."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Two busy cores make wall-clock deadlines lie, so there are none; the number of examples is the
# budget. `print_blob` prints what is needed to repeat a failure on another machine.
_SHARED = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=20, **_SHARED)
settings.register_profile("default", max_examples=100, **_SHARED)
settings.register_profile("deep", max_examples=5_000, **_SHARED)
settings.load_profile(os.environ.get("LOCHAN_TEST_PROFILE", "default"))
