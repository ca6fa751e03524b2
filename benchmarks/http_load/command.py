"""`python -m benchmarks http …`: one server alone, measured over HTTP.

`rows` measures single operations, `asymmetric` small against large committers, `heavy` small
commits beside heavy work, `generate` the two workloads of the storage document, `simulate` Nessie's
load simulations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.http_load import generators, rows, simulations
from benchmarks.http_load.asymmetric import asymmetric
from benchmarks.http_load.callers import AUTHENTICATED, admin_token, prepare
from benchmarks.http_load.drive import run
from benchmarks.http_load.heavy import COMMITTERS, KEYS, KINDS, OPERATIONS, Heavy
from benchmarks.http_load.processes import Missing
from benchmarks.http_load.testbed import SERVERS, STORES, Testbed
from benchmarks.measure import emit


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--server", choices=SERVERS, default="lochan", help="the server to start")
    shared.add_argument("--store", choices=STORES, default="rocksdb", help="default: rocksdb")
    shared.add_argument("--address", help="http://HOST:PORT of a running server instead")
    shared.add_argument("--pid", type=int, action="append", default=[], help="its process, with it")
    shared.add_argument("--seconds", type=float, default=4, help="length of a window; default: 4")
    shared.add_argument("--warm", type=float, default=1, help="seconds before each window")
    parser = argparse.ArgumentParser(prog="python -m benchmarks http", description=__doc__)
    commands = parser.add_subparsers(dest="measurement", required=True, metavar="measurement")
    command = commands.add_parser("rows", parents=[shared], help="single operations")
    command.add_argument(
        "rows", nargs="*", metavar="NAME:CLIENTS", help=f"of {', '.join(rows.ROWS)}"
    )
    command.add_argument("--authenticated", action="store_true", help=AUTHENTICATED)
    command = commands.add_parser("asymmetric", parents=[shared], help="1 put against 10 puts")
    command.add_argument("--pairs", type=int, nargs="+", default=[1, 8], metavar="N")
    command = commands.add_parser("heavy", parents=[shared], help="small commits beside heavy work")
    command.add_argument("--keys", type=int, default=KEYS, help="of the large branch")
    command.add_argument("--operations", type=int, default=OPERATIONS, help="of a large commit")
    command.add_argument("--committers", type=int, default=COMMITTERS, help="small ones")
    command.add_argument("--beside", nargs="+", default=list(KINDS), choices=KINDS, metavar="KIND")
    command = commands.add_parser("generate", parents=[shared], help="the rate over a long run")
    command.add_argument("workloads", nargs="*", metavar="workload", help="tables, long-keys")
    command.add_argument("--scale", type=float, default=1.0, help="0.01 makes it a hundredth")
    command.add_argument("--clients", type=int, default=16)
    command = commands.add_parser("simulate", parents=[shared], help="load simulations")
    command.add_argument("simulations", nargs="*", metavar="simulation")
    command.add_argument("--users", type=int, help="instead of each simulation's own number")
    chosen = parser.parse_args(arguments)
    try:
        _complete(chosen)
    except ValueError as error:
        parser.error(str(error))
    return chosen


def _complete(chosen: argparse.Namespace) -> None:
    """Fills in defaults; ValueError for unknown names."""
    chosen.authenticated = getattr(chosen, "authenticated", False)
    if chosen.authenticated and (chosen.address is not None or chosen.server != "lochan"):
        raise ValueError("--authenticated starts a server of ours; name no other one")
    if chosen.measurement == "rows":
        chosen.rows = chosen.rows or rows.TABLE
        for row in chosen.rows:
            rows.split(row)
    known: dict[str, list[str]] = {
        "generate": list(generators.WORKLOADS),
        "simulate": list(simulations.SIMULATIONS),
    }
    if chosen.measurement in known:
        where = "workloads" if chosen.measurement == "generate" else "simulations"
        names = getattr(chosen, where) or known[chosen.measurement]
        for name in names:
            if name not in known[chosen.measurement]:
                raise ValueError(
                    f"no {where[:-1]} {name!r}; there are {', '.join(known[chosen.measurement])}"
                )
        setattr(chosen, where, names)


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)
    with ExitStack() as stack:
        pids, address = list(chosen.pid), chosen.address
        token = ""
        about: dict[str, Any] = {"server": chosen.server, "store": chosen.store}
        if address is None:
            testbed = stack.enter_context(Testbed(chosen.store))
            try:
                served = testbed.start(chosen.server, authenticated=chosen.authenticated)
            except Missing as missing:
                emit("http", skipped=str(missing))
                sys.exit(1)
            pids, address = testbed.pids(served), served.address
            if chosen.authenticated:
                about["authenticated"] = True
                token = admin_token(testbed.folder)
        run(lambda: _all(chosen, address, token, pids, about))


async def _all(
    chosen: argparse.Namespace, address: str, token: str, pids: list[int], about: Any
) -> None:
    run_name = f"b{int(time.time()) % 10_000_000:x}"
    preparation = await prepare(address, run_name, token)
    window = {"seconds": chosen.seconds, "warm_s": chosen.warm, "pids": pids}
    if chosen.measurement == "rows":
        for row in chosen.rows:
            measured = await rows.measure(preparation, row, **window)
            name, clients = rows.split(row)
            summary = measured.figures() | measured.costs()
            emit("http", **about, workload=name, clients=clients, **summary)
    elif chosen.measurement == "asymmetric":
        for pairs in chosen.pairs:
            emit("asymmetric", **about, **await asymmetric(preparation, pairs, **window))
    elif chosen.measurement == "heavy":
        heavy = Heavy(preparation, chosen.keys, chosen.operations, chosen.committers)
        async for summary in heavy.measure(chosen.beside, **window):
            emit("heavy", **about, keys=chosen.keys, operations_each=chosen.operations, **summary)
    elif chosen.measurement == "generate":
        for name in chosen.workloads:
            generated: Awaitable[dict[str, Any]] = generators.generate(
                preparation, name, scale=chosen.scale, clients=chosen.clients, pids=pids
            )
            emit("generated", **about, **await generated)
    else:
        for name in chosen.simulations:
            users, simulate = simulations.SIMULATIONS[name]
            summary = await simulate(preparation, chosen.users or users, pids)
            emit("simulated", **about, simulation=name, **summary)
    preparation.caller.close()
