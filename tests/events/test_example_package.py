"""The example package: installed as any other, found by its entry point, run by a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from signal import SIGTERM

import pytest

from lochan.client import Client
from lochan.model.commits import Put
from tests.service.bench import table

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "subscriber"
WAIT_S = 120


def install(target: Path) -> None:
    """Installs without a network: what it is built with is installed already."""
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", *words, "--target", str(target), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr


def test_a_package_with_a_subscriber_is_installed_and_used_by_a_server(tmp_path):
    install(tmp_path / "packages")
    log = tmp_path / "tables.log"
    settings = {"tables": {"type": "table-log", "path": str(log)}}
    outside = {name: text for name, text in os.environ.items() if not name.startswith("LOCHAN_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "lochan", "serve", "--store", "memory:", "--port", "0", "--json"],
        cwd=tmp_path,
        env={
            **outside,
            "PYTHONPATH": str(tmp_path / "packages"),
            "LOCHAN_SUBSCRIBERS": json.dumps(settings),
        },
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            with Client(json.loads(process.stdout.readline())["url"]) as client:
                put = Put(key=("orders",), content=table("orders"))
                made = client.commits.commit("main", "first", [put])
            # A server that stops delivers what is queued.
            process.send_signal(SIGTERM)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
    assert log.read_text() == f"main orders {made.hash}\n"


def test_the_subscriber_has_fifteen_lines():
    source = (EXAMPLE / "lochan_table_log.py").read_text()
    code = source.partition('"""\n')[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
