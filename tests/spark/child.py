"""Python programs that run in a process of their own, where no Spark session has been yet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE_S = 280


def run(program: str, environment: Mapping[str, str]) -> Any:
    """Runs a program that must succeed; returns the value that its last line is, in JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:lochan", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "HOME": "/nonexistent", **environment},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout.splitlines()[-1])
