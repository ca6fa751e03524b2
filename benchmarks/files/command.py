"""Measures commits of very many staged files on RocksDB, and reads over very many files.

    python -m benchmarks files                                       all parts, some minutes
    python -m benchmarks files --keys 20000 --staged 2000 --commits 2000 --part commit reads

`commit`: so many staged files, interleaved with `--keys` committed ones, and in a directory of
their own. `beside`: the same commit, while other threads stage and look up files on the same branch
and on another. `reads`: one lookup and one page at 1,000 files and at `--keys`, and after commits
without changes. `log`: commits scanned in a second by a log of a path, with nothing in memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from benchmarks.files import beside, commits, log, reads
from benchmarks.measure import emit_machine


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--keys", type=int, default=1_000_000, help="committed; default: 1000000")
    parser.add_argument(
        "--staged",
        type=int,
        nargs="+",
        default=[100_000, 1_000_000],
        metavar="N",
        help="staged files of a commit; default: 100000 1000000",
    )
    parser.add_argument("--layout", nargs="+", choices=commits.LAYOUTS, default=commits.LAYOUTS)
    parser.add_argument("--unchanged", type=int, default=1_000, help="commits without changes")
    parser.add_argument("--commits", type=int, default=50_000, help="of `log`; default: 50000")
    chosen = parser.parse_args(arguments)
    emit_machine()
    for part in chosen.part:
        PARTS[part](chosen)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "commit": lambda chosen: commits.run(chosen.keys, chosen.staged, chosen.layout),
    "beside": lambda chosen: beside.run(chosen.keys, chosen.staged),
    "reads": lambda chosen: reads.run(chosen.keys, chosen.unchanged),
    "log": lambda chosen: log.run(chosen.commits),
}
