"""Sort orders: checked, and added under an id that the catalog assigns; 0 is "unsorted"."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.draft import ORDERS, TableDraft
from lochan.catalog.iceberg.specs import check_transform, normal_transform, sources_of
from lochan.catalog.iceberg.values import Json, get_objects, get_text

UNSORTED_ID: Final = 0

_DIRECTIONS: Final = ("asc", "desc")
_NULL_ORDERS: Final = ("nulls-first", "nulls-last")


def place_order(draft: TableDraft, order: Json, label: str) -> None:
    """Adds a sort order, or finds an equal one; in both cases it is the last added one."""

    def sort_keys(order: Json) -> list[tuple[object, ...]]:
        return [
            (
                sources_of(each, label),
                normal_transform(get_text(each, "transform", label)),
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
            check_transform(transform, column, "sort")


def _one_of(field: Json, name: str, words: tuple[str, ...], label: str) -> str:
    word = get_text(field, name, f"{label}: a sort field").lower()
    if word not in words:
        raise Invalid(f"{label}: {name!r} of a sort field must be one of {', '.join(words)}")
    return word
