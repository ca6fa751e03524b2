"""Runs checks on a commit: every declared check gets a result on it, whatever happens.

Checks run in parallel threads, which only wait for Spark. A check that raises any error has the
result `error`; one that was never measured has the result `missing`. Neither passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from lochan.base.limits.audits import AUDIT_CHECKS_TOGETHER_MAX
from lochan.iceberg.names import key_of
from lochan.spark.audit.evidence import Evidence
from lochan.spark.audit.findings import Finding, cut, error_text
from lochan.spark.audit.row_checks import (
    find_by_files,
    find_counted,
    find_rows,
    measures,
)
from lochan.spark.audit.state_checks import CheckContext, find_state
from lochan.spark.audit.verdicts import How, Result
from lochan.spark.checks import ROW_CHECKS, Check, Declared, RowCount, Schema

OnResult = Callable[[Result], None]


def run_checks(
    context: CheckContext,
    declared: Declared,
    evidence: Mapping[str, Sequence[Evidence]],
    on_result: OnResult | None = None,
) -> tuple[Result, ...]:
    """Runs all checks on a commit; returns their results in the order of their declaration."""
    usable = _usable(context, evidence)
    pool = ThreadPoolExecutor(AUDIT_CHECKS_TOGETHER_MAX, "lochan-check")
    try:
        waiting = []
        for check in declared.checks:
            # The result of a check that was not run.
            blank = Result(
                check=check.label(),
                kind=check.kind,
                tables=check.tables(),
                status="missing",
                commit=context.commit,
                detail="this run has not written the table, or it was changed afterwards",
            )
            future = pool.submit(_run, check, blank, context, declared, usable)
            waiting.append((blank, future))
        return tuple(_result_of(blank, future, on_result) for blank, future in waiting)
    finally:
        # An interrupt waits for no check: running ones only read, and no other begins.
        pool.shutdown(wait=False, cancel_futures=True)


def _usable(
    context: CheckContext, evidence: Mapping[str, Sequence[Evidence]]
) -> dict[str, Evidence]:
    """Returns the evidence on tables that are at the commit exactly as a write left them."""
    keys = {key_of(table): table for table in evidence}
    if not keys:
        return {}
    found, _ = context.lake.client.contents.get_many(context.commit, list(keys))
    return {
        keys[key]: each
        for key, content in found
        # The latest comes last and wins: it has seen the most.
        for each in evidence[keys[key]]
        if content == each.content
    }


def _run(
    check: Check,
    blank: Result,
    context: CheckContext,
    declared: Declared,
    usable: Mapping[str, Evidence],
) -> Result:
    begun = time.monotonic()
    how: How = "schema" if isinstance(check, Schema) else "query"
    finding: Finding | None
    if isinstance(check, ROW_CHECKS):
        finding, how = _run_on_rows(check, context, declared, usable)
    else:
        finding = find_state(check, context)
    if finding is None:
        return blank
    return msgspec.structs.replace(
        blank,
        status="passed" if finding.passed is True else "failed",
        how=how,
        observed=cut(finding.observed),
        expected=cut(finding.expected),
        detail="",
        seconds=time.monotonic() - begun,
    )


def _run_on_rows(
    check: Check, context: CheckContext, declared: Declared, usable: Mapping[str, Evidence]
) -> tuple[Finding | None, How]:
    """Returns the finding of the writes, or else that of all rows of the table.

    Files show that some row breaks a check but not how many do; the table is asked for that.
    """
    (table,) = check.tables()
    writes = usable[table].writes if table in usable else ()
    by_files = find_by_files(check, writes) if writes else None
    # The table itself does not show how many of its rows this run has written.
    if isinstance(check, RowCount) or (by_files is not None and by_files.passed):
        return by_files, "observed"
    if by_files is None and writes:
        counted = find_counted(check, declared.of_rows(table).index(check), writes)
        if counted is not None:
            return counted, "observed"
    frame = context.table(table)
    (row,) = frame.agg(F.count(F.lit(1)), *measures({0: check}, frame)).collect()
    found = find_rows(check, 0, row[0], [row.asDict()])
    if by_files is not None and found.passed:
        # Rows that broke it were written, though they are gone now.
        return by_files, "observed"
    return found, "query"


def _result_of(blank: Result, future: Future[Result], on_result: OnResult | None) -> Result:
    # An error is taken as a value, so that no kind of error can pass for anything else.
    error = future.exception()
    if error is None:
        result = future.result()
    else:
        result = msgspec.structs.replace(blank, status="error", detail=error_text(error))
    if on_result is not None:
        on_result(result)
    return result
