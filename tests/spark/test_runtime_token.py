"""Iceberg's own Nessie catalog works with a bearer token, unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.client.secured import secured
from tests.spark.test_write_runtime import CHILD_S, ROOT, RUNTIME, UNRESOLVED


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_icebergs_nessie_catalog_works_with_a_bearer_token(tmp_path: Path):
    if not pyspark.__version__.startswith("4.1."):
        pytest.skip(f"there is no Iceberg runtime for pyspark {pyspark.__version__}; 4.1 has one")
    (tmp_path / "events").mkdir()
    child = [sys.executable, "-m", "tests.spark.runtime_token_child"]
    with secured() as server:
        done = subprocess.run(
            [*child, RUNTIME, server.url, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "TOKEN": server.token},
            capture_output=True,
            text=True,
            timeout=CHILD_S,
            check=False,
        )
    if any(word in done.stderr for word in UNRESOLVED):
        pytest.skip(f"{RUNTIME} is missing: no Maven repository could be reached")
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == [2]
    assert "Unauthorized" in found["refusal"]
    assert server.sent - {None} == {f"Bearer {server.token}", f"Bearer {server.token}x"}
    # The client looks at the version of a server before it sends the token, and takes a refusal.
    assert server.recorder.anonymous == {b"/api/v2/config"}
    logs = [file for file in (tmp_path / "events").rglob("*") if file.is_file()]
    events = b"".join(file.read_bytes() for file in logs)
    assert b"authentication.token" in events
    assert server.word.encode() not in events
    assert server.word not in done.stderr + done.stdout
