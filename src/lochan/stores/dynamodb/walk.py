"""Reading across partitions: a scan of the whole table that keeps what belongs to the prefix.

DynamoDB returns items by the hash of their partitions, so a filter cannot save reading: a walk
costs what the table costs, whatever the prefix is. A mark stands for the rows behind it; they are
read as a range of their partition before the scan of the table goes on.

A cursor begins with the place in the table: two bytes with the length of its hash key, hash key and
sort key, all empty for the beginning, under a length of its own. If the rows behind a mark come
next, the name of the next one follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lochan.base.keys import prefix_end
from lochan.kv.store import Page, Partition
from lochan.kv.walk import (
    Located,
    WalkPage,
    check_walk,
    decode_cursor,
    encode_cursor,
    foreign_cursor,
)
from lochan.stores.dynamodb import items as forms
from lochan.stores.dynamodb.client import DynamoClient
from lochan.stores.dynamodb.names import HEAD_BYTES, ItemPlace, collection_of, is_mark

Scan = Callable[[Partition, bytes, bytes | None, int], Page]
"""The scan of one partition."""

_SIZE_BYTES: Final = 2
_COLLECTION_LEAD: Final = len(collection_of(Partition(b"")))


def walk_table(
    client: DynamoClient, scan: Scan, prefix: bytes, cursor: bytes, limit: int
) -> WalkPage:
    """Returns one page; it may be empty, because the table has other rows too."""
    check_walk(prefix, cursor, limit)
    place, behind = _decode(cursor)
    if behind:
        partition, start = decode_cursor(prefix, behind)
        page = scan(partition, start, prefix_end(start[:HEAD_BYTES]), limit)
        rows: list[Located] = [(partition, entry) for entry in page.entries]
        further = b"" if page.next_start is None else encode_cursor(partition, page.next_start)
        return WalkPage(rows, _encode(place, further))
    arguments: dict[str, Any] = {
        "TableName": client.table,
        "ConsistentRead": True,
        "Limit": limit,
        "FilterExpression": "begins_with(p, :p)",
        "ExpressionAttributeValues": {":p": {"B": collection_of(Partition(prefix))}},
    }
    if place is not None:
        arguments["ExclusiveStartKey"] = forms.item_key(place)
    answer = client.read("scan", **arguments)
    rows = []
    for item in answer["Items"]:
        found = ItemPlace(item["p"]["B"], item["k"]["B"])
        partition = Partition(found.collection[_COLLECTION_LEAD:])
        if is_mark(found.sort):
            first = encode_cursor(partition, found.sort[:HEAD_BYTES] + b"\0")
            return WalkPage(rows, _encode(found, first))
        rows.append((partition, forms.read_entry(found.sort, item)))
    last = answer.get("LastEvaluatedKey")
    return WalkPage(
        rows, None if last is None else _encode(ItemPlace(last["p"]["B"], last["k"]["B"]), b"")
    )


def _encode(place: ItemPlace | None, behind: bytes) -> bytes:
    collection, sort = (b"", b"") if place is None else (place.collection, place.sort)
    sizes = [len(each).to_bytes(_SIZE_BYTES, "big") for each in (collection, sort)]
    return sizes[0] + collection + sizes[1] + sort + behind


def _decode(cursor: bytes) -> tuple[ItemPlace | None, bytes]:
    parts: list[bytes] = []
    rest = cursor
    for _ in range(2):
        size = int.from_bytes(rest[:_SIZE_BYTES], "big")
        parts.append(rest[_SIZE_BYTES : _SIZE_BYTES + size])
        rest = rest[_SIZE_BYTES + size :]
    if cursor and not (parts[0] and parts[1]):
        raise foreign_cursor()
    return (ItemPlace(parts[0], parts[1]) if cursor else None), rest
