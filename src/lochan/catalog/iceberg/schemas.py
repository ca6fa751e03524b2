"""Schemas: added under an id of ours, chosen as the current one, removed.

A schema that is already there is not stored again: the one that has the same columns in the same
order, with the same ids, is found whatever id the writer gave to its own.
"""

from __future__ import annotations

from typing import Any, Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column, columns_of, highest_id, is_nested
from lochan.catalog.iceberg.draft import Draft, chosen_id, find_by_id, next_id
from lochan.catalog.iceberg.values import (
    Json,
    get_int,
    get_ints,
    get_object,
    without_names,
)

# Ids above are those of columns that readers make up, such as a row's position in its file.
_COLUMN_ID_MAX: Final = 2_147_483_447

_SINCE_THREE: Final = ("timestamp_ns", "timestamptz_ns", "variant", "unknown")
_SINCE_THREE_WITH_ARGUMENTS: Final = ("geometry", "geography")

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


def add_schema(draft: Draft, update: Json) -> None:
    """Applies `add-schema`."""
    what = "add-schema"
    place_schema(draft, get_object(update, "schema", what), what)


def place_schema(draft: Draft, schema: Json, what: str) -> None:
    """Adds a schema, or finds the same one; either is then the one added last."""
    schema = as_struct(schema, what)
    columns = check_schema(schema, draft.format_version, what)
    metadata = draft.metadata
    last_column_id = max(metadata["last-column-id"], highest_id(columns))
    if last_column_id != metadata["last-column-id"]:
        metadata["last-column-id"] = last_column_id
        draft.changed = True
    same = find_same(metadata["schemas"], schema, what)
    if same is None:
        same = next_id(metadata["schemas"], "schema-id", 0, what)
        metadata["schemas"].append({**schema, "schema-id": same})
        draft.changed = True
    draft.last_schema_id = same


def set_current_schema(draft: Draft, update: Json) -> None:
    """Applies `set-current-schema`."""
    what = "set-current-schema"
    number = chosen_id(get_int(update, "schema-id", what), draft.last_schema_id, what)
    if find_by_id(draft.metadata["schemas"], "schema-id", number) is None:
        raise Invalid(f"Cannot set current schema to unknown schema: {number}")
    if draft.metadata["current-schema-id"] != number:
        draft.metadata["current-schema-id"] = number
        draft.changed = draft.relaid = True


def remove_schemas(draft: Draft, update: Json) -> None:
    """Applies `remove-schemas`; ids that nobody has are no error."""
    gone = set(get_ints(update, "schema-ids", "remove-schemas"))
    if draft.metadata["current-schema-id"] in gone:
        raise Invalid("Cannot remove the current schema")
    if gone:
        draft.metadata["schemas"] = [
            each for each in draft.metadata["schemas"] if each.get("schema-id") not in gone
        ]
        draft.changed = True


def as_struct(schema: Json, what: str) -> Json:
    """Returns a schema that says what it is: a struct."""
    if schema.get("type", "struct") != "struct":
        raise Invalid(f"{what}: a schema must be of type 'struct'")
    return {"type": "struct", **schema}


def check_schema(schema: Json, format_version: int | None, what: str) -> list[Column]:
    """Returns the columns of a schema, or raises Invalid if no client could read it.

    Views have no format that matters to types: None.
    """
    columns = columns_of(schema, what)
    for column in columns:
        if not 0 <= column.id <= _COLUMN_ID_MAX:
            raise Invalid(f"{what}: {column.path!r} has an id that no column may have")
        if format_version is not None and format_version < 3:
            _check_before_three(column, format_version, what)
    _check_identifiers(schema, columns, what)
    return columns


def type_name(kind: Any) -> str:
    """Returns the name of a type without its arguments: `decimal(9, 2)` is a `decimal`."""
    name = kind["type"] if isinstance(kind, dict) else kind
    return str(name).partition("(")[0].partition("[")[0].strip().lower()


def _check_before_three(column: Column, version: int, what: str) -> None:
    name = type_name(column.type)
    if name in _SINCE_THREE or name in _SINCE_THREE_WITH_ARGUMENTS:
        raise Invalid(
            f"{what}: Invalid schema for v{version}: Invalid type for {column.path}: "
            f"{name} is not supported until v3"
        )
    if "initial-default" in column.more:
        raise Invalid(
            f"{what}: Invalid schema for v{version}: Invalid initial default for {column.path}: "
            "non-null default is not supported until v3"
        )


def identifiers_of(schema: Json, what: str) -> list[int]:
    """Returns the ids of the columns that tell rows apart."""
    if schema.get("identifier-field-ids") is None:
        return []
    return get_ints(schema, "identifier-field-ids", what)


def _check_identifiers(schema: Json, columns: list[Column], what: str) -> None:
    by_id = {each.id: each for each in columns}
    for number in identifiers_of(schema, what):
        column = by_id.get(number)
        cannot = f"{what}: Cannot add field {number} as an identifier field:"
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


def find_same(among: list[Json], schema: Json, what: str) -> int | None:
    """Returns the id of the schema that is the same but for its id, None where there is none."""
    shape = None
    for each in among:
        if _top_ids(each) != _top_ids(schema):
            continue
        shape = shape or _shape(schema, what)
        number = get_int(each, "schema-id", what)
        if _shape(as_struct(each, what), f"schema {number}") == shape:
            return number
    return None


def _top_ids(schema: Json) -> list[Any]:
    # A table may have a thousand schemas: most of them are told apart by this alone.
    fields = schema.get("fields")
    if type(fields) is not list:
        return []
    return [each.get("id") if type(each) is dict else None for each in fields]


def _shape(schema: Json, what: str) -> tuple[Any, ...]:
    """Returns what makes a schema, flat, so that two of them can be compared."""
    columns = [
        (each.id, each.path, each.required, _type_shape(each.type), each.more)
        for each in columns_of(schema, what)
    ]
    more = without_names(schema, _SCHEMA_NAMES)
    return columns, frozenset(identifiers_of(schema, what)), more


def _type_shape(kind: Any) -> Any:
    if is_nested(kind):
        return kind["type"], without_names(kind, _NESTED_NAMES)
    # `decimal(9,2)` and `decimal(9, 2)` are the same type.
    return kind.replace(" ", "").lower() if isinstance(kind, str) else kind
