"""Nessie's published REST tests and pynessie against a fresh server; `make test-compat` runs this.

Not part of `make test`: it needs Java, Maven and what they fetch. `LOCHAN_COMPAT_SERVER=nessie`
puts the real server there instead of ours, which shows that the tests themselves are right.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from benchmarks.http_load.processes import (
    Missing,
    Served,
    java_version,
    nessie_store,
    start_lochan,
    start_nessie,
)
from tests.client.secured import Secured, secured
from tests.compat import published_results, pynessie_commands
from tests.wire.busy import BRANCHES, TAGS, fill

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = ROOT / ".venv-compat"
PACKAGES = ("pynessie==0.67.0", "marshmallow<4", "marshmallow-oneofschema<4")
UNREACHABLE = ("Could not transfer", "Could not resolve", "Cannot access", "Unknown host")

# Fetching a client or the tests for the first time takes minutes on a slow line.
pytestmark = pytest.mark.timeout(1_800)


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["empty", "busy"])
def filled(request: pytest.FixtureRequest) -> str:
    """What the repository holds beforehand: nothing, or what only version 2 can make."""
    if request.param == "busy" and os.environ.get("LOCHAN_COMPAT_SERVER") == "nessie":
        pytest.skip("the real server knows no bare branches, expiring branches and annotations")
    return str(request.param)


@pytest.fixture
def server(store: str, filled: str, tmp_path: Path) -> Iterator[Served]:
    """A server on a fresh store."""
    where = tmp_path / "store"
    if os.environ.get("LOCHAN_COMPAT_SERVER") == "nessie":
        try:
            served = start_nessie(nessie_store(store, str(where)), tmp_path)
        except Missing as missing:
            pytest.skip(str(missing))
    else:
        served = start_lochan("memory:" if store == "memory" else f"rocksdb:{where}", tmp_path)
    with served:
        if filled == "busy":
            fill(sender(served.address), known_to_pynessie=True)
        yield served


def sender(address: str) -> Callable[..., Any]:
    """Returns a function that sends a request of version 2 and reads the JSON of its answer."""

    def send(method: str, target: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"{address}/api/v2{target}", data, headers, method=method)
        with urlopen(request) as answer:
            return json.load(answer)

    return send


def test_the_published_tests_pass(server: Served, store: str, filled: str, record_property) -> None:
    maven, java = shutil.which("mvn"), shutil.which("java")
    if maven is None or java is None or java_version(java) < 17:
        pytest.skip("needs Maven (mvn) and Java 17 or newer to run Nessie's published tests")
    command = [maven, "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / "nessie/pom.xml")]
    command += [f"-Dcompat.build={ROOT / '.lochan/compat'}"]
    command += [f"-Dcompat.server={server.address}/", "compile", "exec:java"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and any(words in done.stdout for words in UNREACHABLE):
        pytest.skip("needs Maven Central, from where the published tests come")
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    outcomes = published_results.read_outcomes(done.stdout)
    what = f"{server.name} on {store}, {filled}"
    record_property("counted", f"published tests, {what}: {published_results.count(outcomes)}")
    complaints = published_results.find_complaints(outcomes)
    assert complaints == [], "\n".join(complaints)


def test_pynessie_s_client_works_unchanged(server: Served, filled: str, pynessie: Path) -> None:
    script = str(HERE / "pynessie_client.py")
    command = [str(pynessie / "python"), script, server.address, filled]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "steps" in done.stdout


def test_pynessie_s_command_line_works_unchanged(
    server: Served, store: str, filled: str, pynessie: Path, tmp_path: Path, record_property
) -> None:
    nessie = pynessie_commands.Commands(pynessie / "nessie", server.address, tmp_path)
    if filled == "busy":
        pynessie_commands.look_around(nessie, BRANCHES, TAGS)
    else:
        pynessie_commands.run_all(nessie)
    record_property(
        "counted", f"pynessie, {server.name} on {store}, {filled}: {nessie.ran} commands"
    )


@pytest.fixture(params=["bearer", "basic"])
def authentication(request: pytest.FixtureRequest, users: Secured) -> dict[str, str]:
    """How pynessie's client and its command line are given credentials, without a change."""
    if request.param == "bearer":
        return {"NESSIE_AUTH_TYPE": "bearer", "NESSIE_AUTH_TOKEN": users.token}
    key_id, secret = users.new_access_key()
    name = {"NESSIE_AUTH_TYPE": "basic", "NESSIE_AUTH_USERNAME": key_id}
    return {**name, "NESSIE_AUTH_PASSWORD": secret}


@pytest.fixture
def users() -> Iterator[Secured]:
    """A server with users."""
    with secured() as running:
        yield running


def test_pynessie_s_client_works_unchanged_with_credentials(
    users: Secured, authentication: dict[str, str], pynessie: Path
) -> None:
    command = [str(pynessie / "python"), str(HERE / "pynessie_client.py"), users.url, "empty"]
    given = os.environ | authentication
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=given)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "5 steps" in done.stdout
    assert len(users.sent) <= 2
    assert None not in users.sent
    without = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "NessieUnauthorizedException" in without.stderr, without.stderr[-3_000:]


def test_pynessie_s_command_line_works_unchanged_with_credentials(
    users: Secured, authentication: dict[str, str], pynessie: Path, tmp_path: Path
) -> None:
    program = pynessie / "nessie"
    given = pynessie_commands.Commands(program, users.url, tmp_path, authentication)
    pynessie_commands.run_all(given)
    without = pynessie_commands.Commands(program, users.url, tmp_path)
    assert '"status_code": 401' in without.refused("branch", "--list")


@pytest.fixture(scope="module")
def pynessie() -> Path:
    """The programs of a pynessie that is installed beside us, never into our own environment."""
    programs = CLIENT / "bin"
    if not (programs / "nessie").is_file():
        subprocess.run([sys.executable, "-m", "venv", str(CLIENT)], check=True)
        install = [str(programs / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(CLIENT, ignore_errors=True)
            pytest.skip(f"pip could not fetch {PACKAGES[0]}: {done.stderr[-200:]}")
    return programs
