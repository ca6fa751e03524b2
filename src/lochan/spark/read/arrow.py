"""Files that Spark cannot read itself, read by PyIceberg in executors.

PyIceberg resolves columns by id or name mapping, applies positional deletes, deletion vectors and
defaults, and reaches the object stores that pyarrow does. A file is one piece of work, and its rows
pass through in batches. It costs several times what Spark's own reader does, so only the columns
that are needed are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from lochan.base.limits.spark_reads import ARROW_READ_TASKS_MAX
from lochan.spark.read.arrow_rows import rows_of
from lochan.spark.read.field_paths import quoted
from lochan.spark.read.filters import Node
from lochan.spark.schemas import as_users_see, nullable, to_spark
from lochan.spark.write.arrow_schemas import arrow_schema
from lochan.spark.write.transforms import decode_values, encode_values

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_WORK: Final = "part int, task binary"


class _File(msgspec.Struct, frozen=True, array_like=True):
    """The data of a file of rows or of deletes that a reader needs."""

    path: str
    kind: str
    size: int
    spec_id: int
    partition: list[bytes | None] = []
    """The values of the partition, as Iceberg writes single values down."""


class _Task(msgspec.Struct, frozen=True, array_like=True):
    """A file of rows with its files of deletes."""

    file: _File
    deletes: list[_File]


def arrow_frame(
    lake: Lake,
    table: Table,
    schema: Schema,
    condition: Node,
    tasks: Sequence[FileScanTask],
    *,
    path: str = "",
) -> DataFrame:
    """Returns the rows of some files; rows that the condition excludes may be missing.

    `path` is the name of a column to be added, which has the path of the file that a row is from.
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
        condition=condition,
        path=path,
        files=dict(lake.files),
    )
    frame = work.select("task").mapInArrow(reader, stored)
    return frame.select(
        *[
            as_users_see(F.col(quoted(field.name)), field.field_type).alias(field.name)
            for field in schema.fields
        ],
        *([path] if path else []),
    )


def _pack(table: Table, task: FileScanTask) -> bytes:
    """Returns a task as it is sent to an executor."""
    deletes = [_described(table.metadata, each) for each in task.delete_files]
    return msgspec.msgpack.encode(_Task(_described(table.metadata, task.file), deletes))


def _described(metadata: TableMetadata, file: DataFile) -> _File:
    spec, size = metadata.specs()[file.spec_id], file.file_size_in_bytes
    partition = [file.partition[number] for number in range(len(spec.fields))]
    values = encode_values(metadata.schema(), spec, partition)
    return _File(file.file_path, file.file_format.value, size, file.spec_id, values)


def _unpack(metadata: TableMetadata, packed: bytes) -> FileScanTask:
    """Returns a task as PyIceberg's reader takes it."""
    task = msgspec.msgpack.decode(packed, type=_Task)
    deletes = {_file(metadata, each, DataFileContent.POSITION_DELETES) for each in task.deletes}
    return FileScanTask(_file(metadata, task.file, DataFileContent.DATA), deletes)


def _file(metadata: TableMetadata, described: _File, content: DataFileContent) -> DataFile:
    spec = metadata.specs()[described.spec_id]
    values = decode_values(metadata.schema(), spec, described.partition)
    file = DataFile.from_args(
        content=content,
        file_path=described.path,
        file_format=FileFormat(described.kind),
        partition=Record(*values),
        record_count=0,
        file_size_in_bytes=described.size,
    )
    file.spec_id = described.spec_id
    return file


def _lean(metadata: TableMetadata) -> TableMetadata:
    """Returns metadata without its history, which no executor reads and which may be large."""
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
    condition: Node
    path: str
    files: dict[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrow_schema = pa.ipc.read_schema(pa.py_buffer(self.arrow_schema))
        for batch in batches:
            for packed in batch.column("task").to_pylist():
                task = _unpack(self.metadata, packed)
                files = load_file_io(self.files, task.file.file_path)
                for found in rows_of(files, self.metadata, self.schema, self.condition, task):
                    rows = pa.Table.from_batches([found])
                    if self.path:
                        place = pa.repeat(task.file.file_path, len(rows))
                        rows = rows.append_column(self.path, place)
                    yield from rows.cast(arrow_schema).to_batches()
