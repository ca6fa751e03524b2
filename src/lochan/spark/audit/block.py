"""Write, audit, publish: a block whose writes reach the target only if every check passes.

    with lake.audited("main", checks="checks.toml", job="daily-2026-10-15") as audit:
        audit.write(orders, "shop.orders", mode="overwrite_partitions")

1. Entering makes a branch with an end, from the target.
2. `write` writes there; checks of rows are watched meanwhile, at no cost.
3. Leaving runs the other checks on the branch's commit and makes a verdict of all results.
4. With the verdict, and with nothing else, the target moves to exactly that commit; see
   `publishing` for what happens when the target has moved meanwhile.

A crash or an error anywhere before the end of 4 leaves the target as it was and the branch until
its time. The report is written at the beginning and at the end, whatever the end is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from pyspark.sql import DataFrame, Observation

from lochan.base.errors import AuditFailed, Invalid
from lochan.base.pipeline_limits import (
    AUDIT_TTL_S,
)
from lochan.iceberg.names import key_of, text_of
from lochan.model.commits import CommitMeta
from lochan.spark.audit.check_files import load_checks
from lochan.spark.audit.judging import Evidence, Judging
from lochan.spark.audit.publishing import MODES, Candidate, Mode, Place, Publisher
from lochan.spark.audit.recording import Progress, Recording, written_table
from lochan.spark.audit.report import Report, check_path
from lochan.spark.audit.row_checks import ROWS, Figures, measures
from lochan.spark.audit.verdicts import Ledger, Result, Verdict, build_verdict
from lochan.spark.checks import Check, RowCount
from lochan.spark.write.parts import Mode as WriteMode

if TYPE_CHECKING:
    from lochan.spark.lake import Lake
    from lochan.spark.write.writing import Written

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAMESPACE: Final = "NAMESPACE"
JOB_PROPERTY: Final = "lochan.job"


class Audit:
    """One run of write, audit, publish; made by `lake.audited` and used once, as a block.

    `checks` are values of `lochan.spark.checks`, the path of a file of them, or a list of both.
    `publish` is `fast-forward`, which keeps the commits of the run, or `merge`, which makes one of
    them. With a `job`, a run that was published does nothing when it is run again. `report` is one
    path or several, `.html` or `.json`.
    """

    def __init__(
        self,
        lake: Lake,
        target: str,
        *,
        checks: str | Path | Check | Iterable[Check | str | Path],
        branch: str | None = None,
        ttl_s: float = AUDIT_TTL_S,
        publish: Mode = "fast-forward",
        job: str | None = None,
        message: str | None = None,
        report: str | Path | Sequence[str | Path] = (),
        progress: Progress | None = None,
    ) -> None:
        if publish not in MODES:
            raise Invalid(f"publish is one of {', '.join(MODES)}, not {publish!r}")
        if ttl_s <= 0:
            raise Invalid(f"a branch lives for some seconds, not for {ttl_s}")
        self._lake = lake
        self._declared = load_checks(checks)
        self._job = job
        paths = [report] if isinstance(report, (str, Path)) else report
        self._paths = [check_path(one) for one in paths]
        said = message or f"Publish {job or 'an audited run'}"
        properties = () if job is None else ((JOB_PROPERTY, (job,)),)
        self._place = Place(
            branch=branch or _branch_name(job),
            target=target,
            mode=publish,
            expires_us=time.time_ns() // 1_000 + int(ttl_s * 1e6),
            said=CommitMeta(message=said, properties=properties),
        )
        self._recording = Recording(self._place, self._declared, job or "", progress)
        self._evidence: dict[str, Evidence | None] = {}
        self._writes: dict[str, int] = {}
        self._is_repeated = True
        self._entered: _Entered | None = None

    @property
    def branch(self) -> str:
        """The name of the audit's own branch."""
        return self._place.branch

    @property
    def target(self) -> str:
        """The name of the branch that is published on."""
        return self._place.target

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on what stands on the branch, None while there is none."""
        return None if self._entered is None else self._entered.ledger.verdict

    @property
    def report(self) -> Report:
        """What is known so far, and after the block everything."""
        return self._recording.report()

    def __enter__(self) -> Self:
        if self._entered is not None:
            raise AuditFailed("an audit is used once; open another one")
        client, place = self._lake.client, self._place
        # Now rather than after hours of work: a report that cannot be written is no report.
        self._store_report()
        try:
            with self._recording.step("branch", place.branch):
                source = client.references.get(place.target)
                made = client.references.create(
                    place.branch, f"{place.target}@{source.hash}", expires_us=place.expires_us
                )
        except BaseException as failure:
            self._recording.fail(failure)
            self._store_report()
            raise
        ledger = Ledger(self._declared, made.hash)
        self._recording.about(base=made.hash, audited=made.hash, target=made.hash)
        self._entered = _Entered(ledger, Publisher(client, ledger, place))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entered = self._inside()
        try:
            if error is None:
                self._publish()
            else:
                self._recording.fail(error)
        except BaseException as failure:
            self._recording.fail(failure, is_unknown=entered.publisher.is_swinging)
            raise
        finally:
            entered.ledger.close()
            self._store_report()

    def read(self, table: str, **more: Any) -> DataFrame:
        """Returns a table as it stands on the audit's branch."""
        return self._lake.read(table, ref=self._inside().ledger.head, **more)

    def write(
        self, frame: DataFrame, table: str, mode: WriteMode = "append", **more: Any
    ) -> Written:
        """Writes a frame on the audit's branch, as `lake.write` does, and watches its rows."""
        if "branch" in more or "job" in more:
            raise Invalid("an audit has its own branch and its own job")
        ledger = self._inside().ledger
        ledger.check_table(table)
        watching = _Watching(self._declared.of_rows(table), frame)
        with self._recording.step("write", table):
            written = self._lake.write(
                watching.frame,
                table,
                branch=self.branch,
                mode=mode,
                job=self._next_job(table),
                **more,
            )
        self._recording.wrote(written_table(written, mode))
        if written.was_done_before:
            self._evidence[table] = None
            return written
        self._is_repeated = False
        self._follow()
        self._keep(table, written.rows, watching.figures(written.rows))
        return written

    def adopt(self) -> str:
        """Takes what the block has put on the branch by other means as the audit's own.

        Returns the commit. Its tables must have checks as well; those of rows look at all rows.
        """
        ledger = self._inside().ledger
        head = self._lake.client.references.get(self.branch).hash
        if head != ledger.head:
            self._is_repeated = False
            ledger.moved(ledger.base, head)
        return head

    def check(self) -> Verdict:
        """Runs every check on what stands on the branch now; AuditFailed unless all passed.

        For those who want to look before the block ends; leaving it checks what is then there.
        """
        entered = self._inside()
        verdict = self._judge(entered.publisher.candidate())
        entered.ledger.judged(verdict)
        return verdict

    def _publish(self) -> None:
        entered, recording = self._inside(), self._recording
        repeated = self._is_repeated and bool(self._writes)
        done = entered.publisher.publish(self._judge, is_repeated=repeated)
        recording.attempts = done.attempts
        recording.about(audited=done.commit, target=done.target_before)
        if done.is_new:
            recording.about(published=done.commit)
        recording.end("published" if done.is_new else "unchanged")
        with recording.step("tidy", self.branch):
            recording.reason = entered.publisher.tidy()

    def _judge(self, candidate: Candidate) -> Verdict:
        recording = self._recording
        recording.attempts += 1
        recording.about(audited=candidate.commit, target=candidate.target)
        recording.checks = ()
        with recording.step("check", f"{len(self._declared.checks)} checks"):
            self._check_covered()
            evidence = {name: one for name, one in self._evidence.items() if one is not None}
            judging = Judging(self._lake, self._declared, evidence, self._seen)
            recording.checks = judging.results(candidate.commit, candidate.target)
            return build_verdict(
                candidate.commit, candidate.target, self._declared, recording.checks
            )

    def _seen(self, result: Result) -> None:
        self._recording.checks += (result,)
        self._recording.tell("checked", result.check)

    def _check_covered(self) -> None:
        """Refuses what would be published without anybody having said how it must be."""
        covered = {key_of(table) for table in self._declared.covered()}
        for change in self._recording.compare(self._lake.client):
            if change.key not in covered and change.type != _NAMESPACE:
                raise AuditFailed(f"{text_of(change.key)} was changed and has no check")

    def _follow(self) -> None:
        """Notes the commit of a write, after a look that it stands on ours alone."""
        ledger = self._inside().ledger
        head = self._lake.client.references.get(self.branch).hash
        if head == ledger.head:
            # Nothing came of it, such as an append of no rows.
            ledger.wrote(head, head)
            return
        (entry,) = self._lake.client.history.log(head, 1).items
        ledger.wrote(entry.parent, head)

    def _keep(self, table: str, rows: int, figures: Figures | None) -> None:
        """Keeps what was seen with what the table is now; None once a write was not seen at all."""
        head = self._inside().ledger.head
        found, _ = self._lake.client.contents.get_many(head, [key_of(table)])
        earlier = self._evidence.get(table)
        if not found or (earlier is None and table in self._evidence):
            self._evidence[table] = None
            return
        before, watched = (0, ()) if earlier is None else (earlier.rows, earlier.watched)
        both = None if figures is None or watched is None else (*watched, figures)
        self._evidence[table] = Evidence(found[0][1], before + rows, both)

    def _next_job(self, table: str) -> str | None:
        """Returns the name of a write, the same one in every run of the job."""
        self._writes[table] = number = self._writes.get(table, 0) + 1
        if self._job is None:
            return None
        return self._job if number == 1 else f"{self._job}#{number}"

    def _store_report(self) -> None:
        report = self.report
        for path in self._paths:
            report.write(path)

    def _inside(self) -> _Entered:
        if self._entered is None:
            raise AuditFailed("an audit is a block: `with lake.audited(…) as audit:`")
        return self._entered


class _Entered(msgspec.Struct, frozen=True):
    """What an audit has from its beginning on."""

    ledger: Ledger
    publisher: Publisher


class _Watching:
    """A frame whose rows are counted while somebody else writes them."""

    def __init__(self, checks: tuple[Check, ...], frame: DataFrame) -> None:
        is_needed = any(not isinstance(one, RowCount) for one in checks)
        self._observation = Observation(f"lochan-{token_hex(8)}") if is_needed else None
        self.frame = frame
        if self._observation is not None:
            self.frame = frame.observe(self._observation, *measures(checks, frame))

    def figures(self, rows: int) -> Figures | None:
        """Returns what was counted; None where it is not about exactly the rows that were written.

        Stages that were run twice count twice, and a job that looks at some rows first is the one
        that is counted. The number of rows in the files is exact, so it tells.
        """
        if self._observation is None:
            return None
        found = self._observation.get
        return found if found.get(ROWS) == rows else None


def _branch_name(job: str | None) -> str:
    """Returns a name that no other run has."""
    said = "" if job is None else f"{_ODD.sub('-', job).strip('-')[:80]}-"
    return f"audit/{said}{token_hex(6)}"
