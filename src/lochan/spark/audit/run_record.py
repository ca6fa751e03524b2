"""The record of one run of an audit, from which its report is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from lochan.base.errors import AuditFailed
from lochan.base.limits.audits import REPORT_CHANGES_MAX
from lochan.client import Client
from lochan.spark.audit.findings import cut, error_text, redacted
from lochan.spark.audit.publisher import PublishPlan
from lochan.spark.audit.report import (
    Change,
    Commits,
    Outcome,
    Report,
    Step,
    Waiver,
    WrittenTable,
    build_change,
)
from lochan.spark.audit.verdicts import Result
from lochan.spark.checks import Declared

if TYPE_CHECKING:
    from lochan.spark.write.table_write import Written

Progress = Callable[[str, str], None]
"""Called at the beginning of each step with its name and its subject."""


class RunRecord:
    """Collects the data of a run; `report` may be called at any time."""

    def __init__(self, place: PublishPlan, declared: Declared, job: str, progress: Progress | None):
        self._begun = datetime.now(UTC)
        self._begun_s = time.monotonic()
        self._plan = place
        self._declared = declared
        self._job = job
        self._progress = progress
        self._steps: list[Step] = []
        self._tables: list[WrittenTable] = []
        self._changes: tuple[Change, ...] = ()
        self._changes_total = 0
        self._ended_s: float | None = None
        self.commits = Commits()
        self.checks: tuple[Result, ...] = ()
        self.outcome: Outcome = "running"
        self.reason = ""
        self.attempts = 0

    @contextmanager
    def step(self, name: str, detail: str = "") -> Iterator[None]:
        """Measures the time of a step, whether it succeeds or fails."""
        self.report_progress(name, detail)
        begun = time.monotonic()
        status: Literal["done", "failed"] = "failed"
        try:
            yield
            status = "done"
        finally:
            start, seconds = begun - self._begun_s, time.monotonic() - begun
            self._steps.append(Step(name, cut(detail), start, seconds, status))

    def report_progress(self, name: str, detail: str) -> None:
        """Calls the progress function of the user, if there is one."""
        if self._progress is not None:
            self._progress(name, detail)

    def add_write(self, written: Written, mode: str) -> None:
        """Adds a write."""
        self._tables.append(
            WrittenTable(
                table=written.table,
                mode=mode,
                rows=written.rows,
                files=written.files,
                bytes=written.bytes,
                commit=written.commit,
                was_done_before=written.was_done_before,
            )
        )

    def set_commits(self, **hashes: str) -> None:
        """Notes hashes of commits."""
        self.commits = msgspec.structs.replace(self.commits, **hashes)

    def compare(self, client: Client) -> list[Change]:
        """Notes and returns the keys that differ between the target and the candidate."""
        if self.commits.target == self.commits.audited:
            return []
        diff = client.history.iterate_diff(self.commits.target, self.commits.audited)
        found = [build_change(entry) for entry in diff]
        self._changes, self._changes_total = tuple(found[:REPORT_CHANGES_MAX]), len(found)
        return found

    def end(self, outcome: Outcome) -> None:
        """Notes the outcome."""
        self.outcome = outcome
        self._ended_s = time.monotonic()

    def set_reason(self, reason: str) -> None:
        """Notes the reason of the outcome, or what was left behind."""
        self.reason = redacted(reason)

    def fail(self, error: BaseException, outcome: Outcome | None = None) -> None:
        """Notes the error with which it ended; what is published stays published.

        `outcome` is given by the publisher only: a Conflict or Unknown that the block itself raises
        is not about the target.
        """
        self.reason = error_text(error)
        if self.outcome == "running":
            self.end(outcome or ("refused" if isinstance(error, AuditFailed) else "failed"))

    def report(self) -> Report:
        """Returns the report by the data that is known now."""
        ended = time.monotonic() if self._ended_s is None else self._ended_s
        return Report(
            outcome=self.outcome,
            reason=self.reason,
            job=self._job,
            target=self._plan.target,
            branch=self._plan.branch,
            publish=self._plan.mode,
            begun=self._begun.isoformat(timespec="milliseconds"),
            seconds=ended - self._begun_s,
            attempts=self.attempts,
            commits=self.commits,
            checks=self.checks,
            unchecked=tuple(Waiver(check.table, check.why) for check in self._declared.waivers),
            tables=tuple(self._tables),
            steps=tuple(self._steps),
            changes=self._changes,
            changes_total=self._changes_total,
        )
