"""Requests made from `openapi.yaml`, good and bad, against a served process: never a 5xx.

A short run is part of every run of the tests; the profile `deep` and `make test-fuzz` send many
more (LOCHAN_FUZZ_SEED repeats or varies them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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


def send(served: Served, method: str, path: str, token: str = "") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def set_up(served: Served) -> str:
    """Creates the first user, so that no generated request does it; returns its token."""
    status, body = send(served, "POST", "/access/v1/setup")
    assert status == 200, body
    return str(json.loads(body)["secret"])


def drive(
    served: Served, folder: Path, effort: Effort, token: str, chosen: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """Runs schemathesis as the first user; returns its report and its output."""
    folder.mkdir(parents=True)
    report = folder / "report.json"
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(DOCUMENT)]
    command += ["--url", served.address, "--seed", str(SEED), "--phases", effort.phases]
    command += ["--header", f"Authorization: Bearer {token}", *chosen]
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
    return send(served, "GET", "/health/ready")[0] == 200


def check_no_server_error(served: Served, folder: Path, effort: Effort) -> str:
    """Fails on a 5xx, on a request without an answer, and on less work than was promised."""
    print(f"LOCHAN_FUZZ_SEED={SEED}")
    token = set_up(served)
    tested = generated = total = 0
    # Requests about access may end the rights of the caller, so they come last.
    for name, chosen in (("data", "--exclude-tag"), ("access", "--include-tag")):
        assert send(served, "GET", "/access/v1/users", token)[0] == 200
        report, output = drive(served, folder / name, effort, token, [chosen, "access"])
        assert not report["failures"], output[-8_000:]
        assert report["exit_code"] == 0, output[-8_000:]
        assert report["complete"]
        operations, cases = report["operations"], report["test_cases"]
        assert operations["tested"] == operations["selected"] > 0
        assert cases["errored"] == cases["without_checks"] == 0
        tested, total = tested + operations["tested"], operations["total"]
        generated += cases["generated"]
    assert tested == total
    assert generated >= effort.cases_min
    served.check()
    assert is_ready(served), tail(served.log)
    return f"requests from openapi.yaml: {generated} over {tested} operations, seed {SEED}, no 5xx"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_generated_requests_meet_no_server_error_and_leave_the_server_ready(
    served: Served, tmp_path: Path, record_property
) -> None:
    record_property("counted", check_no_server_error(served, tmp_path / "fuzz", EFFORT))
