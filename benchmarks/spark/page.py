"""Writes the figures of the pipeline into docs/performance.md from docs/measured-spark.jsonl.

Lines of a newer run replace those of the same thing, all others stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.measure import Line

MEASURED = Path(__file__).parents[2] / "docs" / "measured-spark.jsonl"

_SECTION = re.compile(r"(<!-- spark: figures -->\n).*?(<!-- end -->)", re.DOTALL)
_IDENTITY = ("benchmark", "query", "checks", "shape")
_FEED_MIN = 5_000

_CALLED = {
    "all_columns": "read by branch, all columns",
    "sum": "read by branch, one column",
    "count": "read by branch, count",
    "flat": "write, flat columns",
    "structs": "write, structs",
    "lists_and_maps": "write, lists and maps",
    "counted": "write with five checks of rows",
    "pattern": "write with a regular expression on every row",
}


def keep(known: Sequence[Line], measured: Iterable[Line]) -> list[Line]:
    """Adds measured lines to the stored ones."""
    joined = {_identity(line): line for line in known}
    new = [
        line
        for line in measured
        if str(line["benchmark"]).startswith("spark_") and "skipped" not in line
    ]
    joined.update({_identity(line): line for line in new})
    return list(joined.values())


def _identity(line: Line) -> tuple[object, ...]:
    return tuple(line.get(name) for name in _IDENTITY)


def read_lines(path: Path) -> list[Line]:
    """Returns the lines that are JSON; Java writes others between them."""
    text = path.read_text("utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with the section written anew."""
    head = "pipeline | size | bar | measured | |\n|---|---|---|---|---|"
    rows = "\n".join(f"| {row} |" for line in lines for row in _rows(line))
    made = f"| {head}\n{rows}\n" if rows else "Not measured yet.\n"
    return _SECTION.sub(lambda found: found[1] + made + found[2], page)


def _rows(line: Line) -> list[str]:
    if line["benchmark"] == "spark_feed":
        return [_feed_row(line, way) for way in ("batch", "stream")]
    name = line.get("query") or line.get("checks") or line.get("shape")
    if name not in _CALLED:
        return []
    bar = line["ratio_max"]
    summary = f"{line['ratio']:.3f} ({line['cpu_s']:.2f} s to {line['plain_cpu_s']:.2f} s)"
    if "runtime_ratio" in line:
        summary += f"; {line['runtime_ratio']:.2f} of Iceberg's runtime"
    return [
        _row(
            _CALLED[name], f"{line['rows']:,} rows", f"CPU, times ≤ {bar}", summary, line["is_met"]
        )
    ]


def _feed_row(line: Line, way: str) -> str:
    rate = line[f"{way}_commits_per_s"]
    summary = f"{rate:,} ({min(line[f'{way}_rates']):,} to {max(line[f'{way}_rates']):,})"
    size = f"{line['commits']:,} commits"
    return _row(
        f"change feed, {way}", size, f"commits/s ≥ {_FEED_MIN:,}", summary, rate >= _FEED_MIN
    )


def _row(*cells: object) -> str:
    *summary, is_met = cells
    return " | ".join([*map(str, summary), "met" if is_met else "**missed**"])
