"""One file of rows, read by pyarrow in an executor and given the columns of its table.

These are PyIceberg's parts, put together anew: its own scan takes a list or a map of structs that
is NULL for an empty one, and asks a file by a filter that the file's own types cannot answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

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
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    _combine_positional_deletes,
    _get_column_projection_values,
    _get_file_format,
    _read_all_delete_files,
    expression_to_pyarrow,
)
from pyiceberg.schema import Schema, prune_columns, visit_with_partner
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DateType, IntegerType, ListType, LongType, MapType, StringType

from lochan.spark.read.filters import Constant, Junction, Leaf, Negation, Node, Unread, fold
from lochan.spark.read.footers import held_schema

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
    checked = fold(condition, lambda leaf: _comparison(leaf, schema, held), _combined)
    if isinstance(checked, AlwaysTrue):
        return None
    return expression_to_pyarrow(bind(held, checked, case_sensitive=True), held)


def _combined(node: Negation | Junction, parts: list[BooleanExpression]) -> BooleanExpression:
    # Of the opposite of a condition that is known in part nothing is known.
    if isinstance(node, Negation):
        return AlwaysTrue()
    return And(*parts) if node.is_and else Or(*parts)


def _comparison(leaf: Unread | Constant | Leaf, schema: Schema, held: Schema) -> BooleanExpression:
    """Returns a comparison by the name that a column has in a file; AlwaysTrue if there is none."""
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
