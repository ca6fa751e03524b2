"""Frames of tables whose `where` leaves out files, as `lake.read(…, where=…)` does.

Such a frame is a frame of Spark like every other; only `where`, `filter` and `select` are ours.
`where` does what Spark's does, and adds that rows are in one of the files that can have a match, or
in none of the others: Spark leaves out files by that before it starts tasks. It is the same scan,
so columns that were taken from the frame before fit the new one. What is not understood of a
condition leaves out nothing, and every other method returns a plain frame.

Only frames of one scan are of this kind: not of tables with deletes, or with files that PyIceberg
reads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.limits.spark_reads import FILTER_FILES_NAMED_MAX
from lochan.spark.read.column_text import text_of
from lochan.spark.read.comparands import Zone
from lochan.spark.read.file_plan import FileFilter
from lochan.spark.read.filters import Node, Unread
from lochan.spark.read.sql_conditions import Columns, read_column_text, read_condition
from lochan.spark.storage import shown_path

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

# Paths that Java and we write alike for certain. A wrong one among those to keep would lose rows.
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./:=+,@-]+")
_CHOOSER: Final = "_lochan_chooser"


class FileChooser(msgspec.Struct, frozen=True):
    """The files that a frame reads, and the field of each of its columns."""

    lake: Any
    table: Table
    tasks: tuple[FileScanTask, ...]
    fields: Mapping[str, NestedField]

    def read(self, condition: Any) -> Node:
        """Returns what is understood of a condition."""
        case_sensitive = self.lake.spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        columns = Columns(self.fields, case_sensitive=case_sensitive, zone=zone_of(self.lake))
        if isinstance(condition, str):
            return read_condition(condition, columns)
        found = text_of(condition) if isinstance(condition, Column) else None
        if found is None:
            return Unread()
        text, is_quoted = found
        return read_column_text(text, columns, is_quoted=is_quoted)

    def chosen(self, condition: Any) -> tuple[FileScanTask, ...]:
        """Returns the files that can have a match."""
        node = self.read(condition)
        if isinstance(node, Unread):
            return self.tasks
        files = FileFilter(self.table, node)
        return tuple(task for task in self.tasks if files.keeps(task.file))


def zone_of(lake: Lake) -> Zone:
    """Returns the time zone of a lake's session, which is asked for when it is needed."""
    return lambda: lake.spark.conf.get("spark.sql.session.timeZone", "") or ""


def restriction(kept: Sequence[FileScanTask], all_of_them: Sequence[FileScanTask]) -> Column | None:
    """Returns the condition that a row is in a file that is kept; None if there is no short one."""
    if len(kept) == len(all_of_them):
        return None
    if not kept:
        return F.lit(False)
    kept_paths = {task.file.file_path for task in kept}
    others = [task.file.file_path for task in all_of_them if task.file.file_path not in kept_paths]
    path = F.col("_metadata.file_path")
    is_plain = all(_PLAIN_PATH.fullmatch(path) for path in kept_paths)
    if min(len(kept_paths) if is_plain else len(others), len(others)) > FILTER_FILES_NAMED_MAX:
        return None
    if is_plain and len(kept_paths) <= len(others):
        return path.isin([shown_path(each) for each in sorted(kept_paths)])
    return ~path.isin([shown_path(each) for each in others])


class _FilteringFrame:
    """The methods of such a frame that differ from Spark's."""

    def filter(self, condition: Any) -> DataFrame:
        """Returns the rows for which a condition is true; files that have none are left out."""
        plain: DataFrame = super().filter(condition)  # type: ignore[misc]
        chooser: FileChooser = self.__dict__[_CHOOSER]
        kept = chooser.chosen(condition)
        named = restriction(kept, chooser.tasks)
        if named is None:
            return filtering_frame(plain, chooser)
        return filtering_frame(plain.filter(named), msgspec.structs.replace(chooser, tasks=kept))

    def where(self, condition: Any) -> DataFrame:
        """Returns the rows for which a condition is true; files that have none are left out."""
        return self.filter(condition)

    def select(self, *cols: Any) -> DataFrame:
        """Returns some columns; if they are names, files can still be left out by them."""
        plain: DataFrame = super().select(*cols)  # type: ignore[misc]
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list) else cols
        chooser: FileChooser = self.__dict__[_CHOOSER]
        texts = [name for name in names if isinstance(name, str)]
        fields = {name: chooser.fields[name] for name in texts if name in chooser.fields}
        if not names or len(fields) < len(names):
            return plain
        return filtering_frame(plain, msgspec.structs.replace(chooser, fields=fields))


@functools.cache
def _kind(plain: Any) -> Any:
    """Returns the kind of frame for classic sessions, or for those through Connect."""
    return type(plain.__name__, (_FilteringFrame, plain), {})


def filtering_frame(frame: DataFrame, chooser: FileChooser) -> DataFrame:
    """Returns a frame as one whose `where` leaves out files."""
    plain: Any = type(frame)
    if issubclass(plain, _FilteringFrame):
        return frame
    filtering: DataFrame = object.__new__(_kind(plain))
    filtering.__dict__.update(frame.__dict__)
    filtering.__dict__[_CHOOSER] = chooser
    return filtering
