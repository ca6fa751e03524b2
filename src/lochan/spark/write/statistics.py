"""The facts of a data file for its manifest: read from footers in executors, never on the driver.

`read_facts` runs where the files are and returns plain values that travel back as bytes;
`build_data_file` makes pyiceberg's entry of them. Executors also check the work of the writer:
every column has its id and its type, and all rows of a file are of one partition. `column_facts`
has what the statistics of all files of a write show of its columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.transforms import BucketTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyiceberg.utils.properties import property_as_int

from lochan.base.errors import Invalid
from lochan.spark.read.domains import value_of
from lochan.spark.write.bounds import FileFacts, read_columns
from lochan.spark.write.transforms import (
    decode_values,
    encode_values,
    path_of,
    paths_of_sources,
    values_of,
)

# Smallest and largest value of these are in every footer, whole and in the order of transforms.
_ORDERED: Final[Mapping[type[IcebergType], pa.DataType]] = {
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
}
_NAMED_MAX: Final = 3
_METRICS: Final = "write.metadata.metrics"
_MICROS: Final = "microseconds"
_UUID_BYTES: Final = 16


class Layout(msgspec.Struct, frozen=True, dict=True):
    """The data of a table that executors need, as texts that can be sent to other processes."""

    schema_json: str
    spec_json: str
    properties: dict[str, str]
    files: dict[str, str]
    directory: str
    codec: str = "zstd"
    file_bytes: int = 512 * 1_024 * 1_024

    @cached_property
    def schema(self) -> Schema:
        """The columns of the files."""
        return Schema.model_validate_json(self.schema_json)

    @cached_property
    def spec(self) -> PartitionSpec:
        """How the files are partitioned."""
        return PartitionSpec.model_validate_json(self.spec_json)

    @cached_property
    def io(self) -> FileIO:
        """The access to the files; credentials are those of this process."""
        return load_file_io(self.files, self.directory)

    @cached_property
    def plan(self) -> Any:
        """The statistics that the table's properties request for each column."""
        return compute_statistics_plan(self.schema, self.properties)


class ColumnFacts(msgspec.Struct, frozen=True):
    """How many rows have no value in a column; of whole numbers also the least and the greatest.

    Both are None where there is no value, and where there are others than whole numbers.
    """

    nulls: int
    least: int | None = None
    greatest: int | None = None


def build_layout(
    schema: Schema,
    spec: PartitionSpec,
    properties: Mapping[str, str],
    files: Mapping[str, str],
    directory: str,
) -> Layout:
    """Returns the data that executors need to write files into a directory or to read them."""
    return Layout(
        schema_json=schema.model_dump_json(),
        spec_json=spec.model_dump_json(),
        properties={key: value for key, value in properties.items() if _METRICS in key},
        files=dict(files),
        directory=directory,
        codec=properties.get(TableProperties.PARQUET_COMPRESSION, "zstd").lower(),
        file_bytes=property_as_int(
            dict(properties),
            TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
            TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
        )
        or TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )


def read_facts(layout: Layout, path: str) -> FileFacts:
    """Reads the footer of a file, and the rows of it if the footer does not show the partition."""
    source = layout.io.new_input(path)
    with source.open() as stream:
        # Not `read_table` on a stream: it aborts the interpreter at its end now and then.
        file = pq.ParquetFile(stream)
        facts = facts_of(layout, path, len(source), file.metadata)
        if facts.problem or not facts.rows:
            return facts
        found = _partition_from_footer(layout, facts)
        if found is None:
            found = _partition_from_rows(layout, file)
    return with_partition(layout, facts, found)


def facts_of(layout: Layout, path: str, size: int, footer: pq.FileMetaData) -> FileFacts:
    """Returns the facts of a file by its footer, without the partition."""
    problem = _check_columns(layout.schema, footer.schema)
    if problem:
        return FileFacts(path=path, size=size, rows=footer.num_rows, problem=f"{path}: {problem}")
    if not footer.num_rows:
        return FileFacts(path=path, size=size)
    facts = FileFacts(path=path, size=size, rows=footer.num_rows)
    return read_columns(facts, footer, layout.schema, layout.plan)


def with_partition(layout: Layout, facts: FileFacts, found: list[list[Any]]) -> FileFacts:
    """Returns the facts with the one partition that the values are of, or with a problem."""
    for field, values in zip(layout.spec.fields, found, strict=True):
        if len(values) != 1:
            listed = ", ".join(repr(value) for value in values[:_NAMED_MAX])
            problem = f"{facts.path} has rows of several partitions: {field.name} is {listed}…"
            return msgspec.structs.replace(facts, problem=problem)
    try:
        values = encode_values(layout.schema, layout.spec, [each[0] for each in found])
    except Invalid as error:
        return msgspec.structs.replace(facts, refused=error.message)
    return msgspec.structs.replace(facts, partition=values)


def build_data_file(facts: FileFacts, schema: Schema, spec: PartitionSpec) -> DataFile:
    """Returns a file as pyiceberg's manifests hold it."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=facts.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*decode_values(schema, spec, facts.partition)),
        record_count=facts.rows,
        file_size_in_bytes=facts.size,
        column_sizes=facts.column_sizes,
        value_counts=facts.value_counts,
        null_value_counts=facts.null_counts,
        nan_value_counts={},
        lower_bounds=facts.lower,
        upper_bounds=facts.upper,
        split_offsets=facts.split_offsets,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
    )
    # Not among the arguments, which would drop it: manifests hold it once for all their files.
    file.spec_id = spec.spec_id
    return file


def _check_columns(schema: Schema, written: pq.ParquetSchema) -> str:
    """Returns what is wrong with the columns of a file, their ids or their types; '' if nothing.

    A session may have settings that make Spark write other types than those of the frame.
    """
    try:
        found = pyarrow_to_schema(written.to_arrow_schema(), format_version=3)
    except ValueError as error:
        return f"columns without their ids: {error}"
    expected = {each: schema.find_column_name(each) for each in schema.field_ids}
    found_names = {each: found.find_column_name(each) for each in found.field_ids}
    if expected != found_names:
        return f"columns {found_names}, which should be {expected}"
    for number, name in expected.items():
        want, have = _plain(schema.find_type(number)), _plain(found.find_type(number))
        if isinstance(want, PrimitiveType) and have != want:
            return f"column {name} is no {want} but {have}"
    for column in map(written.column, range(len(written.names))):
        kind = json.loads(column.logical_type.to_json())
        if kind.get("timeUnit", _MICROS) != _MICROS:
            return f"column {column.path} is in {kind['timeUnit']}, not in {_MICROS}"
    return ""


def _plain(kind: IcebergType) -> IcebergType:
    """Returns the type that a column has in files: a uuid is 16 bytes there."""
    return FixedType(_UUID_BYTES) if isinstance(kind, UUIDType) else kind


def _partition_from_footer(layout: Layout, facts: FileFacts) -> list[list[Any]] | None:
    """Returns partition values by the bounds of columns; None if these do not determine them."""
    columns: list[pa.Array] = []
    for field in layout.spec.fields:
        if isinstance(field.transform, VoidTransform):
            # Its source may be gone.
            columns.append(pa.nulls(1))
            continue
        source = layout.schema.find_field(field.source_id)
        kind, number = source.field_type, source.field_id
        nulls, arrow_type = facts.null_counts.get(number), _ORDERED.get(type(kind))
        if isinstance(field.transform, BucketTransform) or arrow_type is None:
            return None
        if nulls == facts.rows:
            columns.append(pa.nulls(1, arrow_type))
            continue
        ends = [facts.lower.get(number), facts.upper.get(number)]
        if nulls != 0 or None in ends or len(path_of(layout.schema, number)) > 1:
            return None
        values = [int.from_bytes(end or b"", "little", signed=True) for end in ends]
        plain = pa.int32() if isinstance(kind, IntegerType | DateType) else pa.int64()
        columns.append(pa.array(values, plain).cast(arrow_type))
    return values_of(layout.schema, layout.spec, columns)


def _partition_from_rows(layout: Layout, file: pq.ParquetFile) -> list[list[Any]]:
    """Returns all partition values that the rows of a file have."""
    paths = paths_of_sources(layout.schema, layout.spec)
    found: list[list[Any]] = [[] for _ in paths]
    for batch in file.iter_batches(columns=[".".join(path) for path in paths if path]):
        add_partition_values(layout, found, batch, paths)
    return found


def add_partition_values(
    layout: Layout,
    found: list[list[Any]],
    rows: pa.RecordBatch | pa.Table,
    paths: list[tuple[str, ...]],
) -> None:
    """Adds the partition values that some rows have to those that were found before."""
    columns = list(columns_of(rows, paths))
    for known, new in zip(found, values_of(layout.schema, layout.spec, columns), strict=True):
        known.extend(value for value in new if repr(value) not in map(repr, known))


def columns_of(
    batch: pa.RecordBatch | pa.Table, paths: list[tuple[str, ...]]
) -> Iterator[pa.Array | pa.ChunkedArray]:
    """Yields the columns at paths through structs; where a struct is NULL, so is what is in it.

    An empty path is that of a column that is not needed.
    """
    for path in paths:
        if not path:
            yield pa.nulls(batch.num_rows)
            continue
        column = batch.column(path[0])
        for name in path[1:]:
            column = pa.compute.struct_field(column, [name])
        yield column


def column_facts(schema: Schema, files: Sequence[FileFacts]) -> dict[str, ColumnFacts]:
    """Returns the facts of every column for which all files have them."""
    found = {}
    for field in schema.fields:
        if isinstance(field.field_type, PrimitiveType):
            by_file = [_of_file(field, each) for each in files]
            known = [facts for facts in by_file if facts is not None]
            if len(known) == len(files):
                found[field.name] = join_facts(known)
    return found


def join_facts(parts: Sequence[ColumnFacts]) -> ColumnFacts:
    """Returns the facts of a column over several files or writes."""
    return ColumnFacts(
        sum(facts.nulls for facts in parts),
        min((facts.least for facts in parts if facts.least is not None), default=None),
        max((facts.greatest for facts in parts if facts.greatest is not None), default=None),
    )


def _of_file(field: NestedField, file: FileFacts) -> ColumnFacts | None:
    """Returns the facts of a column in a file, None if some are missing."""
    number, kind = field.field_id, field.field_type
    nulls = file.null_counts.get(number) if file.rows else 0
    if nulls is None:
        return None
    if not isinstance(kind, (IntegerType, LongType)) or nulls == file.rows:
        return ColumnFacts(nulls)
    ends = [value_of(kind, each.get(number)) for each in (file.lower, file.upper)]
    return None if None in ends else ColumnFacts(nulls, *ends)
