"""Schemas: compared, checked, and added under an id that the catalog assigns.

A schema that exists already is not stored again: the one that has the same columns in the same
order, with the same ids, is found whatever id the writer gave to its own.
"""

from __future__ import annotations

from typing import Any, Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column, columns_of, highest_id, is_nested
from lochan.catalog.iceberg.draft import SCHEMAS, Draft
from lochan.catalog.iceberg.values import (
    INT_MAX,
    Json,
    find,
    get_int,
    get_numbers,
    without_names,
)

# Higher ids belong to columns that readers add, such as the position of a row in its file.
_COLUMN_ID_MAX: Final = 2_147_483_447

_V3_TYPES: Final = ("timestamp_ns", "timestamptz_ns", "variant", "unknown")
_V3_TYPES_WITH_ARGUMENTS: Final = ("geometry", "geography")

_SCHEMA_NAMES: Final = frozenset({"type", "fields", "schema-id", "identifier-field-ids"})
_NESTED_NAMES: Final = frozenset(
    {
        "type",
        "fields",
        "element-id",
        "element",
        "element-required",
        "key-id",
        "key",
        "value-id",
        "value",
        "value-required",
    }
)


def place_schema(draft: Draft, schema: Json, label: str) -> None:
    """Adds a schema, or finds an equal one; in both cases it is the last added one."""
    schema = as_struct(schema, label)
    columns = check_schema(schema, draft.format_version, label)
    # Only tables count the ids of their columns.
    if draft.format_version is not None and highest_id(columns) > draft.metadata["last-column-id"]:
        draft.metadata["last-column-id"] = highest_id(columns)
        draft.changed = True
    equal = find_equal(draft.metadata["schemas"], schema, label)
    if equal is None:
        draft.add(SCHEMAS, schema, 0, label)
    else:
        draft.last_added[SCHEMAS.name] = equal


def as_struct(schema: Json, label: str) -> Json:
    """Returns a schema with its type, which must be a struct."""
    if schema.get("type", "struct") != "struct":
        raise Invalid(f"{label}: a schema must be of type 'struct'")
    return {"type": "struct", **schema}


def check_schema(schema: Json, format_version: int | None, label: str) -> list[Column]:
    """Returns the columns of a schema; Invalid if clients could not read it.

    The format version is that of the draft.
    """
    columns = columns_of(schema, label)
    for column in columns:
        if not 0 <= column.id <= _COLUMN_ID_MAX:
            raise Invalid(f"{label}: {column.path!r} has an id that is out of range")
        if format_version is not None and format_version < 3:
            _check_before_v3(column, format_version, label)
    _check_identifiers(schema, columns, label)
    return columns


def type_name(kind: Any) -> str:
    """Returns the name of a type without its arguments: `decimal(9, 2)` is a `decimal`."""
    name = kind["type"] if isinstance(kind, dict) else kind
    return str(name).partition("(")[0].partition("[")[0].strip().lower()


def _check_before_v3(column: Column, version: int, label: str) -> None:
    name = type_name(column.type)
    if name in _V3_TYPES or name in _V3_TYPES_WITH_ARGUMENTS:
        raise Invalid(
            f"{label}: Invalid schema for v{version}: Invalid type for {column.path}: "
            f"{name} is not supported until v3"
        )
    if "initial-default" in column.more:
        raise Invalid(
            f"{label}: Invalid schema for v{version}: Invalid initial default for {column.path}: "
            "non-null default is not supported until v3"
        )


def identifiers_of(schema: Json, label: str) -> list[int]:
    """Returns the ids of the identifier columns, which identify a row."""
    return find(get_numbers, schema, "identifier-field-ids", label, high=INT_MAX) or []


def _check_identifiers(schema: Json, columns: list[Column], label: str) -> None:
    by_id = {each.id: each for each in columns}
    for number in identifiers_of(schema, label):
        column = by_id.get(number)
        cannot = f"{label}: Cannot add field {number} as an identifier field:"
        if column is None:
            raise Invalid(f"{cannot} field does not exist")
        if type(column.type) is dict:
            raise Invalid(f"{cannot} not a primitive type field")
        if not column.required:
            raise Invalid(f"{cannot} not a required field")
        if type_name(column.type) in {"float", "double"}:
            raise Invalid(f"{cannot} must not be float or double field")
        for parent in column.parents:
            if type_name(by_id[parent].type) != "struct":
                raise Invalid(f"{cannot} must not be nested in a list or a map")
            if not by_id[parent].required:
                raise Invalid(f"{cannot} must not be nested in an optional field")


def find_equal(schemas: list[Json], schema: Json, label: str) -> int | None:
    """Returns the id of a schema that differs only in its id, None if there is none."""
    shape = None
    for each in schemas:
        if _top_ids(each) != _top_ids(schema):
            continue
        shape = shape or _shape(schema, label)
        number = get_int(each, "schema-id", label)
        if _shape(as_struct(each, label), f"schema {number}") == shape:
            return number
    return None


def _top_ids(schema: Json) -> list[Any]:
    # A table may have a thousand schemas: this comparison excludes most of them.
    fields = schema.get("fields")
    if type(fields) is not list:
        return []
    return [each.get("id") if type(each) is dict else None for each in fields]


def _shape(schema: Json, label: str) -> tuple[Any, ...]:
    """Returns everything that counts in a comparison of two schemas."""
    columns = [
        (each.id, each.path, each.required, _type_shape(each.type), each.more)
        for each in columns_of(schema, label)
    ]
    more = without_names(schema, _SCHEMA_NAMES)
    return columns, frozenset(identifiers_of(schema, label)), more


def _type_shape(kind: Any) -> Any:
    if is_nested(kind):
        return kind["type"], without_names(kind, _NESTED_NAMES)
    # `decimal(9,2)` and `decimal(9, 2)` are the same type.
    return kind.replace(" ", "").lower() if isinstance(kind, str) else kind
