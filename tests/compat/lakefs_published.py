"""The published tests of lakeFS's Python clients against a fresh server; for `make test-compat`.

Not part of `make test`: they need packages that are fetched, and port 8000, which lakefs-spec's
tests name. The tests of the package `lakefs` are in lakeFS's repository only: name a checkout of it
in `LOCHAN_LAKEFS_CHECKOUT`. Every request has credentials.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = ROOT / ".venv-lakefs"
LAKEFS_SPEC = "lakefs-spec==0.15.1"
PACKAGES = (
    *(LAKEFS_SPEC, "lakefs==0.16.0", "lakefs-sdk==1.88.0", "pytest", "pytest-datafiles"),
    *("duckdb", "pandas", "pillow", "polars", "pyarrow", "pyyaml", "setuptools"),
)

# The key pair that lakeFS publishes for its quick start; it is in the tests of lakefs-spec.
KEY = "AKIAIOSFOLQUICKSTART"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
PORT = 8_000
URL = f"http://localhost:{PORT}"

pytestmark = pytest.mark.timeout(1_800)


@pytest.fixture(params=["memory", "rocksdb"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server on a fresh store whose first user has the published key pair."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            pytest.skip(f"port {PORT} is taken, and the tests of lakefs-spec name it: free it")
    store = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path / 'store'}"
    command = [sys.executable, "-m", "lochan", "serve", "--store", store, "--port", "0"]
    command += ["--files-port", str(PORT), "--data", str(tmp_path / "data")]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        # The line that the server prints when requests may be sent.
        assert "serving" in running.stdout.readline()
        key = {"access_key_id": KEY, "secret_access_key": SECRET}
        body = {"username": "quickstart", "key": key}
        assert httpx.post(f"{URL}/api/v1/setup_lakefs", json=body).status_code == 200
        assert httpx.get(f"{URL}/api/v1/repositories").status_code == 401
        yield URL
    finally:
        running.terminate()
        running.communicate(timeout=60)


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of an environment with the clients, beside ours and never in it."""
    found = CLIENT / "bin" / "python"
    if not (CLIENT / ".installed").is_file():
        subprocess.run([sys.executable, "-m", "venv", str(CLIENT)], check=True)
        install = [str(found), "-m", "pip", "install", "--quiet", *PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(CLIENT, ignore_errors=True)
            pytest.skip(f"pip could not fetch {LAKEFS_SPEC} and its tests' packages")
        (CLIENT / ".installed").touch()
    return found


def run_tests(python: Path, folder: Path, tests: str, home: Path, **given: str) -> dict[str, int]:
    """Runs tests in a folder; returns how many passed, failed and were skipped."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(home), **given}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    counts = re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout.splitlines()[-1])
    found = {word: int(count) for count, word in counts}
    assert not found.keys() & {"failed", "error"}, done.stdout[-3_000:]
    return found


def test_lakefs_spec_works_unchanged(server: str, python: Path, tmp_path: Path) -> None:
    fetch = [str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    done = subprocess.run([*fetch, LAKEFS_SPEC], cwd=tmp_path, check=False)
    if done.returncode:
        pytest.skip(f"pip could not fetch the source of {LAKEFS_SPEC}, which has its tests")
    (archive,) = tmp_path.glob("lakefs_spec-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (folder,) = (path for path in tmp_path.glob("lakefs_spec-*") if path.is_dir())
    assert run_tests(python, folder, "tests", tmp_path / "home") == {"passed": 124}


def test_the_wrapper_works_unchanged(server: str, python: Path, tmp_path: Path) -> None:
    checkout = os.environ.get("LOCHAN_LAKEFS_CHECKOUT")
    if not checkout:
        pytest.skip("name a checkout of lakeFS in LOCHAN_LAKEFS_CHECKOUT: its tests are there")
    # Without the package beside them: the tests are of the one that is installed.
    folder = tmp_path / "wrapper"
    shutil.copytree(Path(checkout) / "clients/python-wrapper/tests", folder / "tests")
    found = run_tests(
        python,
        folder,
        "tests/integration",
        tmp_path / "home",
        LAKECTL_SERVER_ENDPOINT_URL=server,
        LAKECTL_CREDENTIALS_ACCESS_KEY_ID=KEY,
        LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=SECRET,
        STORAGE_NAMESPACE="local://tests",
    )
    assert found["passed"] >= 68
    assert found["passed"] + found["skipped"] == 87
