"""Spark on the S3 gateway by Hadoop's own file system, which knows nothing of Lochan."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.architecture.tree import ROOT
from tests.faces.s3.gateway import REPOSITORY, gateway
from tests.faces.s3.test_client_errors import CASES, HELD, World
from tests.profile import in_deep_only

# Some 700 MB, so only in the deep run.
HADOOP = {"4.1": "3.4.2"}

ABSENT = "FileNotFoundException|UnknownStoreException"
DENIED = "AccessDeniedException"
NOT_ALLOWED = "405|400|UnknownStoreException|FileNotFoundException"
EXCEPTIONS = {
    "missing": ABSENT,
    "hidden": ABSENT,
    "denied": DENIED,
    "wrong secret": DENIED,
    "tag": NOT_ALLOWED,
    "commit": NOT_ALLOWED,
}
"""The Java exceptions of the cases whose names begin so."""


def cases_of(world: World) -> dict[str, list[str]]:
    """Returns the cases that S3A can ask for: who, with which secret, does what, and where."""
    cases = {}
    for case, (asked, target, _) in CASES.items():
        who, operation = asked.split()
        if operation in {"read", "write", "remove", "list"}:
            place = target.replace("COMMIT", world.commit).split()
            cases[case] = [*getattr(world, who), operation, *place]
    return cases


@pytest.mark.slow
@in_deep_only
def test_spark_writes_and_reads_by_s3a(tmp_path: Path) -> None:
    version = HADOOP.get(".".join(pyspark.__version__.split(".")[:2]))
    if version is None:
        pytest.skip(f"the Hadoop of pyspark {pyspark.__version__} is not known here")
    coordinates = f"org.apache.hadoop:hadoop-aws:{version}"
    with gateway(tmp_path / "blocks") as one:
        world = World(one)
        words = (coordinates, one.url, one.key, one.secret, f"s3a://{REPOSITORY}/main/spark")
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.s3a_child", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            input=json.dumps(cases_of(world)),
            capture_output=True,
            text=True,
            check=False,
        )
        if "unresolved dependency" in done.stderr:
            pytest.skip(f"{coordinates} is missing: no Maven repository could be reached")
        assert done.returncode == 0, done.stderr[-5_000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["errorifexists"] == found["overwrite"] == 300_000
        assert found["parts"] == 3
        assert "PATH_ALREADY_EXISTS" in found["again"]
        assert "PATH_NOT_FOUND" in found["absent"]
        assert "NoSuchBucket" in found["branch"] or "nowhere" in found["branch"]
        keys = one.keys("main/spark/")
        assert "main/spark/whole/_SUCCESS" in keys
        assert not [key for key in keys if "_temporary" in key]
        assert one.keys("nowhere/") == []
        for case, exception in found["exceptions"].items():
            (expected,) = (text for start, text in EXCEPTIONS.items() if case.startswith(start))
            assert re.search(expected, exception), (case, exception)
        assert len(found["exceptions"]) > 15
        assert one.get("main/held") == HELD
