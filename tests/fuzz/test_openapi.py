"""Requests made from `openapi.yaml`, good and bad, against a served process: never a 5xx.

A short run is part of every run of the tests; the profile `deep` and `make test-fuzz` send many
more (LOCHAN_FUZZ_SEED repeats or varies them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.http_load.processes import Served, start_lochan, tail
from tests.profile import PROFILE, counted

DOCUMENT = Path(__file__).parents[2] / "openapi.yaml"
SEED = int(os.environ.get("LOCHAN_FUZZ_SEED", "20240229"))

# Long enough for the long run on two busy cores; a run that takes longer is stuck.
TIMEOUT_S = counted(560, 3_000)


class Effort(NamedTuple):
    """Phases of the generator, examples for each operation in the last one, cases at least."""

    phases: str
    examples: int
    cases_min: int


SHORT = Effort("examples,fuzzing", 8, 300)
FULL = Effort("examples,coverage,fuzzing", 40, 3_000)
EFFORT = FULL if PROFILE == "deep" else SHORT


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with start_lochan("memory:", tmp_path / "server") as started:
        yield started


def drive(served: Served, folder: Path, effort: Effort) -> tuple[dict[str, Any], str]:
    """Runs schemathesis; returns its report and its output."""
    folder.mkdir()
    report = folder / "report.json"
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(DOCUMENT)]
    command += ["--url", served.address, "--seed", str(SEED), "--phases", effort.phases]
    command += ["--max-examples", str(effort.examples), "--checks", "not_a_server_error"]
    command += ["--continue-on-failure", "--no-shrink", "--suppress-health-check", "all"]
    command += ["--request-timeout", "60", "--warnings", "off", "--no-color"]
    command += ["--report", "json", "--report-json-path", str(report)]
    done = subprocess.run(
        command,
        # It stores its cache in this directory; a cache in the project would change the next run.
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    output = done.stdout + done.stderr
    assert report.is_file(), output[-4_000:]
    return json.loads(report.read_text("utf-8")), output


def is_ready(served: Served) -> bool:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def check_no_server_error(served: Served, folder: Path, effort: Effort) -> str:
    """Fails on a 5xx, on a request without an answer, and on less work than was promised."""
    print(f"LOCHAN_FUZZ_SEED={SEED}")
    report, output = drive(served, folder, effort)
    assert not report["failures"], output[-8_000:]
    assert report["exit_code"] == 0, output[-8_000:]
    assert report["complete"]
    operations, cases = report["operations"], report["test_cases"]
    assert operations["tested"] == operations["total"] > 0
    assert cases["errored"] == cases["without_checks"] == 0
    assert cases["generated"] >= effort.cases_min
    served.check()
    assert is_ready(served), tail(served.log)
    return (
        f"requests from openapi.yaml: {cases['generated']} over {operations['tested']} operations, "
        f"seed {SEED}, no 5xx"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_generated_requests_meet_no_server_error_and_leave_the_server_ready(
    served: Served, tmp_path: Path, record_property
) -> None:
    record_property("told", check_no_server_error(served, tmp_path / "fuzz", EFFORT))
