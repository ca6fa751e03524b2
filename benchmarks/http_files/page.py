"""Writes the rows of files over HTTP into docs/performance.md from docs/measured-files-http.jsonl.

Lines of a newer run replace those of the same row, all others stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.http_files.recorded import LAKEFS
from benchmarks.http_files.table import calibration_row, table
from benchmarks.http_load.tables import NOTHING
from benchmarks.measure import Line

MEASURED = Path(__file__).parents[2] / "docs" / "measured-files-http.jsonl"

_SECTION = re.compile(r"(<!-- files-http: table -->\n).*?(<!-- end -->)", re.DOTALL)
_CALIBRATION = "files_http_calibration"


def read_lines(path: Path) -> list[Line]:
    text = path.read_text("utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines() if line]


def keep(known: Sequence[Line], measured: Iterable[Line]) -> list[Line]:
    """Adds measured lines to the stored ones, in the order of the recorded rows."""
    joined = {_name(line): line for line in known}
    joined.update({_name(line): line for line in measured})
    order = [_CALIBRATION, *LAKEFS]
    return [joined[name] for name in order if name in joined]


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with the section written anew."""
    rows = [line for line in lines if line["benchmark"] == "files_http"]
    made = table(rows) if rows else NOTHING
    for line in lines:
        if line["benchmark"] == _CALIBRATION and rows:
            made += f"\nThe {calibration_row(line)}.\n"
    return _SECTION.sub(lambda found: found[1] + made + found[2], page)


def _name(line: Line) -> str:
    if line["benchmark"] == _CALIBRATION:
        return _CALIBRATION
    return f"{line['workload']}:{line['clients']}"
