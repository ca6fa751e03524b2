"""Every example runs as it is."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

from lochan.base.errors import AuditFailed
from tests.architecture.tree import ROOT
from tests.profile import in_deep_only

EXAMPLES = ROOT / "examples"
DAY = dt.date(2026, 10, 15)
NEXT = dt.date(2026, 10, 16)


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_daily_job_publishes_each_day_once_and_never_a_faulty_one(lake, tmp_path):
    job = load("daily_job")
    assert job.run(lake, DAY, tmp_path) == "published"
    reports = [tmp_path / f"{DAY}.{kind}" for kind in ("html", "json")]
    texts = [one.read_text("utf-8") for one in reports]
    assert job.run(lake, DAY, tmp_path) == "unchanged"
    assert [one.read_text("utf-8") for one in reports] == texts
    with pytest.raises(AuditFailed, match="3 of 500 rows break it"):
        job.run(lake, NEXT, tmp_path, faults=3)
    assert lake.read("shop.orders").count() == 500
    assert job.run(lake, NEXT, tmp_path) == "published"
    assert lake.read("shop.orders").count() == 1_000
    assert lake.read("shop.totals").count() == 2
    messages = [one.meta.message for one in lake.client.history.iterate("main")]
    assert messages == [f"Orders of {NEXT}", f"Orders of {DAY}"]
    assert json.loads((tmp_path / f"{NEXT}.json").read_text())["outcome"] == "published"


def test_the_change_feed_goes_on_where_it_was(spark, lake, tmp_path):
    feed = load("change_feed")
    lake.write(spark.range(3), "shop.orders", branch="main")
    assert feed.follow(lake, tmp_path / "checkpoint") == 2
    assert feed.follow(lake, tmp_path / "checkpoint") == 2
    lake.write(spark.range(3), "shop.orders", branch="main")
    assert feed.follow(lake, tmp_path / "checkpoint") == 3
    rows = lake.read("ops.changes", ref="ops").orderBy("seq", "name").collect()
    assert [(one.name, one.operation) for one in rows] == [
        ("shop", "put"),
        ("shop.orders", "put"),
        ("shop.orders", "put"),
    ]


@in_deep_only
def test_the_change_feed_of_a_catalog_without_commits_knows_nothing(spark, lake, tmp_path):
    feed = load("change_feed")
    assert feed.follow(lake, tmp_path / "checkpoint") == 0
    assert feed.follow(lake, tmp_path / "checkpoint") == 0
    lake.write(spark.range(3), "shop.orders", branch="main")
    assert feed.follow(lake, tmp_path / "checkpoint") == 2


def ran(where, *words, **environment):
    """Runs a script in a directory; returns its code and its output."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@in_deep_only
@pytest.mark.timeout(600)
def test_the_scripts_run_as_commands_on_one_catalog(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'lochan[spark]'")
    code, output = ran(tmp_path, EXAMPLES / "daily_job.py", DAY)
    assert (code, f"{DAY}: published" in output) == (0, True), output
    code, output = ran(tmp_path, EXAMPLES / "change_feed.py")
    assert (code, "3 changes are known" in output) == (0, True), output
    assert f"|Orders of {DAY}|put      |shop.totals|" in output


def cells():
    book = json.loads((EXAMPLES / "notebook.ipynb").read_text("utf-8"))
    return book, ["".join(one["source"]) for one in book["cells"] if one["cell_type"] == "code"]


def test_the_notebook_is_valid_and_holds_no_output_of_any_machine():
    book, code = cells()
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    for cell in book["cells"]:
        expected = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            expected |= {"execution_count", "outputs"}
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
        assert set(cell) == expected
        assert re.fullmatch(r"[\w-]{1,64}", cell["id"])
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    assert len(code) == 5
    assert all(len(line) <= 100 for text in code for line in text.splitlines())


@pytest.mark.slow
@in_deep_only
def test_the_cells_of_the_notebook_run_one_after_the_other(tmp_path):
    """In a process of their own, because the last cell stops the session."""
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'lochan[spark]'")
    _, texts = cells()
    script = tmp_path / "cells.py"
    script.write_text("\n".join([*texts, "print(audit.report.outcome)"]), "utf-8")
    code, output = ran(tmp_path, script, TMPDIR=str(tmp_path))
    assert code == 0, output
    assert "| added|loch.birds|" in output
    assert re.search(r"\|\s*1\|\s*heron\|\s*1.4\|", output)
    assert "\npublished\n" in output
