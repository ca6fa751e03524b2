"""Files that Spark cannot read itself, read by PyIceberg in executors.

PyIceberg resolves columns by id or name mapping, applies positional deletes, deletion vectors and
defaults, and reaches the object stores that pyarrow does. A file is one piece of work, and its rows
pass through in batches. It costs several times what Spark's own reader does, so only the columns
that are needed are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import msgspec
import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, UnknownType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from lochan.base.pipeline_limits import (
    ARROW_READ_TASKS_MAX,
)
from lochan.spark.read.conditions import quoted
from lochan.spark.read.predicates import bind_filter
from lochan.spark.read.scanning import rows_of
from lochan.spark.schemas import nullable, shown, to_spark
from lochan.spark.write.arrow_schemas import arrow_schema

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_WORK: Final = "part int, task binary"


class _File(msgspec.Struct, frozen=True, array_like=True):
    """What a reader needs to know of a file of rows or of deletes."""

    path: str
    kind: str
    size: int
    spec_id: int
    partition: list[bytes | None] = []
    """The values of the partition, as Iceberg writes single values down."""


class _Task(msgspec.Struct, frozen=True, array_like=True):
    """A file, and what was deleted from it."""

    file: _File
    deletes: list[_File]


def arrow_frame(
    lake: Lake,
    table: Table,
    schema: Schema,
    expression: BooleanExpression,
    tasks: Sequence[FileScanTask],
    *,
    case_sensitive: bool,
    path: str = "",
) -> DataFrame:
    """Returns the rows of some files; rows that the expression does not want may be missing.

    `path` is the name of a column to be added, which tells the file that a row is from.
    """
    parts = min(len(tasks), ARROW_READ_TASKS_MAX)
    # The largest first and round robin: no part gets two of the largest before all have one.
    ordered = sorted(tasks, key=lambda task: task.file.file_size_in_bytes, reverse=True)
    rows = [(number % parts, _pack(table, task)) for number, task in enumerate(ordered)]
    work = lake.spark.createDataFrame(rows, _WORK).repartitionById(parts, F.col("part"))
    stored = nullable(to_spark(schema, stored=True, ids=False))
    if path:
        stored.add(path, StringType())
    reader = _Reader(
        metadata=_lean(table.metadata),
        schema=schema,
        arrow_schema=arrow_schema(stored).serialize().to_pybytes(),
        expression=expression,
        case_sensitive=case_sensitive,
        path=path,
        files=dict(lake.files),
    )
    frame = work.select("task").mapInArrow(reader, stored)
    return frame.select(
        *[
            shown(F.col(quoted(field.name)), field.field_type).alias(field.name)
            for field in schema.fields
        ],
        *([path] if path else []),
    )


def _pack(table: Table, task: FileScanTask) -> bytes:
    """Returns a task as it is sent to an executor."""
    deletes = [_described(table.metadata, each) for each in task.delete_files]
    return msgspec.msgpack.encode(_Task(_described(table.metadata, task.file), deletes))


def _described(metadata: TableMetadata, file: DataFile) -> _File:
    values: list[bytes | None] = []
    for number, kind in enumerate(_partition_types(metadata, file.spec_id)):
        value = file.partition[number]
        # The type of a column that was dropped is not known, and nobody asks for its values.
        is_lost = value is None or isinstance(kind, UnknownType)
        values.append(None if is_lost else to_bytes(kind, value))
    size = file.file_size_in_bytes
    return _File(file.file_path, file.file_format.value, size, file.spec_id, values)


def _partition_types(metadata: TableMetadata, spec_id: int) -> list[PrimitiveType]:
    fields = metadata.specs()[spec_id].partition_type(metadata.schema()).fields
    return [cast("PrimitiveType", field.field_type) for field in fields]


def _unpack(metadata: TableMetadata, packed: bytes) -> FileScanTask:
    """Returns a task as PyIceberg's reader takes it."""
    task = msgspec.msgpack.decode(packed, type=_Task)
    deletes = {_file(metadata, each, DataFileContent.POSITION_DELETES) for each in task.deletes}
    return FileScanTask(_file(metadata, task.file, DataFileContent.DATA), deletes)


def _file(metadata: TableMetadata, told: _File, content: DataFileContent) -> DataFile:
    kinds = _partition_types(metadata, told.spec_id)
    values = [
        None if value is None else from_bytes(kind, value)
        for kind, value in zip(kinds, told.partition, strict=True)
    ]
    made = DataFile.from_args(
        content=content,
        file_path=told.path,
        file_format=FileFormat(told.kind),
        partition=Record(*values),
        record_count=0,
        file_size_in_bytes=told.size,
    )
    made.spec_id = told.spec_id
    return made


def _lean(metadata: TableMetadata) -> TableMetadata:
    """Returns metadata without its history, which no executor looks at and which may be large."""
    lists = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")
    history: dict[str, object] = {name: [] for name in lists}
    history |= {"refs": {}, "current_snapshot_id": None}
    return metadata.model_copy(update=history)


@dataclass(frozen=True)
class _Reader:
    """Reads files in an executor; a dataclass, as Spark pickles it."""

    metadata: TableMetadata
    schema: Schema
    arrow_schema: bytes
    expression: BooleanExpression
    case_sensitive: bool
    path: str
    files: dict[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = pa.ipc.read_schema(pa.py_buffer(self.arrow_schema))
        bound = bind_filter(
            self.expression, self.metadata.schema(), case_sensitive=self.case_sensitive
        )
        for batch in batches:
            for packed in batch.column("task").to_pylist():
                task = _unpack(self.metadata, packed)
                files = load_file_io(self.files, task.file.file_path)
                for batch_of_rows in rows_of(files, self.metadata, self.schema, bound, task):
                    rows = pa.Table.from_batches([batch_of_rows])
                    if self.path:
                        place = pa.repeat(task.file.file_path, len(rows))
                        rows = rows.append_column(self.path, place)
                    yield from rows.cast(wanted).to_batches()
