"""The command line of the measurements: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

from benchmarks import build, change, history, kernel, node, parallel, read, servers
from benchmarks.change import emit_growth
from benchmarks.measure import Effort, Line, emit_machine

GROUPS = {
    "node": (node.run, "encode, decode, find, splice of one node"),
    "build": (build.run, "build, build_on_rocksdb: a tree from a sorted stream"),
    "parallel": (parallel.run, "build_parallel: the same tree from parts in two processes"),
    "read": (read.run, "lookup, page, scan, difference, edit of a tree on RocksDB"),
    "change": (change.run, "change, change_stages, change_growth: one commit on RocksDB"),
    "history": (history.run, "history_growth, ancestor, merge_base_*: the cost of depth"),
    "kernel": (kernel.run, "kernel_commit, references, kernel_postgres: commits by the kernel"),
    "servers": (servers.run, "servers, servers_relative: several processes on one branch"),
}

_COMMANDS = {
    "access": "benchmarks.access",
    "against": "benchmarks.against",
    "events": "benchmarks.events.command",
    "files-http": "benchmarks.http_files.command",
    "files": "benchmarks.files.command",
    "http": "benchmarks.http_load.command",
    "memory": "benchmarks.memory",
    "neighbours": "benchmarks.neighbours.command",
    "peers": "benchmarks.peers",
    "spark": "benchmarks.spark.command",
    "stores": "benchmarks.stores",
    "streams": "benchmarks.streams.command",
}
"""Measurements with arguments of their own, by the module that has their command line."""


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in _COMMANDS:
        # Imported on use: the event loop and the databases take a while to load.
        import_module(_COMMANDS[words[0]]).main(words[1:])
        return
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
        "\nover HTTP, each with a --help of its own:\n"
        "  python -m benchmarks http rows                one server alone\n"
        "  python -m benchmarks files-http               files, in the rows of lakeFS\n"
        "  python -m benchmarks peers                    side by side with the real Nessie\n"
        "  python -m benchmarks stores                   commits on each store, and Nessie's\n"
        "  python -m benchmarks against --old CHECKOUT   two versions in alternation\n"
        "  python -m benchmarks memory                   one repository against 200\n"
        "  python -m benchmarks streams                  large bodies, slow clients, events\n"
        "  python -m benchmarks events                   what subscribers cost the commits\n"
        "  python -m benchmarks neighbours               a quiet caller beside a noisy one\n"
        "  python -m benchmarks files                    very many staged files, logs of paths\n"
        "\nof decisions by policies:\n"
        "  python -m benchmarks access                   what they add to a commit and a read\n"
        "\non Spark:\n"
        "  python -m benchmarks spark read --rows 1000000   by branch against plain Parquet\n"
        "\ndocs/performance.md explains the numbers.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "groups", nargs="*", metavar="group", help="the groups to run; default: all"
    )
    parser.add_argument(
        "--keys",
        type=int,
        nargs="+",
        default=[1_000, 100_000, 1_000_000],
        metavar="N",
        help="sizes of the trees; default: 1000 100000 1000000",
    )
    parser.add_argument("--quick", action="store_true", help="few repeats; times mean little")
    chosen = parser.parse_args(words)
    unknown = [name for name in chosen.groups if name not in GROUPS]
    if unknown:
        parser.error(f"no group is called {unknown[0]}; there are {', '.join(GROUPS)}")
    if min(chosen.keys) < 100:
        parser.error("--keys: a tree has at least 100 keys")
    effort = Effort.quick() if chosen.quick else Effort()
    names = chosen.groups or list(GROUPS)
    if len(names) == len(chosen.keys) == 1:
        emit_machine()
        GROUPS[names[0]][0](chosen.keys[0], effort)
    else:
        emit_growth(_each_in_its_own_process(names, chosen.keys, quick=chosen.quick))


def _each_in_its_own_process(names: list[str], sizes: list[int], *, quick: bool) -> list[Line]:
    """Runs every group with every size; none inherits a heap that others have torn up.

    In one process the last and largest change was a fifth slower than by itself.
    """
    lines = []
    for name in names:
        for size in sizes[:1] if name == "node" else sizes:
            command = [sys.executable, "-m", "benchmarks", name, "--keys", str(size)]
            command += ["--quick"] if quick else []
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                for line in child.stdout or ():
                    print(line, end="", flush=True)
                    lines.append(json.loads(line))
            if child.returncode:
                sys.exit(child.returncode)
    return lines


if __name__ == "__main__":
    main()
