"""`python -m benchmarks stores`: commits by HTTP on every store, beside the real Nessie there.

Each server is measured alone, with 1, 16 and 64 clients that commit one put on one branch and on a
branch each. Of ours the calls of the store are counted: all of them, and those that swap rows of
branches. Databases run on this machine and share its cores with servers and clients; those that are
emulators have ceilings of their own. One short window each: read ratios and counts, not absolutes.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any

from benchmarks.http_load import rows
from benchmarks.http_load.callers import prepare
from benchmarks.http_load.drive import drive, run
from benchmarks.http_load.preparation import Preparation
from benchmarks.http_load.processes import Missing, Served
from benchmarks.http_load.testbed import SERVERS, STORES, Testbed
from benchmarks.measure import emit, emit_machine

CLIENTS = (1, 16, 64)
WORKLOADS = ("commit-one", "commit-own")

_CALLS = re.compile(
    r'^lochan_store_calls_total\{operation="(\w+)",outcome="\w+"\} (\S+)$', re.MULTILINE
)
_SWAPS = ("apply", "apply_each", "set_if")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks stores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="`python -m benchmarks.report --stores FILE` then writes docs/performance.md.",
    )
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=SERVERS)
    parser.add_argument("--clients", nargs="+", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=float, default=2, help="length of a window; default: 2")
    parser.add_argument("--warm", type=float, default=1, help="seconds on each new server")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)
    emit_machine()
    for store in chosen.stores:
        with Testbed(store) as testbed:
            for server in chosen.servers:
                more = ["--metrics"] if server == "lochan" else []
                try:
                    served = testbed.start(server, more=more)
                except (Missing, RuntimeError) as reason:
                    emit("stores", store=store, server=server, skipped=str(reason)[-300:])
                    continue
                run(lambda: _measure(chosen, store, server, served))  # noqa: B023 - runs at once
                served.stop()


async def _measure(chosen: argparse.Namespace, store: str, server: str, served: Served) -> None:
    preparation = await prepare(served.address, "stores", "")
    await _window(preparation, "commit-own", 4, chosen.warm)
    for workload in WORKLOADS:
        for clients in chosen.clients:
            figures = await _row(preparation, workload, clients, chosen.seconds, served, server)
            about = {"store": store, "server": server, "workload": workload, "clients": clients}
            emit("stores", **about, **figures)
    preparation.caller.close()


async def _row(
    preparation: Preparation,
    workload: str,
    clients: int,
    seconds: float,
    served: Served,
    server: str,
) -> dict[str, Any]:
    """Measures one row; calls of commits that were under way at the end are counted too."""
    built = await rows.ROWS[workload][0](preparation, clients)
    before = _store_calls(served) if server == "lochan" else Counter()
    measured = await drive(preparation.requests, built, seconds=seconds, warm_s=0, pids=[])
    figures = measured.figures()
    kept = {name: figures[name] for name in ("ops_s", "p50_ms", "p99_ms")}
    kept |= {"conflicts": measured.conflicts, "errors": measured.errors}
    if server == "lochan":
        calls = _store_calls(served) - before
        commits = max(1, measured.operations)
        kept["calls_per_commit"] = calls.total() / commits
        kept["commits_per_swap"] = commits / max(1, sum(calls[name] for name in _SWAPS))
    return kept


async def _window(preparation: Preparation, row: str, clients: int, seconds: float) -> None:
    built = await rows.ROWS[row][0](preparation, clients)
    await drive(preparation.requests, built, seconds=seconds, warm_s=0, pids=[])


def _store_calls(served: Served) -> Counter[str]:
    """Returns how often each operation of the store was called so far."""
    connection = HTTPConnection("127.0.0.1", served.port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    counts: Counter[str] = Counter()
    for operation, count in _CALLS.findall(text):
        counts[operation] += int(float(count))
    return counts
