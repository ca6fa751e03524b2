"""Deleting and updating rows, copy on write: only files that hold matching rows are replaced.

1. The condition leaves out files that cannot have a matching row, as far as it is understood.
2. Spark counts the matching rows of each file that is left.
3. Files of which all rows are deleted are dropped. Of the others the rows that stay, or all rows
   with their new values, are written again.
4. One snapshot has the new files in the place of the old ones. Where no row matches there is none,
   and no record of the job: run again, it looks again.

If the table moves meanwhile, all of it is done again on what it is then. So a change is never made
to other rows than those of the snapshot before it, and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Bug, Invalid
from lochan.spark.read.condition_errors import bracketed
from lochan.spark.read.filters import Unread
from lochan.spark.read.table_reader import Plan, condition_of, frame_of, plan_table
from lochan.spark.write.assignments import (
    DOES_NOT_FIT,
    Assignments,
    assigned,
    check_assignments,
    not_understood,
)
from lochan.spark.write.bounds import FileFacts
from lochan.spark.write.existing_tables import find_table
from lochan.spark.write.file_rows import rows_by_file, tasks_at
from lochan.spark.write.files import write_files
from lochan.spark.write.frame_shape import free_name, shape
from lochan.spark.write.jobs import short_text
from lochan.spark.write.statistics import build_data_file
from lochan.spark.write.table_write import Steps, TableWrite, WriteRequest, Written

if TYPE_CHECKING:
    from lochan.iceberg import LochanCatalog, Many
    from lochan.spark.lake import Lake

Where = str | BooleanExpression | Column

_NOT_DETERMINISTIC: Final = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
_RAISED: Final = "USER_RAISED_EXCEPTION"
# How the states of SQL begin that stand for a value: a cast, an overflow, a division by zero.
_DATA_EXCEPTION: Final = "22"


class _Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is replaced in one state of a table, and the files that take its place."""

    table: Table
    rows: int = 0
    removed: tuple[DataFile, ...] = ()
    added: tuple[FileFacts, ...] = ()


class _Matching(msgspec.Struct, frozen=True):
    """A file, and how many of its rows match."""

    task: FileScanTask
    rows: int

    @property
    def is_whole(self) -> bool:
        """Returns whether all rows of the file match; of one with deletes that is not known."""
        return not self.task.delete_files and self.rows == self.task.file.record_count


class RowChange(TableWrite):
    """A delete of rows of one table, or, with new values, an update."""

    def __init__(
        self,
        lake: Lake,
        job: str,
        table: str,
        where: Where,
        values: Assignments | None,
        steps: Steps,
    ) -> None:
        # No frame is written: the rows are those of the table.
        super().__init__(
            lake, job, WriteRequest(frame=lake.spark.range(0), table=table, create=False), steps
        )
        self._where = _checked(table, where, values)
        self._values = values
        self._prepared: _Prepared | None = None

    @property
    def mode(self) -> str:
        """The mode of the write."""
        return "delete" if self._values is None else "update"

    def _columns(self) -> str:
        """Returns the condition and the new values, as the record of the job has them."""
        return short_text(f"where {self._where}; set {self._values}")

    def _rows(self) -> int | None:
        """Returns None: the rows are those of the table, which has others by now."""
        return None

    def begin(self, catalog: LochanCatalog) -> None:
        """Does nothing: rows are found in the table at the time of the commit."""

    def prepare(self, catalog: LochanCatalog) -> None:
        """Finds the rows in the table as it is now, and writes what takes their files' place."""
        self._lake.settings.apply(self._lake.spark)
        table, _ = self._open(catalog)
        plan, condition = self._plan(table)
        # Before any row is read, and whether or not one matches.
        self._changed(plan, condition, ())
        found = self._find(plan, condition) if plan.tasks else []
        self._steps("matched")
        is_delete = self._values is None
        whole = [each for each in found if is_delete and each.is_whole]
        torn = [each for each in found if not (is_delete and each.is_whole)]
        kept = self._rewrite(plan, condition, [each.task for each in torn]) if torn else []
        self._prepared = _Prepared(
            table=table,
            rows=self._count(whole, torn, kept),
            removed=tuple(each.task.file for each in found),
            added=tuple(kept),
        )
        self._steps("written")

    def fits(self, many: Many) -> bool:
        """Returns whether the table is as it was when the rows were found."""
        now, prepared = find_table(many, self.table), self._prepared
        if now is None or prepared is None:
            return False
        then = prepared.table.metadata
        return (
            then.table_uuid == now.metadata.table_uuid
            and then.current_snapshot_id == now.metadata.current_snapshot_id
            and then.schema() == now.schema()
            and then.spec() == now.spec()
        )

    def stage(self, many: Many) -> None:
        """Adds the snapshot to a block, if any row matches."""
        prepared, table = self._prepared, many.load_table(self.table)
        if prepared is None:
            raise Bug("rows are found before they are changed")
        schema, spec = table.schema(), table.spec()
        added = [build_data_file(each, schema, spec) for each in prepared.added]
        if prepared.removed:
            self._replace(many, table, prepared.rows, added, prepared.removed)
        else:
            snapshot = table.metadata.current_snapshot_id or 0
            self._result = Written(
                table=self.table, commit="", snapshot_id=snapshot, rows=0, files=0, bytes=0
            )

    def _plan(self, table: Table) -> tuple[Plan, Column]:
        """Returns the files that may have matching rows, and the condition on rows."""
        where = self._where
        plan = plan_table(self._lake, table, where=None if isinstance(where, Column) else where)
        if isinstance(where, BooleanExpression):
            chosen = condition_of(plan)
            return plan, F.lit(True) if chosen is None else chosen
        try:
            condition = F.expr(bracketed(where)) if isinstance(where, str) else where
            empty = frame_of(self._lake, _every_row(plan, ()))
            _ = empty.where(condition).schema
        except PySparkException as error:
            raise not_understood(self.table, error) from error
        self._check_deterministic(empty, condition)
        return plan, condition

    def _check_deterministic(self, frame: DataFrame, condition: Column) -> None:
        """Raises Invalid for a condition that would choose other rows the next time."""
        try:
            # A join, unlike a filter, refuses such a condition while it is analysed.
            _ = frame.join(
                self._lake.spark.range(1).select(F.lit(1)), condition, "left_semi"
            ).schema
        except PySparkException as error:
            if error.getCondition() == _NOT_DETERMINISTIC:
                raise Invalid(
                    f"the condition on {self.table} chooses other rows each time it is computed; "
                    "write the rows that it chooses to a table first"
                ) from error

    def _find(self, plan: Plan, condition: Column) -> list[_Matching]:
        rows, path = rows_by_file(self._lake, plan)
        number = free_name("lochan_rows", rows.columns)
        matching = rows.where(condition).groupBy(path).agg(F.count(F.lit(1)).alias(number))
        with self._translated_errors():
            counts = matching.collect()
        tasks = tasks_at(plan.tasks, [row[0] for row in counts])
        return [_Matching(task, row[1]) for task, row in zip(tasks, counts, strict=True)]

    def _changed(self, plan: Plan, condition: Column, tasks: Sequence[FileScanTask]) -> DataFrame:
        """Returns the rows of files as they shall be."""
        schema = plan.table.schema()
        rows = frame_of(self._lake, _every_row(plan, tasks))
        # A condition that is NULL chooses no row.
        chosen = free_name("lochan_chosen", rows.columns)
        rows = rows.withColumn(chosen, F.coalesce(condition, F.lit(False)))
        if self._values is None:
            return shape(rows.where(~F.col(chosen)).drop(chosen), schema)
        values = check_assignments(
            self.table, self._values, schema, case_sensitive=plan.case_sensitive
        )
        return shape(assigned(self.table, rows, schema, values, chosen), schema)

    def _rewrite(
        self, plan: Plan, condition: Column, tasks: Sequence[FileScanTask]
    ) -> list[FileFacts]:
        rows, layout = self._changed(plan, condition, tasks), self._layout(plan.table)
        with self._translated_errors():
            return write_files(self._lake, rows, layout, self.table).facts

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raises Invalid for values that a condition or an expression cannot be computed of."""
        try:
            yield
        except PySparkException as error:
            is_ours = error.getCondition() == _RAISED and DOES_NOT_FIT in str(error)
            if is_ours or (error.getSqlState() or "").startswith(_DATA_EXCEPTION):
                raise not_understood(self.table, error) from error
            raise

    def _count(self, whole: list[_Matching], torn: list[_Matching], kept: list[FileFacts]) -> int:
        """Returns how many rows are deleted or changed."""
        counted = sum(each.rows for each in (*whole, *torn))
        if self._values is not None or any(each.task.delete_files for each in torn):
            return counted
        # What is written is what counts: the clock in a condition has gone on since.
        before = sum(each.task.file.record_count for each in torn)
        return sum(each.rows for each in whole) + before - sum(each.rows for each in kept)


def _every_row(plan: Plan, tasks: Sequence[FileScanTask]) -> Plan:
    """Returns a plan for all rows of some files."""
    return msgspec.structs.replace(plan, tasks=tuple(tasks), condition=Unread(), where=None)


def _checked(table: str, where: Any, values: Assignments | None) -> Where:
    if isinstance(where, BooleanExpression | Column) or (isinstance(where, str) and where.strip()):
        return where
    verb = "a delete from" if values is None else "an update of"
    raise Invalid(f'{verb} {table} needs a condition; for all rows write where="true"')
