"""Reading a table as it is on a reference.

1. the metadata of the table on the reference is loaded from the catalog;
2. of the manifests the files are taken that rows of the filter can be in (`planning`);
3. every file gets the reader that can read it. Nearly all are read by Spark itself, by field id, so
   that columns may have been renamed, added, dropped, moved or widened since. Files without ids are
   read by the table's name mapping. The rest (an object store that Spark does not reach, names
   that Spark skips, deletion vectors, defaults) is read by PyIceberg in executors;
4. the frames are put together, the filter is applied to their rows, the columns are chosen. A
   filter that is a text is given to Spark as it is, so that it means what it means there.

The driver reads manifests, never the footers of data files. What can only be read wrongly is
refused: equality deletes, and types that Spark has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import ContentNotFound, Invalid
from lochan.spark.provenance import with_read_mark
from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.condition_errors import bracketed, explained
from lochan.spark.read.file_plan import plan_files
from lochan.spark.read.filtered_frames import FileChooser, filtering_frame, zone_of
from lochan.spark.read.filters import Node, Unread
from lochan.spark.read.footers import FOREIGN, find_files_without_ids
from lochan.spark.read.native import (
    Shape,
    is_native_task,
    lacks_partition,
    native_frames,
    shape_by_ids,
    shape_by_names,
)
from lochan.spark.read.predicates import ExpressionFilter
from lochan.spark.read.sql_conditions import Columns, mentioned, read_condition, whole_fields
from lochan.spark.schemas import column_at, field_paths, find_defaults, nullable, to_spark
from lochan.spark.session import READ_SETTINGS
from lochan.spark.storage import find_access

if TYPE_CHECKING:
    from lochan.spark.lake import Lake


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a read: the files, the columns, and the condition on rows."""

    table: Table
    tasks: tuple[FileScanTask, ...]
    schema: Schema
    """The columns that are asked for, and those that the filter looks at."""
    condition: Node = Unread()
    """The condition on files, by which readers in executors may leave out rows, too. It is never
    the condition on rows: it may be only a part of it. See `condition_of`."""
    where: str | ExpressionFilter | None = None
    """The condition on rows."""
    columns: tuple[tuple[str, ...], ...]
    """The way to every column that is asked for, in order."""
    case_sensitive: bool


def read(
    lake: Lake,
    table: str,
    *,
    ref: str,
    columns: Sequence[str] | None = None,
    where: str | BooleanExpression | None = None,
) -> DataFrame:
    """Returns a table as it is on a reference; `where` chooses files, then rows."""
    plan = plan_read(lake, table, ref=ref, columns=columns, where=where)
    return with_read_mark(frame_of(lake, plan), lake, plan.table, name=table, ref=ref)


def plan_read(
    lake: Lake,
    table: str,
    *,
    ref: str,
    columns: Sequence[str] | None = None,
    where: str | BooleanExpression | None = None,
) -> Plan:
    """Finds the files of a table on a reference; starts no job."""
    try:
        loaded = lake.catalog.at(ref).load_table(table)
    except NoSuchTableError as error:
        message = f"there is no table {table} on {ref}"
        raise ContentNotFound(message, tuple(table.split("."))) from error
    return plan_table(lake, loaded, columns=columns, where=where)


def plan_table(
    lake: Lake,
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    where: str | BooleanExpression | None = None,
    files: Node | None = None,
) -> Plan:
    """Finds the files of a table that is loaded; `files` chooses files and no rows."""
    case_sensitive = lake.spark.conf.get("spark.sql.caseSensitive", "false") == "true"
    whole = table.schema()
    chosen = _choose(whole, columns, case_sensitive=case_sensitive)
    needed = {path[0] for path in chosen}
    condition: Node = Unread()
    expression: ExpressionFilter | None = None
    if isinstance(where, BooleanExpression):
        expression = ExpressionFilter(where, whole, case_sensitive=case_sensitive)
        condition = expression.node(zone_of(lake))
        needed |= {expression.paths[number][0] for number in expression.field_ids()}
    elif where is not None:
        names = Columns(whole_fields(whole), case_sensitive=case_sensitive, zone=zone_of(lake))
        condition = read_condition(where, names)
        needed |= mentioned(where, whole)
    return Plan(
        table=table,
        tasks=plan_files(table, condition if files is None else files),
        schema=Schema(*[field for field in whole.fields if field.name in needed]),
        condition=condition,
        where=where if isinstance(where, str) else expression,
        columns=chosen,
        case_sensitive=case_sensitive,
    )


def frame_of(lake: Lake, plan: Plan) -> DataFrame:
    """Returns the rows of a plan."""
    lake.settings.apply(lake.spark, READ_SETTINGS)
    frames = _frames(lake, plan)
    if frames:
        frame = reduce(DataFrame.unionAll, [each for each, _ in frames])
    else:
        frame = lake.spark.createDataFrame([], nullable(to_spark(plan.schema, ids=False)))
    if isinstance(plan.where, str):
        frame = _where(frame, plan.where)
    elif (condition := condition_of(plan)) is not None:
        frame = frame.where(condition)
    if [(name,) for name in frame.columns] != list(plan.columns):
        frame = frame.select(*[column_at(path).alias(path[-1]) for path in plan.columns])
    if len(frames) != 1 or not frames[0][1]:
        return frame
    # The fields of the columns of the frame, if they are reached through structs.
    by_path = {path: number for number, path in field_paths(plan.schema).items()}
    shown = {
        path[-1]: plan.schema.find_field(by_path[path]) for path in plan.columns if path in by_path
    }
    return filtering_frame(frame, FileChooser(lake, plan.table, plan.tasks, shown))


def condition_of(plan: Plan) -> Column | None:
    """Returns the condition on rows, None if there is none; Spark checks whether a text is one."""
    if isinstance(plan.where, str):
        return F.expr(bracketed(plan.where))
    return None if plan.where is None else plan.where.column()


def _where(frame: DataFrame, text: str) -> DataFrame:
    """Returns the rows for which a condition is true, by Spark."""
    try:
        chosen = frame.where(F.expr(bracketed(text)))
        # Through Connect Spark analyses the frame only when its columns are asked for.
        chosen.columns  # noqa: B018
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise
        raise Invalid(f"the filter {text!r} cannot be used: {explained(error, text)}") from None
    return chosen


def _frames(lake: Lake, plan: Plan) -> list[tuple[DataFrame, bool]]:
    """Gives every file to the reader that can read it.

    Each frame comes with whether it is nothing but a scan by Spark, so that Spark can leave out
    files of it.
    """
    metadata = plan.table.metadata
    by_arrow, by_spark = split(lake, metadata, plan.schema, plan.tasks)
    shapes: dict[tuple[str, int] | None, Shape | None] = {}
    groups: dict[tuple[str, int] | None, list[FileScanTask]] = {}
    named = find_files_without_ids(lake, plan.table, [task.file.file_path for task in by_spark])
    for task in by_spark:
        held = named.get(task.file.file_path)
        kind = None if held is None else (held, task.file.spec_id)
        if kind not in shapes:
            shapes[kind] = (
                shape_by_ids(metadata, plan.schema, is_foreign=held == FOREIGN)
                if held is None or held == FOREIGN
                else shape_by_names(metadata, plan.schema, held, task.file.spec_id)
            )
        groups.setdefault(kind, []).append(task)
    frames: list[tuple[DataFrame, bool]] = []
    for kind, tasks in groups.items():
        shape = shapes[kind]
        if shape is None:
            by_arrow.extend(tasks)
        else:
            # PyIceberg takes the bounds of what is foreign from other columns.
            is_foreign = kind is not None and kind[0] == FOREIGN
            is_scan = not is_foreign and not any(task.delete_files for task in tasks)
            frames.extend((each, is_scan) for each in native_frames(lake, shape, tasks))
    if by_arrow:
        frame = arrow_frame(lake, plan.table, plan.schema, plan.condition, by_arrow)
        frames.append((frame, False))
    return frames


def split(
    lake: Lake, metadata: TableMetadata, schema: Schema, tasks: Iterable[FileScanTask]
) -> tuple[list[FileScanTask], list[FileScanTask]]:
    """Returns the files that PyIceberg must read to get some columns, and those that Spark can."""
    if find_defaults(schema):
        return list(tasks), []
    by_arrow: list[FileScanTask] = []
    by_spark: list[FileScanTask] = []
    for task in tasks:
        paths = [task.file.file_path, *(each.file_path for each in task.delete_files)]
        native = (
            is_native_task(task)
            and not lacks_partition(metadata, schema, task.file)
            and all(find_access(lake, path) == "native" for path in paths)
        )
        (by_spark if native else by_arrow).append(task)
    return by_arrow, by_spark


def _choose(
    schema: Schema, columns: Sequence[str] | None, *, case_sensitive: bool
) -> tuple[tuple[str, ...], ...]:
    """Returns the path of every requested column; a dotted name is one inside a struct."""
    if columns is None:
        return tuple((field.name,) for field in schema.fields)
    if isinstance(columns, str):
        raise Invalid(f"columns is a list of names; write columns=[{columns!r}]")
    names = [field.name for field in schema.fields]
    known = {name: name for name in names}
    if not case_sensitive:
        known = {name.lower(): name for name in names} | known
    chosen: list[tuple[str, ...]] = []
    for name in columns:
        top, _, inner = name.partition(".")
        found, above = known.get(name), known.get(top)
        if not case_sensitive:
            found, above = found or known.get(name.lower()), above or known.get(top.lower())
        if found is not None:
            chosen.append((found,))
        elif inner and above is not None:
            chosen.append((above, *inner.split(".")))
        else:
            raise Invalid(f"there is no column {name}; there are {', '.join(names)}")
    return tuple(chosen)
