"""Write, audit, publish: a block whose writes reach the target only if every check passes.

    with lake.audited("main", checks="checks.toml", job="daily-2026-10-15") as audit:
        audit.write(orders, "shop.orders", mode="overwrite_partitions")

1. Entering makes a branch with an end, from the target.
2. `write` writes there; checks of rows are watched meanwhile, at no cost.
3. Leaving makes one commit of the run (`merge`) or takes its commits as they are
   (`fast-forward`), runs the other checks on each commit that the target would get, and makes
   verdicts of all results.
4. With the verdicts, and with nothing else, the target moves to exactly that; see `publishing` for
   what happens when the target has moved meanwhile.

A crash or an error anywhere before the end of 4 leaves the target as it was and the branch until
its time. The report is written at the beginning, right after 4, and at the end, whatever that is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import DataFrame

from lochan.base.errors import AuditFailed, Conflict, Invalid
from lochan.base.limits.audits import AUDIT_JOB_CHARACTERS_MAX, AUDIT_TTL_S
from lochan.iceberg.names import key_of, text_of
from lochan.model.commits import CommitMeta
from lochan.spark.audit.check_files import load_checks
from lochan.spark.audit.check_runner import run_checks
from lochan.spark.audit.evidence import Evidence, Writes
from lochan.spark.audit.publisher import (
    PUBLISH_MODES,
    Candidate,
    Publisher,
    PublishMode,
    PublishPlan,
)
from lochan.spark.audit.report import Outcome, Report, check_path
from lochan.spark.audit.report_files import ReportFiles
from lochan.spark.audit.row_checks import WriteFacts, check_pattern, watch
from lochan.spark.audit.run_record import Progress, RunRecord
from lochan.spark.audit.state_checks import CheckContext
from lochan.spark.audit.verdicts import Ledger, Result, Verdict, build_verdict
from lochan.spark.checks import Check, Matches
from lochan.spark.error_boundary import error_boundary
from lochan.spark.write.batch import get_branch
from lochan.spark.write.jobs import check_job_name
from lochan.spark.write.table_write import JOB
from lochan.spark.write.table_write import Mode as WriteMode

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from lochan.spark.lake import Lake
    from lochan.spark.write.bases import OnChange
    from lochan.spark.write.table_write import Written

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAMESPACE: Final = "NAMESPACE"


class Audit:
    """One run of write, audit, publish; made by `lake.audited` and used once, as a block.

    `checks` are values of `lochan.spark.checks`, the path of a file of them, or a list of both.
    `publish` is `merge`, which makes one commit of the run, or `fast-forward`, which keeps its
    commits: each of them must then pass every check by itself. With a `job`, a run that was
    published does nothing when it is run again. `report` is one path or several, `.html` or
    `.json`.
    """

    @error_boundary
    def __init__(
        self,
        lake: Lake,
        target: str,
        *,
        checks: str | Path | Check | Iterable[Check | str | Path],
        branch: str | None = None,
        ttl_s: float = AUDIT_TTL_S,
        publish: PublishMode = "merge",
        job: str | None = None,
        message: str | None = None,
        report: str | Path | Sequence[str | Path] = (),
        progress: Progress | None = None,
    ) -> None:
        if publish not in PUBLISH_MODES:
            raise Invalid(f"publish is one of {', '.join(PUBLISH_MODES)}, not {publish!r}")
        if ttl_s <= 0:
            raise Invalid(f"ttl_s is a number of seconds above 0, not {ttl_s}")
        self._lake = lake
        self._declared = load_checks(checks)
        if job is not None:
            check_job_name(job, AUDIT_JOB_CHARACTERS_MAX)
            if "#" in job:
                raise Invalid(
                    f"the name of an audit's job has no #, which numbers its writes: {job!r}"
                )
        self._writes = Writes(job)
        # One after the other: what a write is called depends on those before it.
        self._writing = Lock()
        paths: Sequence[str | Path] = [report] if isinstance(report, (str, Path)) else report
        if not isinstance(paths, (list, tuple)):
            raise Invalid(f"report is one path or a list, not a {type(report).__name__}")
        self._files = ReportFiles(
            [check_path(path) for path in paths], target=target, job=job or ""
        )
        subject = message or f"Publish {job or 'an audited run'}"
        properties = {**lake.application, **({} if job is None else {JOB: job})}
        self._plan = PublishPlan(
            branch=branch or _branch_name(job),
            target=target,
            mode=publish,
            expires_us=time.time_ns() // 1_000 + int(ttl_s * 1e6),
            merge_meta=CommitMeta(
                message=subject,
                authors=(lake.author,) if lake.author else (),
                properties=tuple((name, (value,)) for name, value in sorted(properties.items())),
            ),
        )
        self._record = RunRecord(self._plan, self._declared, job or "", progress)
        self._is_begun = False
        # Made when the block is entered.
        self._publisher: Publisher | None = None

    @property
    def branch(self) -> str:
        """The name of the audit's own branch."""
        return self._plan.branch

    @property
    def target(self) -> str:
        """The name of the branch that is published on."""
        return self._plan.target

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the head of the branch, None while there is none."""
        return None if self._publisher is None else self._publisher.ledger.verdict

    @property
    def report(self) -> Report:
        """The report so far; it is complete after the block."""
        return self._record.report()

    @error_boundary
    def __enter__(self) -> Self:
        if self._is_begun:
            raise AuditFailed("an audit is used once; open another one")
        self._is_begun = True
        try:
            # Now rather than after hours of work: a report that cannot be written is no report.
            if problem := self._files.begin(self.report):
                raise Invalid(problem)
            for check in self._declared.checks:
                if isinstance(check, Matches):
                    check_pattern(self._lake.spark, check)
            with self._record.step("branch", self.branch):
                client, plan = self._lake.client, self._plan
                onto = f"{plan.target}@{get_branch(client, plan.target).hash}"
                base = client.references.create(plan.branch, onto, expires_us=plan.expires_us).hash
        except BaseException as failure:
            self._record.fail(failure)
            self._store_report(failure)
            raise
        ledger = Ledger(self._declared, base)
        self._record.set_commits(base=base)
        self._publisher = Publisher(self._lake.client, ledger, self._plan)
        return self

    @error_boundary
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        publisher = self._inside()
        try:
            if error is None:
                self._publish()
            else:
                self._record.fail(error)
        except BaseException as failure:
            self._record.fail(failure, _outcome_of(failure, publisher))
            error = failure
            raise
        finally:
            publisher.ledger.close()
            self._store_report(error)

    @error_boundary
    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        where: str | BooleanExpression | None = None,
    ) -> DataFrame:
        """Returns a table as it is on the audit's branch."""
        ref = self._inside().ledger.head
        return self._lake.read(table, ref=ref, columns=columns, where=where)

    @error_boundary
    def write(
        self,
        frame: DataFrame,
        table: str,
        mode: WriteMode = "append",
        *,
        keys: Sequence[str] = (),
        message: str | None = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        required: Sequence[str] = (),
        create: bool = True,
        on_change: OnChange = "conflict",
    ) -> Written:
        """Writes a frame on the audit's branch, as `lake.write` does, and watches its rows.

        The branch and the name of the job are the audit's own.
        """
        ledger, writes = self._inside().ledger, self._writes
        with self._writing:
            ledger.check_table(table)
            job = writes.next_name(table)
            with self._record.step("write", table):
                written = self._lake.write(
                    frame,
                    table,
                    branch=self.branch,
                    mode=mode,
                    job=job,
                    measures=partial(watch, self._declared.of_rows(table)),
                    keys=keys,
                    message=message,
                    partition_by=partition_by,
                    properties=properties,
                    required=required,
                    create=create,
                    on_change=on_change,
                )
            before = writes.doubt(table)
            self._follow(written.commit, job)
            is_new = not written.was_done_before
            seen = self._evidence_with(before, written) if is_new and before is not None else None
            writes.add(table, seen, is_new=is_new)
            self._record.add_write(written, mode)
        return written

    @error_boundary
    def adopt(self) -> str:
        """Accepts commits that the block has made on the branch without `audit.write`.

        Returns the commit. Its tables must have checks as well; those of rows look at all rows.
        """
        ledger, client = self._inside().ledger, self._lake.client
        with self._writing:
            head = client.references.get(self.branch).hash
            if head != ledger.head:
                changed = client.history.iterate_diff(ledger.head, head)
                self._writes.adopt([text_of(entry.key) for entry in changed])
                ledger.adopted(head)
        return head

    @error_boundary
    def check(self) -> Verdict:
        """Runs every check on the head of the branch now; AuditFailed unless all passed.

        This is for a check before the block ends; leaving the block checks everything again.
        """
        publisher = self._inside()
        candidate = publisher.candidate()
        verdict = self._judge(candidate)
        publisher.ledger.judged(verdict, candidate.head)
        return verdict

    def _publish(self) -> None:
        publisher, record = self._inside(), self._record
        publisher.ledger.seal()
        done = publisher.publish(self._judge, is_repeated=self._writes.is_repeated)
        if done.is_new:
            record.set_commits(published=done.commit)
        record.end("published" if done.is_new else "unchanged")
        # Now already: a process that is killed while it tidies must leave the full report. If this
        # fails, the report is stored again at the end, which raises the error.
        self._files.store(self.report)
        with record.step("tidy", self.branch):
            record.set_reason(publisher.tidy())

    def _judge(self, candidate: Candidate) -> Verdict:
        record = self._record
        if candidate.number == 1:
            record.attempts += 1
        record.set_commits(audited=candidate.commit, target=candidate.target)
        record.checks = ()
        line = "" if candidate.count == 1 else f", commit {candidate.number} of {candidate.count}"
        with record.step("check", f"{len(self._declared.checks)} checks{line}"):
            try:
                self._check_covered()
                context = CheckContext(self._lake, candidate.commit, candidate.target)
                record.checks = run_checks(
                    context, self._declared, self._writes.known(), self._add_result
                )
                return build_verdict(
                    candidate.commit, candidate.target, self._declared, record.checks
                )
            except AuditFailed as refusal:
                if candidate.number == candidate.count:
                    raise
                raise AuditFailed(
                    f"commit {candidate.number} of {candidate.count} of this run, "
                    f"{candidate.commit[:12]}, would become part of the target's history: "
                    f'{refusal.message}; publish="merge" publishes the result of the run as one '
                    "commit"
                ) from refusal

    def _add_result(self, result: Result) -> None:
        self._record.checks += (result,)
        self._record.report_progress("checked", result.check)

    def _check_covered(self) -> None:
        """Refuses a changed table for which no check is declared."""
        covered = {key_of(table) for table in self._declared.covered()}
        for change in self._record.compare(self._lake.client):
            if change.key not in covered and change.type != _NAMESPACE:
                raise AuditFailed(f"{text_of(change.key)} was changed and has no check")

    def _follow(self, commit: str, job: str) -> None:
        """Notes the commit of a write; checks that it and its parent are of this audit."""
        ledger, client = self._inside().ledger, self._lake.client
        parent = commit
        if commit != ledger.head:
            (entry,) = client.history.log(commit, 1).items
            # A write that had nothing to change returns the commit that it met, whosever it is.
            is_ours = (JOB, (job,)) in entry.meta.properties
            parent = entry.parent if is_ours else commit
        ledger.wrote(parent, commit)
        ledger.check_head(client.references.get(self.branch).hash)

    def _evidence_with(
        self, before: tuple[Evidence, ...], written: Written
    ) -> tuple[Evidence, ...] | None:
        """Returns the evidence on a table after a write, with the content that it has now."""
        found, _ = self._lake.client.contents.get_many(written.commit, [key_of(written.table)])
        if not found:
            return None
        seen = WriteFacts(written.rows, written.columns, written.measured)
        writes = before[-1].writes if before else ()
        return (*before, Evidence(found[0][1], (*writes, seen)))

    def _store_report(self, error: BaseException | None) -> None:
        """Stores the report; a failure of that never replaces another error."""
        problem = self._files.store(self.report)
        if problem and error is not None:
            error.add_note(problem)
        elif problem:
            is_new = self.report.is_published
            state = "is published" if is_new else "had everything already"
            raise Invalid(f"{self.target!r} {state}, but {problem}")

    def _inside(self) -> Publisher:
        if self._publisher is None:
            raise AuditFailed("an audit is a block: `with lake.audited(…) as audit:`")
        return self._publisher


def _outcome_of(error: BaseException, publisher: Publisher) -> Outcome | None:
    """Returns the outcome that an error of publishing means; None if it has none of its own."""
    if publisher.is_moving_target:
        return "unknown"
    return "conflict" if isinstance(error, Conflict) else None


def _branch_name(job: str | None) -> str:
    """Returns a name that no other run has."""
    prefix = "" if job is None else f"{_ODD.sub('-', job).strip('-')[:80]}-"
    return f"audit/{prefix}{token_hex(6)}"
