"""Writes the comparison of stores into docs/performance.md from docs/measured-stores.jsonl.

Lines of a newer run replace those of the same row, all others stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.http_load.rows import ROWS
from benchmarks.http_load.tables import markdown, short
from benchmarks.measure import Line

MEASURED = Path(__file__).parents[1] / "docs" / "measured-stores.jsonl"

_SECTION = re.compile(r"(<!-- stores: figures -->\n).*?(<!-- end -->)", re.DOTALL)
_NAMES = ("store", "workload", "clients", "server")


def read_lines(path: Path) -> list[Line]:
    text = path.read_text("utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines() if line]


def keep(known: Sequence[Line], measured: Iterable[Line]) -> list[Line]:
    """Adds measured lines to the stored ones; those of servers that did not start are left out."""
    fresh = [line for line in measured if line["benchmark"] == "stores" and "ops_s" in line]
    joined = {_name(line): line for line in (*known, *fresh)}
    return list(joined.values())


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with the section written anew."""
    by_name = {_name(line): line for line in lines}
    head = ["store", "workload : clients", "Lochan, commits/s, p50/p99 ms", "Nessie, the same"]
    head += ["times", "our calls per commit", "commits per swap"]
    body = [
        _row(line, by_name.get((*_name(line)[:-1], "nessie")))
        for line in lines
        if line["server"] == "lochan"
    ]
    made = markdown(head, body) if body else "Not measured yet.\n"
    return _SECTION.sub(lambda found: found[1] + made + found[2], page)


def _name(line: Line) -> tuple[object, ...]:
    return tuple(line.get(name) for name in _NAMES)


def _row(ours: Line, theirs: Line | None) -> list[str]:
    times = "" if theirs is None else short(ours["ops_s"] / max(1e-9, theirs["ops_s"]))
    return [
        f"`{ours['store']}`",
        f"{ROWS[ours['workload']][1]} : {ours['clients']}",
        _figures(ours),
        "not started" if theirs is None else _figures(theirs),
        times,
        short(ours["calls_per_commit"]),
        short(ours["commits_per_swap"]),
    ]


def _figures(line: Line) -> str:
    return f"{line['ops_s']:,.0f}, {short(line['p50_ms'])}/{short(line['p99_ms'])}"
