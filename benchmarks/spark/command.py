"""`python -m benchmarks spark …`: the data pipeline, each measurement in a process of its own.

`read` compares a read by branch with plain Parquet and Iceberg's own runtime, `write` does that for
writes of several shapes, `filter` measures the time of a filter on many files, `checks` compares a
checked write with an unchecked one, `feed` measures the rate of a change feed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from benchmarks.measure import emit, emit_machine

PARTS = ("read", "write", "filter", "checks", "feed")


def commands(arguments: Sequence[str]) -> list[list[str]]:
    """Returns the commands to start, one for each part."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rows", help="of the table; default: 40,000,000, of writes 20,000,000")
    parser.add_argument("--commits", help="of the feed; default: 100,000")
    parser.add_argument("--repeats", help="figures for each median")
    parser.add_argument("--cores", help="of Spark; default: 2")
    chosen = parser.parse_args(arguments)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    found = []
    for part in chosen.parts or PARTS:
        command = [sys.executable, "-m", f"benchmarks.spark.{part}"]
        for option in ("commits" if part == "feed" else "rows", "repeats", "cores"):
            given = getattr(chosen, option)
            command += [] if given is None else [f"--{option}", given]
        found.append(command)
    return found


def main(arguments: Sequence[str]) -> None:
    chosen = commands(arguments)
    if find_spec("pyspark") is None:
        emit("spark", skipped="pyspark is missing: pip install 'lochan[spark]'")
        sys.exit(1)
    emit_machine()
    for command in chosen:
        done = subprocess.run(command, check=False)
        if done.returncode:
            sys.exit(done.returncode)
