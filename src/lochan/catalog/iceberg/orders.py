"""Sort orders: checked, and added under an id that the catalog assigns; 0 is "unsorted"."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.draft import ORDERS, TableDraft
from lochan.catalog.iceberg.specs import sources_of
from lochan.catalog.iceberg.transforms import check_transform, normal_transform
from lochan.catalog.iceberg.values import Json, get_object, get_objects, get_text

UNSORTED_ID: Final = 0

_DIRECTIONS: Final = ("asc", "desc")
_NULL_ORDERS: Final = ("nulls-first", "nulls-last")


def add_order(draft: TableDraft, update: Json, what: str) -> None:
    """Applies `add-sort-order`."""
    place_order(draft, get_object(update, "sort-order", what), what)


def place_order(draft: TableDraft, order: Json, what: str) -> None:
    """Adds a sort order, or finds an equal one; in both cases it is the last added one."""

    def sort_keys(order: Json) -> list[tuple[object, ...]]:
        return [
            (
                sources_of(each, what),
                normal_transform(get_text(each, "transform", what)),
                _one_of(each, "direction", _DIRECTIONS, what),
                _one_of(each, "null-order", _NULL_ORDERS, what),
            )
            for each in get_objects(order, "fields", what)
        ]

    if draft.find_equal(ORDERS, sort_keys(order), sort_keys):
        return
    fields = get_objects(order, "fields", what)
    if fields:
        check_order(fields, draft.current_columns(what), what)
        draft.add(ORDERS, order, UNSORTED_ID + 1, what)
    else:
        draft.metadata["sort-orders"].append({**order, "order-id": UNSORTED_ID})
        draft.last_added[ORDERS.name] = UNSORTED_ID
        draft.changed = True


def check_order(fields: list[Json], columns: dict[int, Column], what: str) -> None:
    """Raises Invalid unless rows with these columns can be sorted by the fields."""
    for field in fields:
        transform = get_text(field, "transform", f"{what}: a sort field")
        for source in sources_of(field, f"{what}: a sort field"):
            column = columns.get(source)
            if column is None:
                raise Invalid(f"{what}: Cannot find source column for sort field: {source}")
            check_transform(transform, column, "sort")


def _one_of(field: Json, name: str, words: tuple[str, ...], what: str) -> str:
    word = get_text(field, name, f"{what}: a sort field").lower()
    if word not in words:
        raise Invalid(f"{what}: {name!r} of a sort field must be one of {', '.join(words)}")
    return word
