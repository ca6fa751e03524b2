"""Names of columns and of fields inside structs, as Spark takes them."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def field_paths(schema: Schema) -> Mapping[int, tuple[str, ...]]:
    """Returns the path of every field that is reached through structs alone, by id."""
    paths: dict[int, tuple[str, ...]] = {}
    waiting: list[tuple[tuple[str, ...], iceberg.NestedField]]
    waiting = [((), field) for field in schema.fields]
    while waiting:
        above, field = waiting.pop()
        path = (*above, field.name)
        paths[field.field_id] = path
        if isinstance(field.field_type, iceberg.StructType):
            waiting.extend((path, inner) for inner in field.field_type.fields)
    return paths


def column_at(path: tuple[str, ...]) -> Column:
    """Returns the column at a path; names may contain dots and quotes."""
    column = F.col(quoted(path[0]))
    for name in path[1:]:
        column = column.getField(name)
    return column


def quoted(name: str) -> str:
    """Returns a name in backticks, which Spark takes literally."""
    return "`" + name.replace("`", "``") + "`"
