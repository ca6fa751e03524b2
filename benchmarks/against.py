"""`python -m benchmarks against --old CHECKOUT`: two versions of Lochan, measured in alternation.

Each round starts one server of each version on a fresh store and measures every row on both, one
after the other; the version that begins changes from row to row and from round to round. Every
window is one JSON line, and every row ends with the ratio of its pairs: `ops_s_ratio` is the median
over the rounds of new by old, so that what both of a pair suffer from cancels out.
With --authenticated, only the new version asks who calls: two servers of one checkout then show
what that costs.
`cpu_ratio` does the same for the processor time of the server per operation: it is the steadier of
both while other programs are running, and less is better.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.http_load import rows
from benchmarks.http_load.callers import AUTHENTICATED, admin_token, prepare, setup_flags
from benchmarks.http_load.drive import run
from benchmarks.http_load.processes import Served, lochan_command, start
from benchmarks.http_load.testbed import Testbed
from benchmarks.measure import Line, emit

VERSIONS = ("old", "new")

_FIGURES = ("ops_s", "p50_ms", "p99_ms", "server_cpu_us_per_op", "other_cores", "errors")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks against",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--old", type=Path, required=True, help="checkout of the version before")
    parser.add_argument(
        "--new", type=Path, default=Path(__file__).parents[1], help="checkout; default: this one"
    )
    parser.add_argument("--store", choices=["rocksdb", "memory"], default="rocksdb")
    parser.add_argument("--rows", nargs="+", default=rows.TABLE, metavar="NAME:CLIENTS")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of windows; default: 5")
    parser.add_argument("--seconds", type=float, default=3, help="length of a window; default: 3")
    parser.add_argument("--warm", type=float, default=1, help="seconds before each window")
    parser.add_argument("--authenticated", action="store_true", help=f"new only: {AUTHENTICATED}")
    chosen = parser.parse_args(arguments)
    try:
        for row in chosen.rows:
            rows.split(row)
    except ValueError as error:
        parser.error(str(error))
    for checkout in (chosen.old, chosen.new):
        if not (checkout / "src" / "lochan").is_dir():
            parser.error(f"{checkout} has no src/lochan; name the folder of a checkout")
    return chosen


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)
    windows: list[Line] = []
    with Testbed(chosen.store) as stage:
        for number in range(1, chosen.rounds + 1):
            with ExitStack() as stack:
                servers = {
                    version: stack.enter_context(_start(chosen, stage.folder, version, number))
                    for version in VERSIONS
                }
                token = admin_token(stage.folder) if chosen.authenticated else ""
                windows += run(partial(_round, chosen, servers, number, token))
    about = {"authenticated": True} if chosen.authenticated else {}
    for row in chosen.rows:
        emit("against_ratio", store=chosen.store, row=row, **about, **ratios(windows, row))


def _start(chosen: argparse.Namespace, folder: Path, version: str, number: int) -> Served:
    name = f"{version}-{number}"
    store = "memory:" if chosen.store == "memory" else f"rocksdb:{folder / name}"
    source = getattr(chosen, version).resolve() / "src"
    flags = setup_flags(folder) if chosen.authenticated and version == "new" else []
    return start(name, ["env", f"PYTHONPATH={source}", *lochan_command(store, *flags)], folder)


async def _round(
    chosen: argparse.Namespace, servers: dict[str, Served], number: int, token: str
) -> list[Line]:
    tag = f"a{int(time.time()) % 10_000_000:x}"
    tokens = {"old": "", "new": token}
    worlds = {
        version: await prepare(served.address, tag, tokens[version])
        for version, served in servers.items()
    }
    windows = []
    for place, row in enumerate(chosen.rows):
        for version in VERSIONS if (number + place) % 2 else VERSIONS[::-1]:
            measured = await rows.measure(
                worlds[version],
                row,
                seconds=chosen.seconds,
                warm_s=chosen.warm,
                pids=[servers[version].pid],
            )
            figures = measured.figures() | measured.costs()
            window = {"row": row, "version": version, "round": number}
            window |= {"authenticated": True} if tokens[version] else {}
            window |= {figure: figures[figure] for figure in _FIGURES}
            emit("against", store=chosen.store, **window)
            windows.append(window)
    for world in worlds.values():
        world.caller.close()
    return windows


def ratios(windows: Sequence[Line], row: str) -> Line:
    """Returns the medians of a row, and the medians over its pairs of new by old."""
    by_version = {
        version: [each for each in windows if (each["row"], each["version"]) == (row, version)]
        for version in VERSIONS
    }
    summary: Line = {"rounds": len(by_version["old"])}
    for figure, ratio in (("ops_s", "ops_s_ratio"), ("server_cpu_us_per_op", "cpu_ratio")):
        old, new = ([each[figure] for each in by_version[version]] for version in VERSIONS)
        pairs = [after / before for before, after in zip(old, new, strict=True) if before]
        summary[f"old_{figure}"] = statistics.median(old)
        summary[f"new_{figure}"] = statistics.median(new)
        summary[ratio] = statistics.median(pairs) if pairs else None
        summary[f"{ratio}_range"] = [round(one, 3) for one in (min(pairs), max(pairs))]
    return summary


if __name__ == "__main__":
    main(sys.argv[1:])
