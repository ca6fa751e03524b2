"""Writes the cost of decisions into docs/performance.md from docs/measured-access.jsonl.

Lines of a newer run replace those of the same thing, all others stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.measure import Line

MEASURED = Path(__file__).parents[1] / "docs" / "measured-access.jsonl"
ADDED_US_MAX = 15.0

_SECTION = re.compile(r"(<!-- access: figures -->\n).*?(<!-- end -->)", re.DOTALL)
_CALLED = {"commit": "a commit", "read": "a read", "denied": "a commit that is denied"}
_BARRED = ("commit", "read")


def read_lines(path: Path) -> list[Line]:
    text = path.read_text("utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines() if line]


def keep(known: Sequence[Line], measured: Iterable[Line]) -> list[Line]:
    """Adds measured lines to the stored ones."""
    joined = {line["kind"]: line for line in known}
    joined.update({line["kind"]: line for line in measured if line["benchmark"] == "access"})
    return list(joined.values())


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with the section written anew."""
    head = "decisions of | size | bar | added us | found | added us, first requests | found | |"
    rows = "\n".join(_row(line) for line in lines)
    made = f"| {head}\n|{'---|' * 8}\n{rows}\n" if rows else "Not measured yet.\n"
    return _SECTION.sub(lambda found: found[1] + made + found[2], page)


def _row(line: Line) -> str:
    size = f"{line['principals']:,} users, {line['keys']:,} keys, {line['policies']} policies"
    added = float(line["next_added_us"])
    bar, verdict = "", ""
    if line["kind"] in _BARRED:
        bar = f"us ≤ {ADDED_US_MAX:g}"
        verdict = "met" if added <= ADDED_US_MAX else "**missed**"
    figures = " | ".join(_figures(line, name) for name in ("next", "first"))
    return f"| {_CALLED[line['kind']]} | {size} | {bar} | {figures} | {verdict} |"


def _figures(line: Line, name: str) -> str:
    decisions, conditions = (line[f"{name}_{each}_found"] for each in ("decisions", "conditions"))
    found = f"{decisions:.0%} of decisions, {conditions:.0%} of results"
    return f"{line[f'{name}_added_us']:.1f} | {found}"
