"""The demo with Spark: one run fails its audit, one is published, and the screen stays clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from lochan.spark.audit.check_files import parse_checks


def demo(where, *words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "lochan", "demo", "--once", *words],
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.slow
def test_the_pipeline_is_told_after_the_story(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'lochan[spark]'")
    done = demo(tmp_path, "--report", "reports")
    assert (done.returncode, done.stderr) == (0, "")
    chapters = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert [line.partition(".")[0] for line in chapters] == [str(one) for one in range(1, 16)]
    assert "refused: 2 of 10 checks did not pass, nothing is published" in done.stdout
    assert "main is still at" in done.stdout
    assert "added   star.sales" in done.stdout
    assert "Load the star (repaired)" in done.stdout
    assert "The demo is finished" in done.stdout
    outcomes = {
        name: json.loads((tmp_path / f"reports/{name}.json").read_text())
        for name in ("faulty", "repaired")
    }
    assert outcomes["faulty"]["outcome"] == "refused"
    failed = [one["kind"] for one in outcomes["faulty"]["checks"] if one["status"] == "failed"]
    assert failed == ["in_range", "refers_to"]
    assert outcomes["repaired"]["outcome"] == "published"
    assert [one["rows"] for one in outcomes["repaired"]["tables"]] == [200, 40, 20_000]
    assert f"reports{os.sep}repaired.html" in done.stdout
    assert "<svg" in (tmp_path / "reports/repaired.html").read_text()


def test_the_demo_says_that_spark_does_not_start_and_goes_on(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'lochan[spark]'")
    done = demo(tmp_path, SPARK_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "skipped, Spark did not start: " in done.stdout
    assert "The demo is finished" in done.stdout


def test_the_checks_of_the_demo_are_well_made():
    from lochan.cli.demo_pipeline import CHECKS

    assert len(parse_checks(CHECKS.encode(), "checks.toml")) == 10
