"""Items of the table: a row as DynamoDB stores it, and the conditions on it.

The names of attributes count for the size of an item, so they have one letter: `p` and `k` are hash
key and sort key, `v` is the value, `s` the stamp, `h` the half-day. A stamp is 16 random bytes:
DynamoDB has no sequence, and no two of any number of writes will ever have the same.
"""

from __future__ import annotations

import os
from typing import Any, Final

from lochan.base.checks import check_stored
from lochan.kv.store import ABSENT, PRESENT, Entry, Expected, Stamp
from lochan.stores.dynamodb.names import ItemPlace

STAMP_BYTES: Final = 16

Item = dict[str, dict[str, Any]]
"""Attributes with their types, as botocore takes and returns them."""

# An object is written if it is absent, and renewed if it is older than the new half-day.
ADD_CONDITION: Final = "attribute_not_exists(p) OR h < :h"
ADD_UPDATE: Final = "SET v = if_not_exists(v, :v), s = :s, h = :h"


def new_stamp() -> Stamp:
    """Returns a stamp that no row has ever had."""
    return Stamp(os.urandom(STAMP_BYTES))


def item_key(place: ItemPlace) -> Item:
    """Returns hash key and sort key."""
    return {"p": {"B": place.collection}, "k": {"B": place.sort}}


def row_item(place: ItemPlace, value: bytes, stamp: Stamp) -> Item:
    """Returns the item of a row that is no object."""
    return {**item_key(place), "v": {"B": value}, "s": {"B": stamp}, "h": {"N": "0"}}


def read_entry(key: bytes, item: Item) -> Entry:
    """Returns the row of an item."""
    whole = "v" in item and "s" in item and "h" in item
    check_stored(whole, "an item of the table has lost attributes")
    return Entry(key, item["v"]["B"], Stamp(item["s"]["B"]), int(item["h"]["N"]))


def condition_arguments(expected: Expected) -> dict[str, Any]:
    """Returns the condition of a conditional write, as arguments of its request."""
    if expected is ABSENT:
        return {"ConditionExpression": "attribute_not_exists(p)"}
    if expected is PRESENT:
        return {"ConditionExpression": "attribute_exists(p)"}
    return {
        "ConditionExpression": "s = :e",
        "ExpressionAttributeValues": {":e": {"B": expected}},
    }
