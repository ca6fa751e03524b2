"""Metadata of a table or view while updates are applied, and what the request did so far.

A draft owns its top-level lists and objects and may change them; whatever they contain is shared
with the input metadata, and is only ever replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column, columns_of
from lochan.catalog.iceberg.values import INT_MAX, Json, get_int, get_long, get_numbers, get_object

FORMATS: Final = (1, 2, 3)
LAST_ADDED: Final = -1
MAIN: Final = "main"
PARTITION_ID_FIRST: Final = 1_000


class IdList(msgspec.Struct, frozen=True):
    """A list in metadata whose elements have ids, and the field that chooses one of them."""

    name: str
    id_field: str
    chosen_field: str
    chosen: str
    """How messages call the chosen element."""
    element: str
    """How messages call an element."""


SCHEMAS: Final = IdList("schemas", "schema-id", "current-schema-id", "current schema", "schema")
SPECS: Final = IdList(
    "partition-specs", "spec-id", "default-spec-id", "default partition spec", "spec"
)
ORDERS: Final = IdList(
    "sort-orders", "order-id", "default-sort-order-id", "default sort order", "sort order"
)
VERSIONS: Final = IdList(
    "versions", "version-id", "current-version-id", "current version", "version"
)


class Draft:
    """Metadata under change, and what this request has added."""

    def __init__(self, metadata: Json, now_ms: int, *, is_new: bool) -> None:
        self.metadata = metadata
        self.is_new = is_new
        self.now_ms = now_ms
        # Whether anything changed, and whether another schema, spec or order was chosen.
        self.changed = is_new
        self.choice_changed = is_new
        # The id that -1 means in later updates, by the name of the list.
        self.last_added: dict[str, int | None] = {}

    @property
    def format_version(self) -> int | None:
        """The version of a table's format; None for a view, whose format restricts no types."""
        return None

    def find(self, ids: IdList, number: int) -> Json | None:
        """Returns the element with an id, or None."""
        return find_by_id(self.metadata, ids, number)

    def find_equal(self, ids: IdList, shape: Any, shape_of: Callable[[Json], Any]) -> bool:
        """Returns whether an element has the same shape; if so, -1 means that element."""
        for each in self.metadata[ids.name]:
            if shape_of(each) == shape:
                self.last_added[ids.name] = get_int(each, ids.id_field, ids.name)
                return True
        return False

    def add(self, ids: IdList, element: Json, first: int, label: str) -> int:
        """Adds an element under the next free id, at least `first`; returns the id."""
        elements = self.metadata[ids.name]
        taken = (get_int(each, ids.id_field, label) for each in elements)
        number = max(first, max(taken, default=first - 1) + 1)
        if number > INT_MAX:
            raise Invalid(f"{label}: there is no id left after {INT_MAX}")
        elements.append({**element, ids.id_field: number})
        self.last_added[ids.name] = number
        self.changed = True
        return number

    def resolve_id(self, ids: IdList, number: int, label: str) -> int:
        """Returns the id that an update means: the last added one for -1, else the number."""
        if number != LAST_ADDED:
            return number
        last = self.last_added.get(ids.name)
        if last is None:
            raise Invalid(f"{label}: -1 is the one added last in this request, and none was added")
        return last


class TableDraft(Draft):
    """The metadata of one table under change."""

    def __init__(self, metadata: Json, now_ms: int, *, is_new: bool) -> None:
        super().__init__(metadata, now_ms, is_new=is_new)
        self.added_snapshots: set[int] = set()
        self.removed_snapshots = False

    @property
    def format_version(self) -> int:
        """The version of the table's format now, upgrades of this request included."""
        version: int = self.metadata["format-version"]
        return version

    @cached_property
    def snapshots(self) -> dict[int, Json]:
        """The snapshots by id; what adds or removes snapshots changes it, too."""
        listed = self.metadata["snapshots"]
        return {get_long(each, "snapshot-id", "table metadata"): each for each in listed}

    def current_columns(self, label: str) -> dict[int, Column]:
        """Returns the columns of the current schema by id."""
        current = self.metadata["current-schema-id"]
        schema = self.find(SCHEMAS, current)
        if schema is None:
            raise Invalid(f"{label}: the table has no current schema")
        return {each.id: each for each in columns_of(schema, f"schema {current}")}


def find_by_id(metadata: Json, ids: IdList, number: int) -> Json | None:
    """Returns the element of a list with an id, or None."""
    return next((each for each in metadata[ids.name] if each.get(ids.id_field) == number), None)


def add(draft: Draft, update: Json, label: str, *, field: str, place: Callable[..., None]) -> None:
    """Applies an update that adds the schema, partition spec or sort order in a field."""
    place(draft, get_object(update, field, label), label)


def choose(draft: Draft, update: Json, label: str, *, ids: IdList, field: str) -> None:
    """Applies an update that chooses the current schema or version, the default spec or order."""
    number = draft.resolve_id(ids, get_int(update, field, label), label)
    if draft.find(ids, number) is None:
        raise Invalid(f"Cannot set {ids.chosen} to unknown {ids.element}: {number}")
    if draft.metadata[ids.chosen_field] != number:
        draft.metadata[ids.chosen_field] = number
        draft.changed = draft.choice_changed = True


def remove(draft: Draft, update: Json, label: str, *, ids: IdList, field: str) -> None:
    """Applies an update that removes schemas or partition specs; unknown ids are no error."""
    removed = set(get_numbers(update, field, label, INT_MAX))
    if draft.metadata[ids.chosen_field] in removed:
        raise Invalid(f"Cannot remove the {ids.chosen}")
    if removed:
        draft.metadata[ids.name] = [
            each for each in draft.metadata[ids.name] if each.get(ids.id_field) not in removed
        ]
        draft.changed = True
