"""A built wheel, installed into an empty environment far from the source, works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from lochan import __version__
from tests.architecture.tree import ROOT

pytestmark = pytest.mark.slow

# Texts of pip if it reached no index; a wrong hash or a bad lock has other texts.
UNREACHABLE = (
    "Could not find a version that satisfies",
    "No matching distribution found",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "ConnectTimeoutError",
    "ProxyError",
)


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # The source tree must not be found: no PYTHONPATH, and an empty directory.
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = run(*pip, "--wheel-dir", folder, ROOT, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder / "env", with_pip=True)
    pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--retries", "1"]
    pip += ["--disable-pip-version-check"]
    lock = ROOT / "requirements/run.txt"
    needed = run(*pip, "--require-hashes", "--requirement", lock, cwd=folder)
    if needed.returncode != 0 and any(words in needed.stderr for words in UNREACHABLE):
        pytest.skip(
            "no package index can be reached, so requirements/run.txt cannot be installed into "
            "an empty environment; allow pip to reach one and run `make test` again"
        )
    assert needed.returncode == 0, needed.stderr
    done = run(*pip, "--no-deps", "--no-index", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "env/bin/lochan"


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "lochan",
        f"lochan-{__version__}.dist-info",
        # By this name Spark finds our data source.
        "pyspark_lochan.py",
    }
    assert "lochan/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_an_empty_environment_runs_the_wheel(installed, tmp_path):
    version = run(installed, "--version", cwd=tmp_path)
    assert (version.returncode, version.stdout.split()) == (0, ["lochan", __version__])
    stores = run(installed, "stores", "--json", cwd=tmp_path)
    assert stores.returncode == 0, stores.stderr
    ready = {store["scheme"] for store in json.loads(stores.stdout) if store["ready"]}
    assert ready >= {"memory", "rocksdb"}
    demo = run(installed, "demo", "--once", cwd=tmp_path)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stdout.strip()
