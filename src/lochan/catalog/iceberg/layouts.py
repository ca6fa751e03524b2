"""Layouts of a table: partition specs and sort orders, checked and added under ids of the catalog.

A spec that partitions in the same way is not stored again. Fields without an id get one: in format
1 ids count up from 1,000 in every spec; in later formats the same transform of the same column has
the same id in all specs, and new ids follow the highest one that was ever assigned. The sort order
0 is "unsorted". A transform that this package does not know is not checked.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.draft import ORDERS, PARTITION_ID_FIRST, SPECS, TableDraft
from lochan.catalog.iceberg.schemas import type_name
from lochan.catalog.iceberg.values import (
    INT_MAX,
    Json,
    find,
    get_int,
    get_numbers,
    get_objects,
    get_text,
)

UNSORTED_ID: Final = 0

_DIRECTIONS: Final = ("asc", "desc")
_NULL_ORDERS: Final = ("nulls-first", "nulls-last")
_VOID: Final = "void"

_WITH_NUMBER: Final = re.compile(r"(bucket|truncate)\[([0-9]{1,10})\]")

_TIMESTAMPS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES: Final = _TIMESTAMPS | {"date"}
_NUMBERS: Final = frozenset({"int", "long", "decimal"})
_BYTES: Final = frozenset({"string", "binary"})

_SOURCE_TYPES: Final[dict[str, frozenset[str]]] = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
    "truncate": _NUMBERS | _BYTES,
    "bucket": _NUMBERS | _BYTES | _DATES | {"time", "fixed", "uuid"},
}
_KNOWN_TYPES: Final = frozenset().union(*_SOURCE_TYPES.values()) | {"boolean", "float", "double"}
_NO_IDENTITY: Final = frozenset({"variant", "geometry", "geography"})


def place_spec(draft: TableDraft, spec: Json, label: str) -> None:
    """Adds a partition spec, or finds an equal one; in both cases it is the last added one."""

    def layout(spec: Json) -> list[tuple[object, ...]]:
        return [
            (*_transformed(each, label), get_text(each, "name", label))
            for each in get_objects(spec, "fields", label)
        ]

    if draft.find_equal(SPECS, layout(spec), layout):
        return
    columns = draft.current_columns(label)
    fields = get_objects(spec, "fields", label)
    check_names(fields, columns, label)
    check_sources(fields, columns, label)
    fields = _with_ids(draft, fields, label)
    draft.add(SPECS, {**spec, "fields": fields}, 0, label)
    ids = [each["field-id"] for each in fields]
    draft.metadata["last-partition-id"] = max([draft.metadata["last-partition-id"], *ids])


def sources_of(field: Json, label: str) -> tuple[int, ...]:
    """Returns the source columns of a partition or sort field; several since format 3."""
    if field.get("source-id") is None and field.get("source-ids") is not None:
        several = tuple(get_numbers(field, "source-ids", label, INT_MAX))
        if not several:
            raise Invalid(f"{label}: 'source-ids' is empty")
        return several
    return (get_int(field, "source-id", label),)


def check_names(fields: list[Json], columns: dict[int, Column], label: str) -> None:
    """Raises Invalid if a partition field has the name of another field or of another column.

    Readers check this in all specs, not only in the default one.
    """
    by_path = {each.path: each.id for each in columns.values()}
    names: set[str] = set()
    for field in fields:
        name = get_text(field, "name", f"{label}: a partition field")
        sources = sources_of(field, f"{label}: {name!r}")
        if name in names:
            raise Invalid(f"{label}: Cannot use partition name more than once: {name}")
        names.add(name)
        named = by_path.get(name)
        if named is not None and named not in sources and columns.keys() & sources:
            raise Invalid(
                f"{label}: Cannot create identity partition sourced from different field in "
                f"schema: {name}"
            )


def check_sources(fields: list[Json], columns: dict[int, Column], label: str) -> None:
    """Raises Invalid unless every partition field can be computed from the columns."""
    for field in fields:
        transform = get_text(field, "transform", f"{label}: a partition field")
        if _normal(transform) == _VOID:
            # Its source column may have been removed.
            continue
        for source in sources_of(field, label):
            _check_source(columns, source, transform, label)


def _check_source(columns: dict[int, Column], source: int, transform: str, label: str) -> None:
    column = columns.get(source)
    if column is None:
        raise Invalid(f"{label}: Cannot find source column for partition field: {source}")
    _check_transform(transform, column, "partition")
    for parent in column.parents:
        kind = columns[parent].type
        if type(kind) is not dict or kind.get("type") != "struct":
            raise Invalid(f"{label}: Invalid partition field parent: {columns[parent].path}")


def _transformed(field: Json, label: str) -> tuple[tuple[int, ...], str]:
    """Returns the columns and the transform of a partition or sort field."""
    return sources_of(field, label), _normal(get_text(field, "transform", label))


def _with_ids(draft: TableDraft, fields: list[Json], label: str) -> list[Json]:
    given = [find(get_int, each, "field-id", label) for each in fields]
    if draft.format_version == 1:
        required = list(range(PARTITION_ID_FIRST, PARTITION_ID_FIRST + len(fields)))
        if any(number not in (None, other) for number, other in zip(given, required, strict=True)):
            raise Invalid(f"{label}: Spec does not use sequential IDs that are required in v1")
        return [{**each, "field-id": number} for each, number in zip(fields, required, strict=True)]
    used = {
        _transformed(field, label): get_int(field, "field-id", label)
        for spec in draft.metadata["partition-specs"]
        for field in get_objects(spec, "fields", label)
    }
    taken = {number for number in given if number is not None}
    if len(taken) != sum(number is not None for number in given):
        raise Invalid(f"{label}: two partition fields have the same id")
    last = max([draft.metadata["last-partition-id"], *taken])
    placed = []
    for field, number in zip(fields, given, strict=True):
        if number is None:
            number = used.get(_transformed(field, label))
            if number is None or number in taken:
                last = number = last + 1
            taken.add(number)
        if not 0 <= number <= INT_MAX:
            raise Invalid(f"{label}: {number} cannot be the id of a partition field")
        placed.append({**field, "field-id": number})
    return placed


def place_order(draft: TableDraft, order: Json, label: str) -> None:
    """Adds a sort order, or finds an equal one; in both cases it is the last added one."""

    def sort_keys(order: Json) -> list[tuple[object, ...]]:
        return [
            (
                *_transformed(each, label),
                _one_of(each, "direction", _DIRECTIONS, label),
                _one_of(each, "null-order", _NULL_ORDERS, label),
            )
            for each in get_objects(order, "fields", label)
        ]

    if draft.find_equal(ORDERS, sort_keys(order), sort_keys):
        return
    fields = get_objects(order, "fields", label)
    if fields:
        check_order(fields, draft.current_columns(label), label)
        draft.add(ORDERS, order, UNSORTED_ID + 1, label)
    else:
        draft.metadata["sort-orders"].append({**order, "order-id": UNSORTED_ID})
        draft.last_added[ORDERS.name] = UNSORTED_ID
        draft.changed = True


def check_order(fields: list[Json], columns: dict[int, Column], label: str) -> None:
    """Raises Invalid unless rows with these columns can be sorted by the fields."""
    for field in fields:
        transform = get_text(field, "transform", f"{label}: a sort field")
        for source in sources_of(field, f"{label}: a sort field"):
            column = columns.get(source)
            if column is None:
                raise Invalid(f"{label}: Cannot find source column for sort field: {source}")
            _check_transform(transform, column, "sort")


def _one_of(field: Json, name: str, words: tuple[str, ...], label: str) -> str:
    word = get_text(field, name, f"{label}: a sort field").lower()
    if word not in words:
        raise Invalid(f"{label}: {name!r} of a sort field must be one of {', '.join(words)}")
    return word


def _normal(text: str) -> str:
    """Returns a transform in the form that is compared."""
    return text.strip().lower()


def _check_transform(transform: str, column: Column, use: str) -> None:
    """Raises Invalid if the transform does not support the type of a column."""
    text = _normal(transform)
    name = text
    numbered = _WITH_NUMBER.fullmatch(text)
    if numbered:
        name = numbered[1]
        if not 0 < int(numbered[2]) <= INT_MAX:
            raise Invalid(f"{transform}: the number must be between 1 and {INT_MAX}")
    if type(column.type) is dict:
        raise Invalid(f"Cannot {use} by non-primitive source field: {column.path}")
    kind = type_name(column.type)
    source_types = _SOURCE_TYPES.get(name)
    if source_types is None:
        refused = name == "identity" and kind in _NO_IDENTITY
    else:
        # A type that this package does not know may be supported.
        refused = kind not in source_types and kind in _KNOWN_TYPES | _NO_IDENTITY
    if refused:
        raise Invalid(f"Invalid source type {column.type} for transform: {text}")
