"""Writes the rows of files over HTTP into docs/performance.md from docs/measured-files-http.jsonl.

Lines of a newer run replace those of the same row, all others stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.http_files.recorded import LAKEFS
from benchmarks.http_files.table import (
    calibration_row,
    missed_bars,
    table,
    times_faster,
    title_of,
)
from benchmarks.http_load.tables import NOTHING
from benchmarks.measure import Line

MEASURED = Path(__file__).parents[2] / "docs" / "measured-files-http.jsonl"

_SECTION = re.compile(r"(<!-- files-http: table -->\n).*?(<!-- end -->)", re.DOTALL)
_CALIBRATION = "files_http_calibration"

TITLES = {
    "files": "Over `/files/v1`, with branches and merges over `/api/v2`, without authentication:",
    "lakefs": "Over the lakeFS API, with authentication:",
}
"""The APIs, in the order of the page."""


def read_lines(path: Path) -> list[Line]:
    text = path.read_text("utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines() if line]


def keep(known: Sequence[Line], measured: Iterable[Line]) -> list[Line]:
    """Adds measured lines to the stored ones, in the order of the recorded rows."""
    joined = {_name(line): line for line in known}
    joined.update({_name(line): line for line in measured})
    order = [_CALIBRATION, *(f"{api} {row}" for api in TITLES for row in LAKEFS)]
    return [joined[name] for name in order if name in joined]


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with the section written anew."""
    made = ""
    for api, title in TITLES.items():
        rows = [line for line in lines if line.get("api") == api]
        made += f"{title}\n\n{table(rows)}\n{_missed(rows)}\n" if rows else ""
    made += "".join(
        f"\nThe {calibration_row(line)}.\n"
        for line in lines
        if line["benchmark"] == _CALIBRATION and made
    )
    made = made or NOTHING
    return _SECTION.sub(lambda found: found[1] + made + found[2], page)


def _missed(rows: Sequence[Line]) -> str:
    """Returns a sentence about the rows that are slower than the bar, or that refused something."""
    slower = [title_of(line) for line in rows if (times_faster(line) or 1) < 1]
    refused = [title_of(line) for line in rows if line["errors"] + line["conflicts"]]
    bars = [text for line in rows for text in missed_bars(line)]
    parts = [f"Slower than its PostgreSQL column: {_listed(slower)}."]
    parts += [f"Bars that are missed: {_listed(bars)}."]
    parts += [f"With refusals: {_listed(refused)}."]
    return " ".join(parts) + "\n"


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names) if names else "none"


def _name(line: Line) -> str:
    if line["benchmark"] == _CALIBRATION:
        return _CALIBRATION
    return f"{line['api']} {line['workload']}:{line['clients']}"
