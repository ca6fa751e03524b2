"""The contract can fail: stores with one planted fault each, and the suite that must notice."""

from __future__ import annotations

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


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_contract_notices(mutant: str, tmp_path: Path) -> None:
    test = tmp_path / "test_mutant.py"
    test.write_text(
        f"from tests.contract.mutants import mutant_class\nTestMutant = mutant_class({mutant!r})\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly"]
    command += ["-p", "no:cacheprovider", "-c", str(root / "pyproject.toml"), str(test)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, f"{MUTANTS[mutant]} went unnoticed:\n{done.stdout[-2000:]}"
    assert "AssertionError" in done.stdout or "Failed: DID NOT RAISE" in done.stdout, done.stdout
