"""Writing frames into tables by branch: any number of tables, one commit, once for every job.

    lake.write(orders, "shop.orders", branch="etl", job="orders-2025-11-15")

    with lake.writing(branch="etl", job="daily-2025-11-15") as batch:
        batch.write(orders, "shop.orders", mode="overwrite_partitions")
        batch.write(lines, "shop.lines", partition_by=("day(ts)",))

The steps, and what an end after each of them leaves:

1. Look for the job among those that commits record for the table. If it is there, nothing is left
   to do. What was rolled back is not there.
2. Write data files, each frame into a directory of its own. (Files that no snapshot knows.)
3. Open a block on the head of the branch: look for the job again, and whether what the files were
   written for still stands. If the table was changed in shape, or moved under a merge, back to 2.
4. Write manifests. (Files, as before.)
5. Commit: metadata files, then one compare-and-swap of all tables. (Done.)

If 5 is refused because another client changed a table, 3 comes again. If its result is unknown, 3
comes again too: a commit that was made is found there by the job's name, and one that arrives late
finds a table that has changed. Files are never deleted here, so that no commit ever loses a file;
what failed attempts leave is for a later sweep.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyspark.sql import DataFrame

from lochan.base.errors import Conflict, Invalid, NotABranch, Unknown
from lochan.base.limits.spark_writes import SPARK_COMMIT_ATTEMPTS_MAX, SPARK_REWRITE_ATTEMPTS_MAX
from lochan.client import Client
from lochan.model.references import Reference
from lochan.spark.error_boundary import error_boundary, explained_write_errors
from lochan.spark.write.assignments import Assignments
from lochan.spark.write.bases import ON_CHANGES, OnChange
from lochan.spark.write.files import Measures
from lochan.spark.write.jobs import check_job_name
from lochan.spark.write.row_changes import RowChange, Where
from lochan.spark.write.table_write import (
    JOB,
    MODES,
    Mode,
    Steps,
    TableWrite,
    WriteRequest,
    Written,
)

if TYPE_CHECKING:
    from lochan.iceberg import LochanCatalog, Many
    from lochan.spark.lake import Lake

_BRANCH: Final = "BRANCH"


class Batch:
    """Writes to any number of tables that become one commit when the block ends without an error.

    `written` then has the results, in the order of the calls. An error in the block leaves the
    branch as it was.
    """

    @error_boundary
    def __init__(
        self,
        lake: Lake,
        *,
        branch: str,
        job: str | None = None,
        message: str | None = None,
        steps: Steps | None = None,
    ) -> None:
        self.job: Final = uuid.uuid4().hex if job is None else check_job_name(job)
        self.branch: Final = branch
        self.written: tuple[Written, ...] = ()
        self._lake = lake
        self._message = message
        self._steps: Steps = steps or (lambda _: None)
        self._table_writes: list[TableWrite] = []
        self._is_unknown = False
        self._catalog: LochanCatalog | None = None

    @error_boundary
    def __enter__(self) -> Self:
        get_branch(self._lake.client, self.branch)
        self._catalog = self._lake.catalog.at(self.branch)
        return self

    @error_boundary
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        catalog, self._catalog = self._catalog, None
        if kind is None and catalog is not None and self._table_writes:
            self._commit(catalog)

    @error_boundary
    def write(
        self,
        frame: DataFrame,
        table: str,
        mode: Mode = "append",
        *,
        keys: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        required: Sequence[str] = (),
        create: bool = True,
        on_change: OnChange = "conflict",
        measures: Measures | None = None,
    ) -> None:
        """Writes the files of a frame at once; the table gets them when the block ends.

        `mode` is `append`, `overwrite` (all rows), `overwrite_partitions` (the partitions that the
        frame has rows of) or `merge` (rows with the same `keys` are replaced, others added). A
        table that is missing is made in the same commit, unless `create` is false, with
        `partition_by`, with `properties`, and with columns that may be NULL unless they are
        `required`; a table that exists must have all of that already. Rows are removed only if they
        are as the frame has read them from the table, or, where it does not read the table, as they
        were at the call; else it is a Conflict, unless `on_change` is `replace`; see `bases`. A
        `job` that has written the table before does nothing; see `jobs`.
        """
        self._check_free(table)
        if mode not in MODES:
            raise Invalid(f"there is no mode {mode!r}; there are {', '.join(MODES)}")
        if on_change not in ON_CHANGES:
            raise Invalid(f"on_change is one of {', '.join(ON_CHANGES)}, not {on_change!r}")
        if keys and mode != "merge":
            raise Invalid(f'keys are for mode="merge", not for {mode!r}')
        request = WriteRequest(
            frame=frame,
            table=table,
            mode=mode,
            keys=_listed("keys", keys),
            partition_by=_listed("partition_by", partition_by),
            properties=dict(properties or {}),
            required=_listed("required", required),
            create=create,
            measures=measures,
            on_change=on_change,
        )
        self._take(TableWrite(self._lake, self.job, request, self._steps))

    @error_boundary
    def delete(self, table: str, where: Where) -> None:
        """Deletes the rows that a condition is true for: finds them at once; see `row_changes`."""
        self._check_free(table)
        self._take(RowChange(self._lake, self.job, table, where, None, self._steps))

    @error_boundary
    def update(self, table: str, set: Assignments, where: Where) -> None:  # noqa: A002
        """Gives columns new values where a condition is true: finds the rows at once."""
        self._check_free(table)
        self._take(RowChange(self._lake, self.job, table, where, set, self._steps))

    def _check_free(self, table: str) -> None:
        self._inside()
        if any(table_write.table == table for table_write in self._table_writes):
            raise Invalid(f"{table} is in the batch already; write it once, as one frame")

    def _take(self, table_write: TableWrite) -> None:
        """Prepares a write, unless its job was done before; the end of the block commits it."""
        catalog = self._inside()
        head = self._lake.client.references.get(self.branch).hash
        table_write.done = table_write.find_done(catalog, head)
        if table_write.done is None:
            table_write.begin(catalog)
        self._steps("looked")
        if table_write.done is None:
            with explained_write_errors(self._lake.warehouse):
                table_write.prepare(catalog)
        self._table_writes.append(table_write)

    def _inside(self) -> LochanCatalog:
        if self._catalog is None:
            raise Invalid("a batch is used as a block: with lake.writing(…) as batch")
        return self._catalog

    def _commit(self, catalog: LochanCatalog) -> None:
        names = ", ".join(table_write.table for table_write in self._table_writes)
        with ExitStack() as stack:
            stack.push(self._raise_unknown)
            failure = self._try(catalog)
            if failure is not None and self._is_unknown:
                raise failure
            if failure is not None:
                raise Conflict(
                    f"others kept changing {names} on {self.branch}; run it again with "
                    f"job={self.job!r}"
                ) from failure

    def _raise_unknown(
        self,
        kind: type[BaseException] | None,  # noqa: ARG002
        error: BaseException | None,
        trace: TracebackType | None,  # noqa: ARG002
    ) -> None:
        """Raises Unknown for any error after a lost reply: none means that nothing was written."""
        if self._is_unknown and isinstance(error, Exception):
            names = ", ".join(table_write.table for table_write in self._table_writes)
            raise Unknown(
                f"whether {names} was written to {self.branch} is unknown; run it again with "
                f"job={self.job!r}, which finds out"
            ) from error

    def _try(self, catalog: LochanCatalog) -> Exception | None:
        """Commits and returns None; or returns the error of the last attempt."""
        rewrites = 0
        failure: Exception | None = None
        for _ in range(SPARK_COMMIT_ATTEMPTS_MAX):
            try:
                stale = self._attempt(catalog)
            except CommitFailedException as error:
                failure = error
                continue
            except CommitStateUnknownException as error:
                failure = error
                self._is_unknown = True
                continue
            if not stale:
                return None
            if rewrites == SPARK_REWRITE_ATTEMPTS_MAX:
                return failure or Conflict("the table was changed in shape again and again")
            rewrites += 1
            for table_write in stale:
                with explained_write_errors(self._lake.warehouse):
                    table_write.prepare(catalog)
        return failure

    def _attempt(self, catalog: LochanCatalog) -> list[TableWrite]:
        """Commits and returns []; or returns the writes that must be prepared again."""
        message = self._message or "; ".join(
            f"{table_write.mode} {table_write.table}" for table_write in self._table_writes
        )
        waiting = [table_write for table_write in self._table_writes if table_write.done is None]
        with catalog.many(message, properties={JOB: self.job}) as many:
            for table_write in waiting:
                table_write.done = self._find(table_write, many)
            waiting = [table_write for table_write in waiting if table_write.done is None]
            stale = [table_write for table_write in waiting if not table_write.fits(many)]
            if not stale:
                for table_write in waiting:
                    table_write.stage(many)
                self._steps("staged")
        if stale:
            return stale
        self._steps("committed")
        commit = many.committed.hash if many.committed is not None else many.expected
        self.written = tuple(
            table_write.done or table_write.result(commit) for table_write in self._table_writes
        )
        return []

    def _find(self, table_write: TableWrite, many: Many) -> Written | None:
        found = table_write.find_done(many, many.expected)
        if found is not None and self._is_unknown:
            # The result of an earlier attempt was unknown, and that attempt did it.
            return msgspec.structs.replace(found, was_done_before=False)
        return found


def get_branch(client: Client, name: str) -> Reference:
    """Returns a branch; NotABranch if the name is that of a tag."""
    found = client.references.get(name)
    if found.kind != _BRANCH:
        raise NotABranch(f"{name} is a {found.kind.lower()}, and only a branch can be written to")
    return found


def _listed(name: str, words: Sequence[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        raise Invalid(f"{name} is a list of texts; write {name}=[{words!r}]")
    return tuple(words)
