"""`python -m benchmarks [name …] [--keys N …]`: runs all benchmarks, or the named ones."""

from __future__ import annotations

import argparse

from benchmarks import index_commit, index_read, node

ALL = {"node": node.run, "index": index_read.run, "change": index_commit.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "names", nargs="*", default=sorted(ALL), help=f"of {', '.join(sorted(ALL))}"
    )
    parser.add_argument("--keys", type=int, nargs="*", default=[1_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in ALL:
            parser.error(f"no benchmark is called {name}; there are {', '.join(sorted(ALL))}")
        ALL[name](arguments.keys)


main()
