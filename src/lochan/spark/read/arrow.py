"""Files that Spark cannot read itself, read by PyIceberg in executors.

PyIceberg resolves columns by id or name mapping, applies positional deletes, deletion vectors and
defaults, and reaches the object stores that pyarrow does. A file is one piece of work, and its rows
pass through in batches. It costs several times what Spark's own reader does, so only the columns
that are needed are read.

A file is read by PyIceberg's parts, put together anew: its own scan takes a list or a map of
structs that is NULL for an empty one, and asks a file by a filter that the file's own types cannot
answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    _combine_positional_deletes,
    _get_column_projection_values,
    _get_file_format,
    _read_all_delete_files,
    expression_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema, prune_columns, visit_with_partner
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IntegerType, ListType, LongType, MapType, StringType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lochan.base.limits.spark_reads import ARROW_READ_TASKS_MAX
from lochan.spark.read.filters import Junction, Leaf, Node, parts_of
from lochan.spark.read.footers import held_schema
from lochan.spark.schemas import as_users_see, nullable, quoted, to_spark
from lochan.spark.trees import fold
from lochan.spark.write.transforms import decode_values, encode_values

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_WORK: Final = "part int, task binary"
# From 4.2 on the function has an argument for the zone of timestamps; before, it was always UTC.
_ZONED: Final = "timezone" in inspect.signature(to_arrow_schema).parameters
# Ranges of an object are asked for together, in pieces of this many bytes.
_BUFFER_BYTES: Final = 8 << 20
# Comparisons that mean the same for every reader: of these types, by these operators.
_COMPARED_TYPES: Final = (IntegerType, LongType, StringType, DateType)
_COMPARISONS: Final[dict[str, Any]] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "in": In,
}
_INT_BITS: Final = 31


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
        stored.add(path, spark.StringType())
    reader = _Reader(
        metadata=_lean(table.metadata),
        schema=schema,
        arrow_schema=_arrow_schema(stored).serialize().to_pybytes(),
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


def _arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Returns the types that Spark takes from Python for a schema, exactly."""
    words: dict[str, Any] = {"timezone": "UTC"} if _ZONED else {}
    return to_arrow_schema(schema, **words)


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


def rows_of(
    files: FileIO,
    metadata: TableMetadata,
    schema: Schema,
    condition: Node,
    task: FileScanTask,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file in some columns; excluded rows may be missing."""
    deletes = _read_all_delete_files(files, [task]).get(task.file.file_path)
    with files.new_input(task.file.file_path).open() as stream:
        options: dict[str, Any] = {"pre_buffer": True, "buffer_size": _BUFFER_BYTES}
        fragment = _get_file_format(task.file.file_format, **options).make_fragment(stream)
        physical = fragment.physical_schema
        held = held_schema(physical, metadata.name_mapping(), metadata.format_version)
        needed = prune_columns(held, _values(schema), select_full_types=False)
        spec = metadata.specs().get(task.file.spec_id)
        partition = _get_column_projection_values(
            task.file, schema, metadata.schema(), spec, held.field_ids
        )
        projection = _Projection(
            needed,
            downcast_ns_timestamp_to_us=True,
            projected_missing_fields=partition,
            allow_timestamp_tz_mismatch=True,
        )
        # Positions are those of all rows, so what was deleted is left out before anything else.
        row_filter = None if deletes else _file_filter(condition, metadata.schema(), held)
        # Rows without any column could not be counted.
        names = [field.name for field in needed.fields] or physical.names[:1]
        scanner = ds.Scanner.from_fragment(
            fragment, schema=physical, filter=row_filter, columns=names
        )
        first = 0
        for batch in scanner.to_batches():
            after = first + len(batch)
            left = batch
            if deletes:
                left = batch.take(_combine_positional_deletes(deletes, first, after))
            first = after
            if len(left):
                rows = visit_with_partner(schema, left, projection, ArrowAccessor(needed))
                yield pa.RecordBatch.from_struct_array(rows)


def _values(schema: Schema) -> set[int]:
    """Returns the fields of a schema but for lists and maps, which come with what is in them."""
    ids = schema.field_ids
    return {each for each in ids if not isinstance(schema.find_type(each), ListType | MapType)}


def _file_filter(condition: Node, schema: Schema, held: Schema) -> ds.Expression | None:
    """Returns the part of a condition that pyarrow can check, if any; Spark checks all of it.

    A column that the file lacks may have a default or the value of a partition, one that was
    narrower once cannot be compared with every value, and names with dots pyarrow does not find.
    """
    checked = fold(condition, parts_of, partial(_comparison, schema, held))
    if isinstance(checked, AlwaysTrue):
        return None
    return expression_to_pyarrow(bind(held, checked, case_sensitive=True), held)


def _comparison(
    schema: Schema, held: Schema, leaf: Node, parts: list[BooleanExpression]
) -> BooleanExpression:
    """Returns a comparison by the name that a column has in a file; AlwaysTrue if there is none."""
    if isinstance(leaf, Junction):
        return And(*parts) if leaf.is_and else Or(*parts)
    # Of the opposite of a condition that is known in part nothing is known.
    if not isinstance(leaf, Leaf) or leaf.has_null or leaf.is_loose or leaf.is_any_for_null:
        return AlwaysTrue()
    comparison = _COMPARISONS.get(leaf.operator)
    field = next((each for each in held.fields if each.field_id == leaf.field_id), None)
    if comparison is None or field is None or "." in field.name:
        return AlwaysTrue()
    kind = field.field_type
    if kind != schema.find_type(leaf.field_id) or not isinstance(kind, _COMPARED_TYPES):
        return AlwaysTrue()
    values = [each.exact for each in leaf.comparands if each.exact is not None]
    if isinstance(kind, IntegerType):
        values = [each for each in values if abs(each) < 1 << _INT_BITS]
    if len(values) < len(leaf.comparands):
        return AlwaysTrue()
    compared: BooleanExpression = comparison(
        Reference(field.name), values if comparison is In else values[0]
    )
    return compared


class _Projection(ArrowProjectionVisitor):
    """PyIceberg's projection from a file to a table, except that NULL stays NULL."""

    def list(
        self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None
    ) -> pa.Array | None:
        """Returns a list as the table has it."""
        return _as_null_as(list_array, super().list(list_type, list_array, value_array))

    def map(
        self,
        map_type: MapType,
        map_array: pa.Array | None,
        key_result: pa.Array | None,
        value_result: pa.Array | None,
    ) -> pa.Array | None:
        """Returns a map as the table has it."""
        return _as_null_as(map_array, super().map(map_type, map_array, key_result, value_result))


def _as_null_as(before: pa.Array | None, after: pa.Array | None) -> pa.Array | None:
    if before is None or after is None or before.null_count == after.null_count:
        return after
    return pc.if_else(before.is_valid(), after, pa.scalar(None, after.type))
