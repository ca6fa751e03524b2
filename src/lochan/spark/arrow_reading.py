"""Files that Spark cannot read itself, read by PyIceberg in executors.

PyIceberg resolves columns by id or name mapping, applies positional deletes, deletion vectors and
defaults, and reaches the object stores that pyarrow does. A file is one piece of work, and its rows
pass through in batches. It costs several times what Spark's own reader does, so only the columns
that are needed are read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import UUIDType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from lochan.base.pipeline_limits import (
    ARROW_READ_TASKS_MAX,
)
from lochan.spark.predicates import bind_filter, filtered_fields, quoted
from lochan.spark.schemas import nullable, shown, to_spark

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_WORK: Final = "part int, task binary"


def arrow_frame(
    lake: Lake,
    table: Table,
    schema: Schema,
    expression: BooleanExpression,
    tasks: Sequence[FileScanTask],
    *,
    case_sensitive: bool,
) -> DataFrame:
    """Returns the rows of some files; rows that the expression does not want may be missing."""
    parts = min(len(tasks), ARROW_READ_TASKS_MAX)
    # The largest first and round robin: no part gets two of the largest before all have one.
    ordered = sorted(tasks, key=lambda task: task.file.file_size_in_bytes, reverse=True)
    rows = [(number % parts, pickle.dumps(task)) for number, task in enumerate(ordered)]
    work = lake.spark.createDataFrame(rows, _WORK).repartitionById(parts, F.col("part"))
    stored = nullable(to_spark(schema, stored=True, ids=False))
    reader = _Reader(
        metadata=_lean(table.metadata),
        schema=schema,
        arrow_schema=to_arrow_schema(stored).serialize().to_pybytes(),
        expression=_pushable(expression, table.schema(), case_sensitive=case_sensitive),
        case_sensitive=case_sensitive,
        files=dict(lake.files),
    )
    frame = work.select("task").mapInArrow(reader, stored)
    return frame.select(
        *[
            shown(F.col(quoted(field.name)), field.field_type).alias(field.name)
            for field in schema.fields
        ]
    )


def _pushable(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Returns what pyarrow can check of an expression: nothing, if it would have to compare uuids.

    Rows are checked by Spark in any case.
    """
    bound = bind_filter(expression, schema, case_sensitive=case_sensitive)
    kinds = [schema.find_type(number) for number in filtered_fields(bound)]
    return AlwaysTrue() if any(isinstance(kind, UUIDType) for kind in kinds) else expression


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
    files: dict[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = pa.ipc.read_schema(pa.py_buffer(self.arrow_schema))
        for batch in batches:
            for pickled in batch.column("task").to_pylist():
                # Made by our own driver, and sent as Spark sends every piece of work.
                task: FileScanTask = pickle.loads(pickled)  # noqa: S301
                for rows in self._rows(task):
                    yield from pa.Table.from_batches([rows]).cast(wanted).to_batches()

    def _rows(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        files: FileIO = load_file_io(self.files, task.file.file_path)
        scan = ArrowScan(
            self.metadata,
            files,
            self.schema,
            self.expression,
            self.case_sensitive,
        )
        # The public method holds all rows of a file at once; these are its two halves.
        deletes = _read_all_delete_files(files, [task])
        yield from scan._record_batches_from_scan_tasks_and_deletes([task], deletes)  # noqa: SLF001
