"""`python -m benchmarks peers`: Lochan and the real Nessie side by side, in one run.

Both servers stand on stores of one kind; never are both under load. Row by row and round by round
they take turns, and the first one changes from round to round. A window in which others used more
than a tenth of a core is no measurement: it is marked, and repeated while there is time. Every
window is a line of the output file at once, so a run that was cut off goes on with --resume.

With --authenticated, Lochan asks who calls and decides what each may do; Nessie does neither. The
lines of both state it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.http_load import rows
from benchmarks.http_load.callers import AUTHENTICATED, admin_token, prepare
from benchmarks.http_load.drive import run
from benchmarks.http_load.preparation import Preparation, Refused
from benchmarks.http_load.processes import Missing, Served
from benchmarks.http_load.tables import ratio_table
from benchmarks.http_load.testbed import SERVERS, STORES, Testbed
from benchmarks.http_load.usage import between, look, resident_mb
from benchmarks.measure import Line

OTHER_CORES_MAX = 0.1
TRIES = 3
STARTS = 3

_SETTLE_S = 0.4
_SETTLE_TRIES = 20
_IDLE_S = 2.0

# The time of a turn besides its window: settling and preparing, on average over the rows.
_TURN_S = 1.0

_NAMES = ("benchmark", "store", "authenticated", "server", "workload", "clients")

# The fields whose medians are taken; the other fields describe one window.
_FIGURES = ("ops_s", "p50_ms", "p99_ms", "server_cpu_us_per_op", "generator_cores", "resident_mb")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="`python -m benchmarks.report --peers FILE` then writes docs/performance.md.",
    )
    parser.add_argument("--store", choices=STORES, default="rocksdb")
    parser.add_argument("--rows", nargs="+", default=rows.TABLE, metavar="NAME:CLIENTS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="length of a window; default: 3")
    parser.add_argument("--warm", type=float, default=1, help="seconds before each window")
    parser.add_argument(
        "--minutes", type=float, default=14, help="windows are repeated as long as that allows"
    )
    parser.add_argument(
        "--authenticated", action="store_true", help=f"Lochan only: {AUTHENTICATED}"
    )
    parser.add_argument("--output", type=Path, help="default: .lochan/peers-STORE.jsonl")
    parser.add_argument("--resume", action="store_true", help="go on with the output file")
    chosen = parser.parse_args(arguments)
    name = f"peers-{chosen.store}{'-authenticated' if chosen.authenticated else ''}.jsonl"
    chosen.output = chosen.output or Path(".lochan", name)
    try:
        for row in chosen.rows:
            rows.split(row)
    except ValueError as error:
        parser.error(str(error))
    return chosen


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    if not chosen.resume:
        chosen.output.unlink(missing_ok=True)
    book = Book(chosen.output)
    try:
        with Testbed(chosen.store) as testbed:
            contest = Contest(testbed, book, chosen)
            contest.start()
            run(contest.run)
    except Missing as missing:
        sys.exit(str(missing))
    lines = summarise(book.lines)
    print(ratio_table(lines, chosen.store, authenticated=chosen.authenticated))
    print(f"\nlines: {chosen.output}")


class Book:
    """Every window that was measured, in memory and in the output file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: list[Line] = []
        if path.is_file():
            self.lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def add(self, **line: Any) -> None:
        self.lines.append(line)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def has(self, **where: Any) -> bool:
        """Returns whether such a line was measured while the machine was quiet."""
        fields = {**where, "quiet": True}
        return any(fields.items() <= line.items() for line in self.lines)


class Contest:
    """Two servers that take turns."""

    def __init__(self, testbed: Testbed, book: Book, chosen: argparse.Namespace) -> None:
        self._testbed = testbed
        self._book = book
        self._chosen = chosen
        self._ends = time.monotonic() + chosen.minutes * 60
        self._began = time.monotonic()
        self._left = chosen.rounds * len(chosen.rows) * len(SERVERS)
        self._servers: dict[str, Served] = {}
        self._worlds: dict[str, Preparation] = {}
        self._about: Line = {"store": testbed.store}
        if chosen.authenticated:
            self._about["authenticated"] = True

    def start(self) -> None:
        """Starts each server a few times for the figures of an idle one; the last one stays."""
        for name in SERVERS:
            known = self._book.has(benchmark="peer_idle", server=name)
            for _ in range(1 if known else STARTS):
                if name in self._servers:
                    self._servers[name].stop()
                served = self._servers[name] = self._testbed.start(
                    name, authenticated=self._chosen.authenticated
                )
                if not known:
                    self._note_idle(served)

    def _note_idle(self, served: Served) -> None:
        first = look([])
        time.sleep(_IDLE_S)
        quiet = between(first, look([])).other <= OTHER_CORES_MAX
        memory = resident_mb([served.pid])
        self._say(f"{served.name}: ready after {served.ready_s:.2f} s, {memory:.0f} MB idle")
        self._book.add(
            benchmark="peer_idle",
            server=served.name,
            **self._about,
            ready_s=served.ready_s,
            resident_mb=memory,
            quiet=quiet,
        )

    async def run(self) -> None:
        tag = f"p{int(time.time()) % 10_000_000:x}"
        for name, served in self._servers.items():
            asks = name == "lochan" and self._chosen.authenticated
            token = admin_token(self._testbed.folder) if asks else ""
            self._worlds[name] = await prepare(served.address, tag, token)
        await self._warm_up()
        for number in range(1, self._chosen.rounds + 1):
            order = SERVERS if number % 2 else SERVERS[::-1]
            for row in self._chosen.rows:
                for name in order:
                    await self._turn(name, row, number)
        for preparation in self._worlds.values():
            preparation.caller.close()

    async def _warm_up(self) -> None:
        """Every row once without looking: a compiler needs to have seen the work."""
        for name in SERVERS:
            for row in self._chosen.rows:
                await self._measure(name, row, seconds=0.7, warm_s=0.3)
            self._say(f"{name}: warm")

    async def _turn(self, name: str, row: str, number: int) -> None:
        workload, clients = rows.split(row)
        about = {
            "benchmark": "peer",
            **self._about,
            "server": name,
            "workload": workload,
            "clients": clients,
            "round": number,
        }
        for _ in range(TRIES):
            if self._book.has(**about):
                return
            await self._settle()
            self._left -= 1
            try:
                line = await self._measure(
                    name, row, seconds=self._chosen.seconds, warm_s=self._chosen.warm
                )
            except (Refused, OSError, TimeoutError) as error:
                self._servers[name].check()
                self._say(f"round {number} {row:18} {name:7} failed: {error}")
                continue
            quiet = line["other_cores"] <= OTHER_CORES_MAX
            self._book.add(**about, quiet=quiet, **line)
            self._say(
                f"round {number} {row:18} {name:7} {line['ops_s']:9,.0f}/s "
                f"p99 {line['p99_ms']:8.2f} ms  others {line['other_cores']:.2f}"
                + ("" if quiet else "  disturbed")
                + (f"  {line['errors']} errors" if line["errors"] else "")
            )
            if not self._has_time():
                return

    def _has_time(self) -> bool:
        """Returns whether there is time to repeat a window and still measure every row."""
        turn_s = self._chosen.seconds + self._chosen.warm + _TURN_S
        return time.monotonic() + max(0, self._left) * turn_s < self._ends

    async def _measure(self, name: str, row: str, *, seconds: float, warm_s: float) -> Line:
        pids = self._testbed.pids(self._servers[name])
        preparation = self._worlds[name]
        measured = await rows.measure(preparation, row, seconds=seconds, warm_s=warm_s, pids=pids)
        summary = measured.figures() | measured.costs()
        return {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in summary.items()
        }

    async def _settle(self) -> None:
        """Waits until the machine is quiet, not longer than is reasonable."""
        for _ in range(_SETTLE_TRIES):
            first = look([])
            await asyncio.sleep(_SETTLE_S)
            if between(first, look([])).other <= OTHER_CORES_MAX:
                return
            if not self._has_time():
                return

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s  {text}", flush=True)


def summarise(lines: Iterable[Line]) -> list[Line]:
    """Returns one line for each server and row: medians over the windows that were quiet.

    A row that was never quiet keeps the median of all its windows, with `quiet_rounds` 0.
    """
    found: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        if line["benchmark"] in {"peer", "peer_idle"}:
            found.setdefault(tuple(line.get(name) for name in _NAMES), []).append(line)
    return [_median(group) for group in found.values()]


def _median(group: list[Line]) -> Line:
    quiet = [line for line in group if line["quiet"]]
    chosen = quiet or group
    summary: Line = {name: group[0][name] for name in _NAMES if name in group[0]}
    for figure in ("ready_s", *_FIGURES):
        if figure in group[0]:
            summary[figure] = round(statistics.median(line[figure] for line in chosen), 3)
    if "ops_s" in summary:
        rates = [line["ops_s"] for line in chosen]
        summary["ops_s_range"] = [round(min(rates), 1), round(max(rates), 1)]
        summary["errors"] = sum(line["errors"] for line in chosen)
    return summary | {"rounds": len(chosen), "quiet_rounds": len(quiet)}
