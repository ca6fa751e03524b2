"""The contract can fail: stores with one planted fault each, and the suite that must notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# They start processes.
pytestmark = pytest.mark.slow

MUTANTS = {
    "BlindSet": "a conditional set that ignores its condition",
    "SetThatWritesNothing": "a set that answers won and writes nothing",
    "ReusedStamps": "stamps that restart when a row is created again",
    "StampOfTheValue": "stamps made from the value, as lakeFS does",
    "ScanThatSkips": "a page that leaves out the row between two pages",
    "ScanThatRepeats": "a page that starts with the last row of the one before",
    "ScanPastTheEnd": "a scan that includes its end",
    "ScanByPrefix": "partitions that see those whose names they start",
    "EagerApply": "objects written although the condition was lost",
    "AddThatOverwrites": "an add that replaces the first value",
    "AddThatForgetsToRenew": "an add that keeps an old half-day",
    "RenewalWithTheOldStamp": "a renewed object that a collector may still delete",
    "BulkInTheWrongOrder": "a bulk read sorted by key",
    "PutThatKeepsTheFirst": "of two items with one name the first counts",
    "DropOfTheNeighbours": "a dropped partition that takes its neighbours along",
    "UncheckedArguments": "a store that accepts what no store may",
    "OpenAfterClose": "a closed store that answers",
    "ReadThenWrite": "a read and a write without a lock around them",
    "EpochThatNeverGrows": "an epoch that does not count",
    "AnyStampDeletes": "a delete that ignores the stamp",
    "EmptyIsAbsent": "empty values that look absent",
    "WorksInAFork": "a store of one process that lets a forked child write into its own copy",
    "LostWithTheWrongRow": "a lost write that returns its own value, not the row that is there",
}


# One process runs the suite on one mutant after the other: importing takes longer than that.
CHILD = """
import contextlib, io, json, sys
import pytest
root, folder, *mutants = sys.argv[1:]
found = {}
for mutant in mutants:
    path = f"{folder}/test_{mutant}.py"
    with open(path, "w") as file:
        file.write("from tests.contract.mutants import mutant_class\\n")
        file.write(f"TestMutant = mutant_class({mutant!r})\\n")
    words = ["-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = pytest.main([*words, "-c", f"{root}/pyproject.toml", path])
    found[mutant] = [int(code), output.getvalue()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What the suite says of each mutant: the code of pytest, and its output."""
    root, folder = Path(__file__).parents[2], tmp_path_factory.mktemp("mutants")
    path = os.pathsep.join((str(root / "src"), str(root)))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), str(folder), *MUTANTS],
        cwd=root,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, tuple[int, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.xdist_group("mutants of the contract")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_contract_notices(mutant: str, results: dict[str, tuple[int, str]]) -> None:
    code, output = results[mutant]
    assert code == 1, f"{MUTANTS[mutant]} went unnoticed:\n{output[-2000:]}"
    assert "AssertionError" in output or "Failed: DID NOT RAISE" in output, output
