"""The files of the report of an audit; an error in writing one never replaces another error.

A run of a job that finds everything done keeps the report of the run that published: that report
has what was checked and written, the new one only that nothing was left to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from lochan.spark.audit.page import mark
from lochan.spark.audit.report import Report


class ReportFiles:
    """The paths of one audit's report."""

    def __init__(self, paths: Sequence[Path], *, target: str, job: str) -> None:
        self._paths = tuple(paths)
        self._head = _ReportHead("published", job, target)
        self._kept: frozenset[Path] = frozenset()

    def begin(self, report: Report) -> str:
        """Finds reports to be kept, then stores; returns what could not be written, or ''."""
        if self._head.job:
            self._kept = frozenset(path for path in self._paths if _holds(path, self._head))
        return self.store(report)

    def store(self, report: Report) -> str:
        """Writes the report to every path; returns what could not be written, or ''."""
        is_news = report.outcome not in {"running", "unchanged"}
        problems = []
        for path in self._paths:
            if path in self._kept and not is_news:
                continue
            try:
                report.write(path)
            except OSError as error:
                problems.append(f"the report {path} cannot be written: {error.strerror or error}")
        return "; ".join(problems)


class _ReportHead(msgspec.Struct, frozen=True):
    """The part of a report that identifies the job and its outcome."""

    outcome: str
    job: str
    target: str


def _holds(path: Path, head: _ReportHead) -> bool:
    """Returns whether a file is a report with this job, target and outcome."""
    try:
        if path.suffix != ".json":
            return mark(head.outcome, head.target, head.job).encode() in path.read_bytes()
        return msgspec.json.decode(path.read_bytes(), type=_ReportHead) == head
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return False
