"""docs/spark-iceberg-runtime.md shows what Iceberg's own runtime does on a Lochan server."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyspark
import pytest

from tests.architecture.tree import ROOT
from tests.spark.runtime_page_child import BLOCKS, PAGE, REFUSED, statements
from tests.spark.test_write_runtime import CHILD_S, RUNTIME, UNRESOLVED

# Code that runs a few times is not worth the second, slow compiler.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def test_the_runtime_that_the_page_names_is_the_one_that_is_tested():
    assert f'"spark.jars.packages": "{RUNTIME}"' in PAGE
    assert len(BLOCKS) == 14
    assert len(REFUSED) == 7
    assert PAGE.count("```") == 2 * len(BLOCKS)


def test_every_statement_of_the_page_gives_what_it_shows(server, tmp_path):
    if not pyspark.__version__.startswith("4.1."):
        pytest.skip(f"there is no Iceberg runtime for pyspark {pyspark.__version__}; 4.1 has one")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.runtime_page_child", server, str(tmp_path / "lake")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "JAVA_TOOL_OPTIONS": QUICK},
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        check=False,
    )
    if any(word in done.stderr for word in UNRESOLVED):
        pytest.skip(f"{RUNTIME} is missing: no Maven repository could be reached")
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert [each for each in found if each[1] != each[2]] == []
    statements_run = sum(len(list(statements(text))) for kind, text in BLOCKS if kind == "sql")
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert len(found) == statements_run + len(blocks) + len(REFUSED)
