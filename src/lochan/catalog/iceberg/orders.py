"""Sort orders: added under an id of ours and chosen as the default; 0 is always "unsorted"."""

from __future__ import annotations

from typing import Any, Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.draft import Draft, chosen_id, find_by_id, next_id
from lochan.catalog.iceberg.specs import sources_of
from lochan.catalog.iceberg.transforms import check_transform, normal_transform
from lochan.catalog.iceberg.values import Json, get_int, get_object, get_objects, get_text

UNSORTED_ID: Final = 0

_DIRECTIONS: Final = ("asc", "desc")
_NULL_ORDERS: Final = ("nulls-first", "nulls-last")


def add_order(draft: Draft, update: Json) -> None:
    """Applies `add-sort-order`."""
    what = "add-sort-order"
    place_order(draft, get_object(update, "sort-order", what), what)


def place_order(draft: Draft, order: Json, what: str) -> None:
    """Adds a sort order, or finds the same one; either is then the one added last."""
    orders = draft.metadata["sort-orders"]
    fields = get_objects(order, "fields", what)
    wanted = _keys(fields, what)
    for each in orders:
        if _keys(get_objects(each, "fields", what), what) == wanted:
            draft.last_order_id = get_int(each, "order-id", what)
            return
    number = UNSORTED_ID
    if fields:
        check_order(fields, draft.current_columns(what), what)
        number = next_id(orders, "order-id", UNSORTED_ID + 1, what)
    orders.append({**order, "order-id": number, "fields": fields})
    draft.last_order_id = number
    draft.changed = True


def set_default_order(draft: Draft, update: Json) -> None:
    """Applies `set-default-sort-order`."""
    what = "set-default-sort-order"
    number = chosen_id(get_int(update, "sort-order-id", what), draft.last_order_id, what)
    if find_by_id(draft.metadata["sort-orders"], "order-id", number) is None:
        raise Invalid(f"Cannot set default sort order to unknown sort order: {number}")
    if draft.metadata["default-sort-order-id"] != number:
        draft.metadata["default-sort-order-id"] = number
        draft.changed = draft.relaid = True


def check_order(fields: list[Json], columns: dict[int, Column], what: str) -> None:
    """Raises Invalid unless rows with these columns can be sorted by the fields."""
    for field in fields:
        transform = get_text(field, "transform", f"{what}: a sort field")
        for source in sources_of(field, f"{what}: a sort field"):
            column = columns.get(source)
            if column is None:
                raise Invalid(f"{what}: Cannot find source column for sort field: {source}")
            check_transform(transform, column, "sort")


def _keys(fields: list[Json], what: str) -> list[Any]:
    return [
        (
            sources_of(each, what),
            normal_transform(get_text(each, "transform", what)),
            _one_of(each, "direction", _DIRECTIONS, what),
            _one_of(each, "null-order", _NULL_ORDERS, what),
        )
        for each in fields
    ]


def _one_of(field: Json, name: str, words: tuple[str, ...], what: str) -> str:
    word = get_text(field, name, f"{what}: a sort field").lower()
    if word not in words:
        raise Invalid(f"{what}: {name!r} of a sort field must be one of {', '.join(words)}")
    return word
