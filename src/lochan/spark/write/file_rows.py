"""Rows of a table with the file that each is in, so that only files are rewritten that must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyiceberg.table import FileScanTask, Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.checks import check
from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.filters import Unread
from lochan.spark.read.native import parquet_frame, shape_by_ids
from lochan.spark.read.table_reader import Plan, split
from lochan.spark.schemas import quoted
from lochan.spark.storage import shown_path
from lochan.spark.write.frame_shape import free_name

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_NAMED_MAX: Final = 3


def rows_by_file(lake: Lake, plan: Plan) -> tuple[DataFrame, str]:
    """Returns the columns of a plan, all rows of its files, and the column that names the file.

    The plan must have files.
    """
    native, others = _split(lake, plan.table, plan.tasks)
    path = free_name("lochan_path", [field.name for field in plan.table.schema().fields])
    frames: list[DataFrame] = []
    if native:
        shape = shape_by_ids(plan.table.metadata, plan.schema)
        read = parquet_frame(lake, shape.struct(), [task.file.file_path for task in native])
        frames.append(read.select(*shape.columns(), F.col("_metadata.file_path").alias(path)))
    if others:
        frames.append(arrow_frame(lake, plan.table, plan.schema, Unread(), others, path=path))
    names = [F.col(quoted(name[0])) for name in plan.columns]
    return reduce(DataFrame.unionAll, [frame.select(*names, path) for frame in frames]), path


def tasks_at(tasks: Sequence[FileScanTask], paths: Iterable[str]) -> list[FileScanTask]:
    """Returns the tasks of the files at these paths, in the same order."""
    by_path = {task.file.file_path: task for task in tasks}
    by_path |= {shown_path(place): task for place, task in list(by_path.items())}
    named = list(paths)
    unknown = [each for each in named if each not in by_path]
    check(not unknown, f"files with names that were not planned: {unknown[:_NAMED_MAX]}")
    return [by_path[each] for each in named]


def _split(
    lake: Lake, table: Table, tasks: Sequence[FileScanTask]
) -> tuple[list[FileScanTask], list[FileScanTask]]:
    """Returns the files for whose rows Spark knows the path, and the others."""
    by_arrow, by_spark = split(lake, table.metadata, table.schema(), tasks)
    plain = table.metadata.name_mapping() is None
    native = [task for task in by_spark if plain and not task.delete_files]
    others = [task for task in by_spark if not plain or task.delete_files]
    return native, by_arrow + others
