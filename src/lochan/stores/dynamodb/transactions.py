"""Objects, and one row with a condition, in one transaction of DynamoDB.

1. send all of it; 2. if it was cancelled because the row is not as expected, it is lost; 3. if some
objects exist and are recent, nothing has to be written for them: send the rest; 4. if another
transaction had one of the rows, or the table has no throughput left, sleep and send it again.

A cancelled transaction has written nothing, so steps 3 and 4 repeat no write. The answer to an
attempt may be lost: then the result is Unknown, and nothing is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lochan.base.checks import check
from lochan.base.errors import Bug, Unavailable
from lochan.kv.store import ABSENT, Item, Lost, Name, Outcome, SetIf, Stamp, Won
from lochan.stores.dynamodb.client import Answer, DynamoClient
from lochan.stores.dynamodb.failures import (
    CONDITION_FAILED,
    CONFLICTS,
    THROTTLED,
    TRANSACTION_CANCELLED,
)
from lochan.stores.dynamodb.items import (
    ADD_CONDITION,
    ADD_UPDATE,
    condition_arguments,
    item_key,
    new_stamp,
    read_entry,
    row_item,
)
from lochan.stores.dynamodb.names import place_of

# DynamoDB's own bounds of a transaction are 100 items and 4 MB, names and attributes included.
TRANSACTION_ITEMS_MAX: Final = 100
TRANSACTION_BYTES_MAX: Final = 3_670_016

_CANCELLED: Final = frozenset((TRANSACTION_CANCELLED, *CONFLICTS))
_CONDITION: Final = "ConditionalCheckFailed"
_SOON: Final = THROTTLED | CONFLICTS


def add_objects(client: DynamoClient, items: Sequence[Item], half_day: int) -> None:
    """Adds objects that are absent and renews older ones, all in one transaction."""
    stamp = new_stamp()
    left = _first_of_each(items)
    backoff = client.backoff()
    while left:
        answer = _send(client, _adds(client.table, left, stamp, half_day))
        if "Error" not in answer:
            return
        codes = _codes(answer, len(left))
        rest = _absent_or_older(left, codes)
        if len(rest) == len(left):
            backoff.again(_reason(codes))
        left = rest


def apply_change(
    client: DynamoClient, items: Sequence[Item], half_day: int, condition: SetIf
) -> Outcome:
    """Adds objects and sets one row if it is as expected; else writes nothing."""
    stamp = new_stamp()
    left = _first_of_each(items)
    backoff = client.backoff()
    while left:
        requests = _adds(client.table, left, stamp, half_day)
        answer = _send(client, [*requests, {"Put": _set(client.table, condition, stamp)}])
        if "Error" not in answer:
            return Won(stamp)
        codes = _codes(answer, len(left) + 1)
        if codes[-1] == _CONDITION:
            return _lost(condition, answer["CancellationReasons"][-1].get("Item"))
        rest = _absent_or_older(left, codes)
        if len(rest) == len(left):
            backoff.again(_reason(codes))
        left = rest
    return set_row(client, condition, stamp)


def set_row(client: DynamoClient, condition: SetIf, stamp: Stamp) -> Outcome:
    """Sets one row if it is as expected."""
    backoff = client.backoff()
    while True:
        request = _set(client.table, condition, stamp)
        expected = frozenset((CONDITION_FAILED, *CONFLICTS))
        answer = client.write("put_item", expected, **request)
        if "Error" not in answer:
            return Won(stamp)
        if answer["Error"]["Code"] == CONDITION_FAILED:
            return _lost(condition, answer.get("Item"))
        backoff.again(answer["Error"]["Code"])


def _lost(condition: SetIf, item: Any) -> Lost:
    return Lost(read_entry(condition.key, item) if item else ABSENT)


def _send(client: DynamoClient, requests: list[dict[str, Any]]) -> Answer:
    return client.write("transact_write_items", _CANCELLED, TransactItems=requests)


def _codes(answer: Answer, count: int) -> list[str]:
    """Returns for each request why it was not done; "None" where there was no obstacle."""
    if answer["Error"]["Code"] in CONFLICTS:
        return [answer["Error"]["Code"]] * count
    reasons = answer.get("CancellationReasons", [])
    if len(reasons) != count:
        raise Unavailable("DynamoDB cancelled a transaction without its reasons")
    codes = [str(reason.get("Code")) for reason in reasons]
    for code, reason in zip(codes, reasons, strict=True):
        if code not in _SOON and code not in (_CONDITION, "None"):
            raise Bug(f"DynamoDB refused a transaction: {reason.get('Message')} ({code})")
    return codes


def _absent_or_older(items: list[Item], codes: list[str]) -> list[Item]:
    """Leaves out the objects that exist and are recent."""
    return [item for item, code in zip(items, codes, strict=False) if code != _CONDITION]


def _reason(codes: list[str]) -> str:
    found = sorted({code for code in codes if code in _SOON})
    check(bool(found), "a transaction is cancelled for a reason")
    return ", ".join(found)


def _adds(
    table: str, items: Sequence[Item], stamp: Stamp, half_day: int
) -> list[dict[str, dict[str, Any]]]:
    return [
        {
            "Update": {
                "TableName": table,
                "Key": item_key(place_of(partition, key)),
                "UpdateExpression": ADD_UPDATE,
                "ConditionExpression": ADD_CONDITION,
                "ExpressionAttributeValues": {
                    ":v": {"B": value},
                    ":s": {"B": stamp},
                    ":h": {"N": str(half_day)},
                },
            }
        }
        for partition, key, value in items
    ]


def _set(table: str, condition: SetIf, stamp: Stamp) -> dict[str, Any]:
    place = place_of(condition.partition, condition.key)
    return {
        "TableName": table,
        "Item": row_item(place, condition.value, stamp),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **condition_arguments(condition.expected),
    }


def _first_of_each(items: Sequence[Item]) -> list[Item]:
    """Keeps the first item of each name: a transaction has each name once."""
    kept: dict[Name, Item] = {}
    for item in items:
        kept.setdefault(item[:2], item)
    return list(kept.values())
