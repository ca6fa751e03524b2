"""Requests made from `openapi.yaml`, good and bad, against a served process: never a 5xx.

A short run is part of every run of the tests; the profile `deep` and `make test-fuzz` send many
more (LOCHAN_FUZZ_SEED repeats or varies them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.http_load.processes import Served, start_lochan, tail
from lochan.wire.operations_access import OPERATIONS_ACCESS
from lochan.wire.operations_events import OPERATIONS_EVENTS
from lochan.wire.operations_store import OPERATIONS_STORE
from tests.profile import PROFILE, counted

DOCUMENT = Path(__file__).parents[2] / "openapi.yaml"
ACCESS_OPERATIONS = {operation.id for operation in OPERATIONS_ACCESS}
SEED = int(os.environ.get("LOCHAN_FUZZ_SEED", "20240229"))

# Long enough for the long run on two busy cores; a run that takes longer is stuck.
TIMEOUT_S = counted(560, 3_000)


SENDER = "sender-of-requests-7f3a"


def only(operations: Iterable[str]) -> list[str]:
    return [word for one in sorted(operations) for word in ("--include-operation-id", one)]


# What ends a relation comes before what deletes one of its ends.
RELATIONS = {"removeMember", "detachPolicyFromUser", "detachPolicyFromGroup"}
DELETES = {one.id for one in OPERATIONS_ACCESS if one.method == "DELETE"} - RELATIONS
PASSES: dict[str, list[str]] = {
    # A stream of events has no end; its parameters are in tests/events/test_stream.py. Partitions
    # of a store cannot be guessed; those parameters are in tests/faces/test_store.py.
    "data": [word for tag in ("access", "events", "store") for word in ("--exclude-tag", tag)],
    "access": only(ACCESS_OPERATIONS - RELATIONS - DELETES),
    "relations": only(RELATIONS),
    "deletes": only(DELETES),
}

# Set-up happens once. Ids of credentials are chosen by the server, and a log-in needs a secret.
NOT_POSSIBLE = {"setUpAccess", "login", "deleteToken", "deleteAccessKey"}


class Effort(NamedTuple):
    """Phases of the generator, examples for each operation in the last one, cases at least."""

    phases: str
    examples: int
    cases_min: int


SHORT = Effort("examples,fuzzing", 4, 200)
FULL = Effort("examples,coverage,fuzzing", 40, 3_000)
EFFORT = FULL if PROFILE == "deep" else SHORT


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with start_lochan("memory:", tmp_path / "server", "--access-log", "json") as started:
        yield started


def send(
    served: Served, method: str, path: str, token: str = "", body: dict[str, Any] | None = None
) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, body=sent, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def set_up(served: Served) -> str:
    """Creates the first user, and the sender of all requests; returns the token of the sender.

    The rights of the sender come from a policy of its own, under names that no generated request
    has: so none of them ends these rights.
    """
    status, body = send(served, "POST", "/access/v1/setup")
    assert status == 200, body
    first = str(json.loads(body)["secret"])
    policy = {"statements": [{"effect": "allow", "actions": ["*"]}]}
    made = [
        send(served, "POST", "/access/v1/users", first, {"id": SENDER}),
        send(served, "PUT", f"/access/v1/policies/{SENDER}", first, policy),
        send(served, "PUT", f"/access/v1/users/{SENDER}/policies/{SENDER}", first),
        send(served, "POST", f"/access/v1/users/{SENDER}/tokens", first, {}),
    ]
    assert all(status < 300 for status, _ in made), made
    return str(json.loads(made[-1][1])["secret"])


def restore(served: Served, token: str) -> None:
    """Makes what the examples of the document name, as far as it is not there."""
    policy = {"statements": [{"effect": "allow", "actions": ["read"]}]}
    for method, path, body in (
        ("POST", "users", {"id": "ada"}),
        ("POST", "groups", {"id": "analysts"}),
        ("PUT", "policies/sales", policy),
        ("PUT", "groups/analysts/members/ada", None),
        ("PUT", "users/ada/policies/sales", None),
        ("PUT", "groups/analysts/policies/sales", None),
    ):
        status, answer = send(served, method, f"/access/v1/{path}", token, body)
        assert status < 300 or status == 409, (path, status, answer)


def add_reached(served: Served, start: int, found: dict[str, set[int]]) -> None:
    """Adds with which statuses each route was answered, by the log of the server from a place."""
    for line in served.log.read_bytes()[start:].decode("utf-8", "replace").splitlines():
        if not line.startswith("{"):
            continue
        fields = json.loads(line)
        if "route" in fields and "status" in fields:
            found.setdefault(str(fields["route"]), set()).add(int(fields["status"]))


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
    statuses: dict[str, set[int]] = {}
    for name, chosen in PASSES.items():
        restore(served, token)
        start = served.log.stat().st_size
        report, output = drive(served, folder / name, effort, token, chosen)
        assert not report["failures"], output[-8_000:]
        assert report["exit_code"] == 0, output[-8_000:]
        assert report["complete"]
        operations, cases = report["operations"], report["test_cases"]
        assert operations["tested"] == operations["selected"] > 0
        assert cases["errored"] == cases["without_checks"] == 0
        tested, total = tested + operations["tested"], operations["total"]
        generated += cases["generated"]
        add_reached(served, start, statuses)
    assert tested == total - len(OPERATIONS_EVENTS) - len(OPERATIONS_STORE)
    assert generated >= effort.cases_min
    assert send(served, "GET", "/access/v1/users", token)[0] == 200, "the sender has its rights"
    print("never answered with 2xx:", _without_success(statuses) or "none")
    refused = {route for route, found in statuses.items() if found <= {401, 403}}
    assert not refused, f"always refused: {sorted(refused)}"
    missed = _without_success(statuses) & ACCESS_OPERATIONS - NOT_POSSIBLE
    assert not missed, f"operations of access that were never done: {sorted(missed)}"
    served.check()
    assert is_ready(served), tail(served.log)
    return f"requests from openapi.yaml: {generated} over {tested} operations, seed {SEED}, no 5xx"


def _without_success(statuses: dict[str, set[int]]) -> set[str]:
    return {
        route for route, found in statuses.items() if not any(200 <= one < 300 for one in found)
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_generated_requests_meet_no_server_error_and_leave_the_server_ready(
    served: Served, tmp_path: Path, record_property
) -> None:
    record_property("counted", check_no_server_error(served, tmp_path / "fuzz", EFFORT))
