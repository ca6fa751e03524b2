"""Reading a table as it is on a reference.

1. the catalog tells which metadata the table has on the reference;
2. PyIceberg plans: of the manifests it takes the files that rows of the filter can be in;
3. every file gets the reader that can read it. Nearly all are read by Spark itself, by field id, so
   that columns may have been renamed, added, dropped, moved or widened since. Files without ids are
   read by the table's name mapping. The rest (an object store that Spark does not reach, names
   that Spark skips, deletion vectors, defaults) is read by PyIceberg in executors;
4. the frames are put together, the filter is applied to their rows, the columns are chosen.

The driver reads manifests, never the footers of data files. What can only be read wrongly is
refused: equality deletes, and types that Spark has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table
from pyiceberg.table.metadata import TableMetadata
from pyspark.sql import DataFrame

from lochan.base.errors import ContentNotFound, Corrupt, Invalid
from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.conditions import column_at, to_column
from lochan.spark.read.footers import FOREIGN, find_named
from lochan.spark.read.native import (
    Shape,
    is_native_task,
    lacks_partition,
    native_frames,
    shape_by_ids,
    shape_by_names,
)
from lochan.spark.read.predicates import (
    bind_filter,
    file_filter,
    filtered_fields,
    fit_filter,
    parse_filter,
)
from lochan.spark.read.vectors import Vectors
from lochan.spark.schemas import find_defaults, nullable, to_spark
from lochan.spark.session import READ_SETTINGS
from lochan.spark.storage import how

if TYPE_CHECKING:
    from lochan.spark.lake import Lake


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a read will do: the files, the columns of them, and the condition on rows."""

    table: Table
    tasks: tuple[FileScanTask, ...]
    schema: Schema
    """The columns that are asked for, and those that the filter looks at."""
    expression: BooleanExpression
    bound: BooleanExpression
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
    return frame_of(lake, plan_read(lake, table, ref=ref, columns=columns, where=where))


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
) -> Plan:
    """Finds the files of a table that is loaded."""
    case_sensitive = lake.spark.conf.get("spark.sql.caseSensitive", "false") == "true"
    whole = table.schema()
    expression = fit_filter(parse_filter(where), whole, case_sensitive=case_sensitive)
    bound = bind_filter(expression, whole, case_sensitive=case_sensitive)
    chosen = _choose(whole, columns, case_sensitive=case_sensitive)
    needed = {path[0] for path in chosen} | _top_level(whole, filtered_fields(bound))
    schema = Schema(*[field for field in whole.fields if field.name in needed])
    return Plan(
        table=table,
        tasks=_plan_files(
            table,
            file_filter(expression, whole, case_sensitive=case_sensitive),
            case_sensitive=case_sensitive,
        ),
        schema=schema,
        expression=expression,
        bound=bound,
        columns=chosen,
        case_sensitive=case_sensitive,
    )


def frame_of(lake: Lake, plan: Plan) -> DataFrame:
    """Returns the rows of a plan."""
    lake.settings.apply(lake.spark, READ_SETTINGS)
    frames = _frames(lake, plan)
    if frames:
        frame = reduce(DataFrame.unionAll, frames)
    else:
        frame = lake.spark.createDataFrame([], nullable(to_spark(plan.schema, ids=False)))
    if not isinstance(plan.bound, AlwaysTrue):
        frame = frame.where(to_column(plan.bound, plan.schema))
    if [(name,) for name in frame.columns] == list(plan.columns):
        return frame
    return frame.select(*[column_at(path).alias(path[-1]) for path in plan.columns])


def _frames(lake: Lake, plan: Plan) -> list[DataFrame]:
    """Gives every file to the reader that can read it."""
    metadata = plan.table.metadata
    by_arrow, by_spark = split(lake, metadata, plan.schema, plan.tasks)
    shapes: dict[tuple[str, int] | None, Shape | None] = {}
    groups: dict[tuple[str, int] | None, list[FileScanTask]] = {}
    named = find_named(lake, plan.table, [task.file.file_path for task in by_spark])
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
    frames: list[DataFrame] = []
    for kind, tasks in groups.items():
        shape = shapes[kind]
        if shape is None:
            by_arrow.extend(tasks)
        else:
            frames.extend(native_frames(lake, shape, tasks))
    if by_arrow:
        frames.append(
            arrow_frame(
                lake,
                plan.table,
                plan.schema,
                plan.expression,
                by_arrow,
                case_sensitive=plan.case_sensitive,
            )
        )
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
            and all(how(lake, path) == "native" for path in paths)
        )
        (by_spark if native else by_arrow).append(task)
    return by_arrow, by_spark


def _plan_files(
    table: Table, expression: BooleanExpression, *, case_sensitive: bool
) -> tuple[FileScanTask, ...]:
    """Returns the files that rows of a filter can be in, each with its deletes."""
    name = ".".join(table.name())
    snapshot = table.current_snapshot()
    if snapshot is None:
        if table.metadata.current_snapshot_id is None:
            return ()
        lost = table.metadata.current_snapshot_id
        raise Corrupt(f"the metadata of {name} lacks its own current snapshot, {lost}")
    manifests = snapshot.manifests(table.io)
    planner = ManifestGroupPlanner(table.metadata, table.io, expression, case_sensitive)
    vectors = Vectors()
    try:
        tasks = planner.plan_files(manifests, vectors.is_other)
    except (NotImplementedError, ValueError) as error:
        if "equality deletes" not in str(error):
            raise
        raise Invalid(
            f"the table {name} has equality deletes, which are not applied here; "
            "let the engine that wrote them compact the table first"
        ) from error
    return vectors.given_to(tasks, table.io, manifests)


def _choose(
    schema: Schema, columns: Sequence[str] | None, *, case_sensitive: bool
) -> tuple[tuple[str, ...], ...]:
    """Returns the way to every column that is asked for; a dotted name is one inside a struct."""
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


def _top_level(schema: Schema, ids: set[int]) -> set[str]:
    """Returns the columns that hold some fields."""
    return {field.name for field in prune_columns(schema, ids).fields} if ids else set()
