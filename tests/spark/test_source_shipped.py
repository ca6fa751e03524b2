"""The data source through Connect, on workers that have not installed us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lochan.base.errors import Unavailable
from lochan.client import Client
from lochan.spark.java import use_java
from tests.profile import in_deep_only
from tests.spark.child import run
from tests.spark.histories import make_commits


@pytest.mark.slow
def test_our_modules_are_shipped_to_workers_that_lack_them(server, tmp_path):
    pytest.importorskip("grpc", reason="grpc is missing: install pyspark[connect]")
    try:
        use_java()
    except Unavailable as error:
        pytest.skip(f"Java is missing: {error.message}")
    with Client(server) as client:
        make_commits(client, 4)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.elsewhere", server, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("FOUND ")]
    assert json.loads(line.removeprefix("FOUND ")) == {
        "unknown before": True,
        "changes": 4,
        "lochan_log": 4,
    }


TWICE = """
import json
import os
from lochan.spark import register, session
spark = session("ships", "local[1]")
counts = []
for _ in range(2):
    register(spark, ship=True)
    counts.append(spark.range(3).where("id > 0").count())
spark.stop()
print(json.dumps(counts))
"""


@in_deep_only
def test_a_session_that_was_shipped_our_modules_twice_still_runs_jobs(spark):
    assert run(TWICE, dict(os.environ)) == [2, 2]
