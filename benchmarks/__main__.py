"""The door of the measurements: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks import build, change, node, parallel, read
from benchmarks.measure import Effort, emit_machine

GROUPS = {
    "node": (node.run, "encode, decode, find, splice of one node"),
    "build": (build.run, "build, build_on_rocksdb: a tree from a sorted stream"),
    "parallel": (parallel.run, "build_parallel: the same tree from parts in two processes"),
    "read": (read.run, "lookup, page, scan, difference, edit of a tree on RocksDB"),
    "change": (change.run, "change, change_stages, change_growth: one commit on RocksDB"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures Lochan and prints one JSON line for each number. Times are CPU time "
        "of the calling thread, the best of several runs; counts and bytes are exact.",
        epilog="groups and the lines they print:\n"
        + "\n".join(f"  {name:9} {what}" for name, (_, what) in GROUPS.items())
        + "\n\nexamples:\n"
        "  python -m benchmarks                          everything, about two minutes\n"
        "  python -m benchmarks change --keys 1000000    one commit in a large repository\n"
        "  python -m benchmarks --quick --keys 1000      a look in a few seconds\n"
        "\ndocs/performance.md says what the numbers mean.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="group", help="what to run; default: all")
    parser.add_argument(
        "--keys",
        type=int,
        nargs="+",
        default=[1_000, 100_000, 1_000_000],
        metavar="N",
        help="sizes of the trees; default: 1000 100000 1000000",
    )
    parser.add_argument("--quick", action="store_true", help="few repeats; times mean little")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.groups if name not in GROUPS]
    if unknown:
        parser.error(f"no group is called {unknown[0]}; there are {', '.join(GROUPS)}")
    if min(chosen.keys) < 100:
        parser.error("--keys: a tree has at least 100 keys")
    effort = Effort.quick() if chosen.quick else Effort()
    for name in chosen.groups or GROUPS:
        emit_machine()
        GROUPS[name][0](chosen.keys, effort)


if __name__ == "__main__":
    main()
