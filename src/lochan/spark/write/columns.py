"""Facts of the columns of a write, from the statistics that its files have anyway."""

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
