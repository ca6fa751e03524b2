"""Columns of a schema, nested ones included, walked without recursion.

A column is a field of a struct, the element of a list, or the key or value of a map: each has an
id of its own. A type that this package does not know is a leaf and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.iceberg import ICEBERG_COLUMNS_MAX, ICEBERG_PATHS_CHARACTERS_MAX
from lochan.catalog.iceberg.values import (
    INT_MAX,
    Json,
    as_object,
    find,
    get_flag,
    get_int,
    get_objects,
    get_text,
    without_names,
)

_NESTED: Final = ("struct", "list", "map")
_FIELD_NAMES: Final = frozenset({"id", "name", "type", "required"})


class Slot(msgspec.Struct, frozen=True):
    """One child of a nested type: the fields with its id, its type and whether it is required."""

    owner: Json
    name: str
    id_field: str
    type_field: str
    required_field: str | None


class Column(msgspec.Struct, frozen=True):
    """One column with the ids of its parents, outermost first.

    `type` is a name or an object; `more` are other fields that are not null, such as defaults and
    the documentation.
    """

    id: int
    path: str
    required: bool
    type: Any
    parents: tuple[int, ...]
    more: Json


def slots_of(nested: Json, label: str) -> list[Slot]:
    """Returns the children of a struct, list or map in their order."""
    kind = nested.get("type")
    if kind == "struct":
        return [
            Slot(each, get_text(each, "name", f"{label}: a column"), "id", "type", "required")
            for each in get_objects(nested, "fields", label)
        ]
    if kind == "list":
        return [Slot(nested, "element", "element-id", "element", "element-required")]
    return [
        Slot(nested, "key", "key-id", "key", None),
        Slot(nested, "value", "value-id", "value", "value-required"),
    ]


def type_of(slot: Slot, label: str) -> str | Json:
    """Returns the type in a slot: the name of a simple one, or an object."""
    value = slot.owner.get(slot.type_field)
    if type(value) is str and value:
        return value
    if type(value) is not dict:
        raise Invalid(
            f"{label}: the type of {slot.name!r} must be a name or an object, not "
            f"{type(value).__name__}"
        )
    as_object(value, f"{label}: the type of {slot.name!r}")
    get_text(value, "type", f"{label}: the type of {slot.name!r}")
    return value


def is_nested(kind: str | Json) -> bool:
    """Returns whether a type is a struct, list or map, which has columns of its own."""
    return type(kind) is dict and kind.get("type") in _NESTED


def columns_of(schema: Json, label: str) -> list[Column]:
    """Returns all columns of a schema, parents first; ids are unique, and so are full names."""
    found: list[Column] = []
    ids: set[int] = set()
    paths: set[str] = set()
    characters = 0
    for column in _walk(schema, label):
        characters += len(column.path)
        if characters > ICEBERG_PATHS_CHARACTERS_MAX:
            raise TooLarge(f"{label}: the names of columns are too long")
        if column.id in ids:
            raise Invalid(f"{label}: two columns have the id {column.id}")
        if column.path in paths:
            raise Invalid(f"{label}: two columns have the name {column.path!r}")
        if len(found) >= ICEBERG_COLUMNS_MAX:
            raise TooLarge(f"{label}: more than {ICEBERG_COLUMNS_MAX} columns")
        ids.add(column.id)
        paths.add(column.path)
        found.append(column)
    return found


def _walk(schema: Json, label: str) -> Iterator[Column]:
    waiting: list[tuple[Json, str, tuple[int, ...]]] = [(schema, "", ())]
    while waiting:
        nested, above, parents = waiting.pop()
        inside = []
        for slot in slots_of(nested, label):
            kind = type_of(slot, label)
            number = get_int(slot.owner, slot.id_field, f"{label}: {slot.name!r}")
            required = slot.required_field is None or get_flag(
                slot.owner, slot.required_field, f"{label}: {slot.name!r}"
            )
            path = f"{above}.{slot.name}" if above else slot.name
            # Other fields of a list or map belong to the type, not to its element, key or value.
            more = without_names(slot.owner, _FIELD_NAMES) if slot.type_field == "type" else {}
            yield Column(number, path, required, kind, parents, more)
            if is_nested(kind):
                inside.append((as_object(kind, label), path, (*parents, number)))
        waiting += reversed(inside)


def with_fresh_ids(schema: Json, label: str) -> tuple[Json, dict[int, int | None], int]:
    """Returns the schema with ids counted from one, the new id of each old one, and the last id.

    The children of one nested type get their ids together, before those nested in them; that is
    the order of the reference implementation, which clients expect. An old id of several columns
    maps to None, because it is ambiguous.
    """
    fresh = dict(schema)
    renamed: dict[int, int | None] = {}
    last = 0
    waiting = [fresh]
    while waiting:
        nested = waiting.pop()
        if nested.get("type") == "struct":
            nested["fields"] = [dict(each) for each in get_objects(nested, "fields", label)]
        inside = []
        for slot in slots_of(nested, label):
            last += 1
            if last > ICEBERG_COLUMNS_MAX:
                raise TooLarge(f"{label}: more than {ICEBERG_COLUMNS_MAX} columns")
            old = find(get_int, slot.owner, slot.id_field, f"{label}: {slot.name!r}")
            if old is not None:
                renamed[old] = None if old in renamed else last
            slot.owner[slot.id_field] = last
            kind = type_of(slot, label)
            if is_nested(kind):
                own = dict(as_object(kind, label))
                slot.owner[slot.type_field] = own
                inside.append(own)
        waiting += reversed(inside)
    return fresh, renamed, last


def renamed_id(renamed: dict[int, int | None], old: int, label: str) -> int:
    """Returns the new id of the column that had an old id."""
    found = renamed.get(old)
    if found is None:
        reason = "several columns have" if old in renamed else "no column has"
        raise Invalid(f"{label}: {reason} the id {old}")
    return found


def highest_id(columns: list[Column]) -> int:
    """Returns the highest id of a schema's columns, 0 if it has none."""
    highest = max((each.id for each in columns), default=0)
    return min(highest, INT_MAX)
