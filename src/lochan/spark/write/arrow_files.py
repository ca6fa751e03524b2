"""Parquet files written by pyarrow in executors, where Spark cannot write what is needed.

Spark cannot reach object stores without a jar, has no uuids and no bytes of a fixed length, and
writes no ids for what is in lists and maps, which can be added to local files only. A task writes
files whose names hold its attempt, and returns a row for each file. A task that is retried, or
raced by another one, leaves files without such a row; they are in no snapshot, and a later sweep
finds them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UUIDType,
)

from lochan.base.limits.spark_writes import SPARK_ROW_GROUP_BYTES_MAX
from lochan.spark.write.bounds import FileFacts
from lochan.spark.write.statistics import Layout, add_partition_values, facts_of, with_partition
from lochan.spark.write.transforms import paths_of_sources

_NO_CODEC: Final = "uncompressed"
_REQUIRED: Final = ("required", "element-required", "value-required")


def find_unwritable(schema: Schema) -> list[str]:
    """Returns columns that cannot be written: uuids that are not columns of their own."""
    own = {field.field_id for field in schema.fields}
    return [
        schema.find_column_name(number) or str(number)
        for number in schema.field_ids
        if number not in own and isinstance(schema.find_type(number), UUIDType)
    ]


def write_task(
    layout: Layout, name: str, grouped: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[FileFacts]:
    """Writes the rows of one task; `grouped`, a new file begins where the last column changes."""
    with ExitStack() as stack:
        writer = _FileWriter(layout, name, stack)
        for batch in batches:
            try:
                rows = _stored(layout.schema, batch, writer.schema)
            except (pa.ArrowInvalid, ValueError) as error:
                # As a row and not as a failed task: another attempt would meet the same.
                yield FileFacts(path=layout.directory, size=0, refused=str(error))
                return
            for group, start, length in _runs(batch, grouped):
                yield from writer.add(rows.slice(start, length), group)
        yield from writer.end()


class _FileWriter:
    """The file that a task writes at present, and its rows that are not written yet."""

    def __init__(self, layout: Layout, name: str, stack: ExitStack) -> None:
        self._layout = layout
        self._name = name
        self._stack = stack
        self._paths = paths_of_sources(layout.schema, layout.spec)
        self.schema = schema_to_pyarrow(_optional(layout.schema))
        self._count = 0
        self._group: int | None = None
        self._held: list[pa.Table] = []
        self._found: list[list[Any]] = []
        self._path = ""
        self._stream: Any = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table, group: int | None) -> Iterator[FileFacts]:
        if group != self._group:
            yield from self.end()
            self._group = group
        self._held.append(rows)
        self._found = self._found or [[] for _ in self._paths]
        add_partition_values(self._layout, self._found, rows, self._paths)
        if sum(each.nbytes for each in self._held) >= SPARK_ROW_GROUP_BYTES_MAX:
            self._flush()
            if self._stream.tell() >= self._layout.file_bytes:
                yield from self.end()

    def end(self) -> Iterator[FileFacts]:
        """Closes the file, if there is one; it exists from then on."""
        self._flush()
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        writer.close()
        size = self._stream.tell()
        self._stream.close()
        facts = facts_of(self._layout, self._path, size, writer.writer.metadata)
        found, self._found = self._found, []
        yield facts if facts.problem else with_partition(self._layout, facts, found)

    def _flush(self) -> None:
        if not self._held:
            return
        rows, self._held = pa.concat_tables(self._held), []
        if self._writer is None:
            self._open()
        if self._writer is not None:
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))

    def _open(self) -> None:
        self._path = f"{self._layout.directory}/{self._name}-{self._count:05d}.parquet"
        self._count += 1
        self._stream = self._stack.enter_context(self._layout.io.new_output(self._path).create())
        codec = self._layout.codec
        self._writer = pq.ParquetWriter(
            self._stream,
            self.schema,
            compression="none" if codec == _NO_CODEC else codec,
            store_decimal_as_integer=True,
            store_schema=False,
        )


def _runs(batch: pa.RecordBatch, grouped: bool) -> Iterator[tuple[int | None, int, int]]:
    """Yields groups, where their rows begin, and how many they are; rows come sorted by group."""
    if not grouped:
        if batch.num_rows:
            yield None, 0, batch.num_rows
        return
    runs = pa.compute.run_end_encode(batch.column(batch.num_columns - 1))
    start = 0
    for group, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield group, start, end - start
        start = end


def _optional(schema: Schema) -> Schema:
    """Returns a schema that requires nothing: what is required was looked for before.

    Arrow takes a required field of a struct that is NULL for a missing value.
    """
    plain = json.loads(schema.model_dump_json(), object_hook=_without_requirements)
    return Schema.model_validate(plain)


def _without_requirements(node: dict[str, Any]) -> dict[str, Any]:
    node.pop("identifier-field-ids", None)
    return node | {key: False for key in _REQUIRED if key in node}


def _stored(schema: Schema, batch: pa.RecordBatch, arrow_schema: pa.Schema) -> pa.Table:
    """Returns rows as they are in files; ValueError where a required value is missing."""
    columns: list[pa.Array] = []
    for number, field in enumerate(schema.fields):
        column = batch.column(number)
        missing = _missing_inside(field, column)
        if missing:
            raise ValueError(f"{missing} is required and has NULL")
        if isinstance(field.field_type, UUIDType):
            column = _uuids(column)
        columns.append(column.cast(arrow_schema.field(number).type))
    return pa.Table.from_arrays(columns, schema=arrow_schema)


def _uuids(column: pa.Array) -> pa.Array:
    raw = [None if each is None else uuid.UUID(each).bytes for each in column.to_pylist()]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(raw, pa.binary(16)))


def _missing_inside(field: NestedField, column: pa.Array) -> str:
    """Returns the path in a column where a required value is NULL, '' if there is none.

    An arrow cast would silently make a zero of it in a list.
    """
    todo: list[tuple[str, IcebergType, bool, pa.Array]] = [
        (field.name, field.field_type, field.required, column)
    ]
    while todo:
        path, kind, required, values = todo.pop()
        if required and values.null_count:
            return path
        values = values.drop_null()
        match kind:
            case StructType():
                todo += [
                    (f"{path}.{each.name}", each.field_type, each.required, values.field(each.name))
                    for each in kind.fields
                ]
            case ListType():
                inner = pa.compute.list_flatten(values)
                todo.append((f"{path}.element", kind.element_type, kind.element_required, inner))
            case MapType():
                todo.append((f"{path}.key", kind.key_type, True, values.keys))
                todo.append((f"{path}.value", kind.value_type, kind.value_required, values.items))
    return ""
