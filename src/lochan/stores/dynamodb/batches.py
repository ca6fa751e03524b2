"""Requests of many items: DynamoDB may do a part of them and return the rest, which is sent again.

All of them may be repeated without a second effect. A bulk write that ends early after a part of it
was done is Unknown, because the caller must not take it for undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from lochan.base.errors import Exhausted, Unavailable, Unknown
from lochan.stores.dynamodb.client import DynamoClient
from lochan.stores.dynamodb.items import Item, item_key
from lochan.stores.dynamodb.names import ItemPlace, Range, first_sort, last_sort

# DynamoDB's own bounds of one request.
GET_ITEMS_MAX: Final = 100
WRITE_ITEMS_MAX: Final = 25


def fetch_items(client: DynamoClient, places: Iterable[ItemPlace]) -> dict[ItemPlace, Item]:
    """Returns the items that exist, as they are now."""
    found: dict[ItemPlace, Item] = {}
    wanted = [item_key(place) for place in dict.fromkeys(places)]
    for start in range(0, len(wanted), GET_ITEMS_MAX):
        left = wanted[start : start + GET_ITEMS_MAX]
        backoff = client.backoff()
        while left:
            asked = {client.table: {"Keys": left, "ConsistentRead": True}}
            answer = client.read("batch_get_item", RequestItems=asked)
            some = answer["Responses"].get(client.table, [])
            for item in some:
                found[ItemPlace(item["p"]["B"], item["k"]["B"])] = item
            left = answer.get("UnprocessedKeys", {}).get(client.table, {}).get("Keys", [])
            if left and some:
                # An answer has 16 MB at most: the rest is fetched without a sleep.
                backoff = client.backoff()
            elif left:
                backoff.again("nothing of a bulk read was processed")
    return found


def write_items(client: DynamoClient, requests: Sequence[dict[str, Any]]) -> None:
    """Puts and deletes items, each place once."""
    begun = False
    try:
        for start in range(0, len(requests), WRITE_ITEMS_MAX):
            left = list(requests[start : start + WRITE_ITEMS_MAX])
            backoff = client.backoff()
            while left:
                answer = client.write("batch_write_item", RequestItems={client.table: left})
                rest = answer.get("UnprocessedItems", {}).get(client.table, [])
                if len(rest) < len(left):
                    begun, backoff = True, client.backoff()
                elif rest:
                    backoff.again("nothing of a bulk write was processed")
                left = rest
    except (Exhausted, Unavailable) as error:
        if begun:
            raise Unknown(f"a part of a bulk write was done; {error.message}") from error
        raise


def read_range(client: DynamoClient, part: Range, most: int) -> Iterator[Item]:
    """Yields the items of a range in the order of their sort keys, `most` a request."""
    start, last = first_sort(part), last_sort(part)
    values: dict[str, Any] = {":p": {"B": part.collection}}
    condition = "p = :p"
    if start and last is not None:
        condition += " AND k BETWEEN :a AND :z"
    elif start:
        condition += " AND k >= :a"
    elif last is not None:
        condition += " AND k <= :z"
    if start:
        values[":a"] = {"B": start}
    if last is not None:
        values[":z"] = {"B": last}
    arguments: dict[str, Any] = {
        "TableName": client.table,
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ConsistentRead": True,
        "Limit": most,
    }
    while True:
        answer = client.read("query", **arguments)
        for item in answer["Items"]:
            # `BETWEEN` and `<=` include the end.
            if item["k"]["B"] != part.end:
                yield item
        if "LastEvaluatedKey" not in answer:
            return
        arguments["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
