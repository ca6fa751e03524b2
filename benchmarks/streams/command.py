"""Measures streamed bodies and events on a server of its own, which also serves Nessie's interface.

    python -m benchmarks streams                                   all parts, about ten minutes
    python -m benchmarks streams --part memory --gigabytes 0.1     a quick look at one

`memory`: bodies of 4 GB up and down, and the resident memory of the server. `uploads`: commits
alone and beside 200 uploads at the slowest rate that is allowed. `slow`: clients that stall or
trickle, and when each is cut. `followers`: 1,000 clients that follow one stream of events. Each
part has a new store on RocksDB and a new server; a line states whether its bar was met.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks.http_load.drive import run
from benchmarks.http_load.processes import Served, start
from benchmarks.http_load.testbed import Testbed
from benchmarks.measure import emit_machine
from benchmarks.streams import followers, slow_clients, transfers, uploads
from lochan.base.limits.http import HTTP_PROGRESS_TIMEOUT_S
from lochan.transport.event_loop import allow_many_connections


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of a body; default: 4")
    parser.add_argument("--uploads", type=int, default=200, help="default: 200")
    parser.add_argument("--committers", type=int, default=8, help="default: 8")
    parser.add_argument("--rounds", type=int, default=3, help="of `uploads`; default: 3")
    parser.add_argument("--seconds", type=float, default=32.0, help="a window; default: 32")
    parser.add_argument("--followers", type=int, default=1_000, help="default: 1000")
    parser.add_argument("--messages", type=int, default=200, help="default: 200")
    parser.add_argument(
        "--progress-s",
        type=float,
        default=HTTP_PROGRESS_TIMEOUT_S,
        help="in which a body must make progress; the server's own limit by default",
    )
    chosen = parser.parse_args(arguments)
    allow_many_connections()
    emit_machine()
    for part in chosen.part:
        with Testbed("rocksdb") as testbed, _start(testbed, chosen.progress_s) as server:
            PARTS[part](server, chosen)


def _start(testbed: Testbed, progress_s: float) -> Served:
    command = [sys.executable, "-m", "benchmarks.streams.server"]
    command += ["--store", f"rocksdb:{testbed.folder / 'store'}"]
    command += ["--files", str(testbed.folder / "files"), "--progress-s", str(progress_s)]
    return start("lochan", command, testbed.folder)


def _memory(server: Served, chosen: argparse.Namespace) -> None:
    transfers.measure(server, int(chosen.gigabytes * 1e9))


def _uploads(server: Served, chosen: argparse.Namespace) -> None:
    run(
        lambda: uploads.measure(
            server,
            uploads=chosen.uploads,
            committers=chosen.committers,
            rounds=chosen.rounds,
            seconds=chosen.seconds,
            progress_s=chosen.progress_s,
        )
    )


def _slow(server: Served, chosen: argparse.Namespace) -> None:
    slow_clients.measure(server, chosen.progress_s)


def _followers(server: Served, chosen: argparse.Namespace) -> None:
    run(lambda: followers.measure(server, chosen.followers, chosen.messages))


PARTS: dict[str, Callable[[Served, argparse.Namespace], None]] = {
    "memory": _memory,
    "uploads": _uploads,
    "slow": _slow,
    "followers": _followers,
}
