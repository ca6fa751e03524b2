"""What the files of a write say of its columns; it was counted anyway, so that it costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, PrimitiveType

from lochan.spark.read.domains import value_of
from lochan.spark.write.bounds import FileFacts


class ColumnFacts(msgspec.Struct, frozen=True):
    """How many rows have no value in a column; of whole numbers also the least and the greatest.

    Both are None where there is no value, and where there are others than whole numbers.
    """

    nulls: int
    least: int | None = None
    greatest: int | None = None


def column_facts(schema: Schema, files: Sequence[FileFacts]) -> dict[str, ColumnFacts]:
    """Returns the facts of every column of which all files tell them; others are left out."""
    found = {}
    for field in schema.fields:
        if isinstance(field.field_type, PrimitiveType):
            told = [_of_file(field, each) for each in files]
            known = [one for one in told if one is not None]
            if len(known) == len(files):
                found[field.name] = join_facts(known)
    return found


def join_facts(parts: Sequence[ColumnFacts]) -> ColumnFacts:
    """Returns the facts of one column in several places as those of one place."""
    return ColumnFacts(
        sum(one.nulls for one in parts),
        min((one.least for one in parts if one.least is not None), default=None),
        max((one.greatest for one in parts if one.greatest is not None), default=None),
    )


def _of_file(field: NestedField, file: FileFacts) -> ColumnFacts | None:
    """Returns what a file tells of a column, None if that is not everything."""
    number, kind = field.field_id, field.field_type
    nulls = file.null_counts.get(number) if file.rows else 0
    if nulls is None:
        return None
    if not isinstance(kind, (IntegerType, LongType)) or nulls == file.rows:
        return ColumnFacts(nulls)
    ends = [value_of(kind, each.get(number)) for each in (file.lower, file.upper)]
    return None if None in ends else ColumnFacts(nulls, *ends)
