"""Merging rows into a table by key, copy on write: only files that hold matching keys are replaced.

1. The frame is written as files of the table, once. Its keys are then read from there, so that a
   frame that would come out differently the next time cannot tear a merge apart.
2. Bounds of the keys leave out files of the table that cannot match (`candidates`).
3. Of those that are left Spark finds the files with a matching row (`find_matching`).
4. The other rows of those files are written again (`survivors`); the files are replaced by them
   and by those of step 1, in one snapshot.

If the table moves meanwhile, steps 2 to 4 are done again on what it is then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    NestedField,
    PrimitiveType,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid
from lochan.base.limits.spark_writes import SPARK_MERGE_RANGES_MAX
from lochan.spark.read.domains import value_of
from lochan.spark.read.filters import Comparand, Junction, Leaf, Node, Unread
from lochan.spark.read.table_reader import frame_of, plan_table
from lochan.spark.schemas import quoted
from lochan.spark.write.bounds import FileFacts
from lochan.spark.write.file_rows import rows_by_file, tasks_at
from lochan.spark.write.frame_shape import free_name

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_NAMED_MAX: Final = 3


def check_keys(table: str, schema: Schema, keys: Sequence[str]) -> None:
    """Raises Invalid unless rows can be identified by the columns."""
    if not keys:
        raise Invalid(f'a merge into {table} needs keys, for example keys=("id",)')
    fields = {field.name: field for field in schema.fields}
    for key in keys:
        if key not in fields:
            raise Invalid(f"{table} has no column {key} to merge by")
        if not isinstance(fields[key].field_type, PrimitiveType):
            raise Invalid(f"{table} cannot be merged by {key}: it is {fields[key].field_type}")


def keys_of(lake: Lake, table: Table, files: Sequence[DataFile], keys: Sequence[str]) -> DataFrame:
    """Returns the keys of files that were just written, which no snapshot has yet."""
    plan = plan_table(lake, table, columns=list(keys))
    tasks = tuple(FileScanTask(data_file=file) for file in files)
    return frame_of(lake, msgspec.structs.replace(plan, tasks=tasks))


def check_unique(keys: DataFrame, table: str) -> None:
    """Raises Invalid if two rows of a frame have the same key: which one wins is not defined."""
    names = [F.col(quoted(name)) for name in keys.columns]
    # A key may be called count, and any other name.
    number = free_name("number", keys.columns)
    counted = keys.groupBy(*names).agg(F.count(F.lit(1)).alias(number))
    found = counted.where(F.col(number) > 1).limit(_NAMED_MAX).collect()
    if found:
        listed = "; ".join(", ".join(repr(value) for value in row[:-1]) for row in found)
        raise Invalid(
            f"the frame for {table} has rows with the same {', '.join(keys.columns)}: {listed}; "
            "leave one of each, for example by dropDuplicates"
        )


def find_matching(
    lake: Lake, table: Table, facts: Sequence[FileFacts], keys: DataFrame
) -> list[FileScanTask]:
    """Returns the files of a table with at least one row whose key is among the keys."""
    names = keys.columns
    fields = [table.schema().find_field(name) for name in names]
    plan = plan_table(lake, table, columns=names, files=_ranges(fields, facts))
    if not plan.tasks or not facts:
        return []
    rows, path = rows_by_file(lake, plan)
    matching = _join(rows, keys, "left_semi").select(path).distinct().collect()
    return tasks_at(plan.tasks, [row[0] for row in matching])


def survivors(
    lake: Lake, table: Table, tasks: Sequence[FileScanTask], keys: DataFrame
) -> DataFrame:
    """Returns the rows of files whose key is not among the keys; no key with NULL ever is."""
    plan = plan_table(lake, table)
    rows = frame_of(lake, msgspec.structs.replace(plan, tasks=tuple(tasks)))
    return _join(rows, keys, "left_anti")


def _join(rows: DataFrame, keys: DataFrame, how: str) -> DataFrame:
    """Returns the rows whose key is, or is not, among the keys."""
    names = {name: f"key {name}" for name in keys.columns}
    renamed = keys.select(*[F.col(quoted(name)).alias(new) for name, new in names.items()])
    same = [F.col(quoted(name)) == F.col(quoted(new)) for name, new in names.items()]
    return rows.join(renamed, same, how)


def _ranges(fields: Sequence[NestedField], facts: Sequence[FileFacts]) -> Node:
    """Returns a condition on files that every file with one of the keys fulfils."""
    if len(facts) > SPARK_MERGE_RANGES_MAX:
        facts = [_span(fields, facts)]
    found: list[Node] = []
    for each in facts:
        parts = tuple(part for field in fields for part in _range(field, each))
        if not parts:
            return Unread()
        found.append(Junction(parts, True))
    return Junction(tuple(found), False) if found else Unread()


def _range(field: NestedField, facts: FileFacts) -> Iterator[Node]:
    # Bounds do not count NaN; and a text that was cut has an upper bound only if there is a next.
    kind, number = field.field_type, field.field_id
    if isinstance(kind, FloatType | DoubleType):
        return
    for operator, bounds in ((">=", facts.lower), ("<=", facts.upper)):
        end = value_of(kind, bounds.get(number))
        if end is not None:
            yield Leaf(number, operator, (Comparand(end, end),))


def _span(fields: Sequence[NestedField], facts: Sequence[FileFacts]) -> FileFacts:
    """Returns bounds around the bounds of many files."""
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field in fields:
        number = field.field_id

        def order(raw: bytes, kind: IcebergType = field.field_type) -> Any:
            return value_of(kind, raw)

        # The empty text is a bound too.
        lows = [each.lower[number] for each in facts if number in each.lower]
        highs = [each.upper[number] for each in facts if number in each.upper]
        is_known = all(order(each) is not None for each in (*lows, *highs))
        if is_known and len(lows) == len(highs) == len(facts):
            lower[number] = min(lows, key=order)
            upper[number] = max(highs, key=order)
    return FileFacts(path="", size=0, lower=lower, upper=upper)
