"""The table of the store; the first process that opens it creates it.

1. look at the table; 2. if it is missing, create it, paid by request, and wait until it is active;
3. look at the row of its version, and write it if the table is empty. Two processes may do this at
the same time: creating a table and writing the version both take effect once. A crash after step 2
leaves an empty table, and the next open continues there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lochan.base.errors import InvalidUrl, NewerFormat, Unavailable
from lochan.stores.dynamodb.client import DynamoClient
from lochan.stores.dynamodb.failures import CONDITION_FAILED, TABLE_EXISTS, TABLE_MISSING
from lochan.stores.dynamodb.items import item_key
from lochan.stores.dynamodb.names import ItemPlace

SCHEMA_VERSION: Final = 1

# A new table is usually active after some seconds; AWS names no bound.
_LOOKS_MAX: Final = 240
_LOOK_EVERY_S: Final = 0.5

_KEYS: Final = [
    {"AttributeName": "p", "KeyType": "HASH"},
    {"AttributeName": "k", "KeyType": "RANGE"},
]
_ATTRIBUTES: Final = [
    {"AttributeName": "k", "AttributeType": "B"},
    {"AttributeName": "p", "AttributeType": "B"},
]

# No partition's collection begins so.
_VERSION: Final = item_key(ItemPlace(b"\x02lochan", b"version"))


def prepare(client: DynamoClient, sleep: Callable[[float], None]) -> None:
    """Creates the table if it is missing; refuses tables of others and of newer versions."""
    described = _describe(client)
    if described is None:
        client.write(
            "create_table",
            frozenset((TABLE_EXISTS,)),
            TableName=client.table,
            KeySchema=_KEYS,
            AttributeDefinitions=_ATTRIBUTES,
            BillingMode="PAY_PER_REQUEST",
        )
    looks = 0
    while described is None or described["TableStatus"] not in ("ACTIVE", "UPDATING"):
        described = _describe(client)
        looks += 1
        if looks == _LOOKS_MAX:
            raise Unavailable(f"the table {client.table} does not become active")
        if described is None or described["TableStatus"] not in ("ACTIVE", "UPDATING"):
            sleep(_LOOK_EVERY_S)
    by_name = sorted(described["AttributeDefinitions"], key=lambda one: str(one["AttributeName"]))
    if described["KeySchema"] != _KEYS or by_name != _ATTRIBUTES:
        raise InvalidUrl(f"the table {client.table} is of another program; name a new one")
    _check_version(client)


def _check_version(client: DynamoClient) -> None:
    found = _version(client)
    if found is None:
        first = client.read("scan", TableName=client.table, Limit=1, ConsistentRead=True)
        if first.get("Items") and _version(client) is None:
            raise InvalidUrl(f"the table {client.table} is of another program; name a new one")
        client.write(
            "put_item",
            frozenset((CONDITION_FAILED,)),
            TableName=client.table,
            Item={**_VERSION, "n": {"N": str(SCHEMA_VERSION)}},
            ConditionExpression="attribute_not_exists(p)",
        )
        found = _version(client)
    if found is not None and found > SCHEMA_VERSION:
        raise NewerFormat(
            f"the table {client.table} has version {found}, and this Lochan knows "
            f"{SCHEMA_VERSION}: upgrade Lochan"
        )


def _version(client: DynamoClient) -> int | None:
    answer = client.read("get_item", TableName=client.table, Key=_VERSION, ConsistentRead=True)
    item = answer.get("Item")
    return None if item is None else int(item["n"]["N"])


def _describe(client: DynamoClient) -> dict[str, Any] | None:
    answer = client.read("describe_table", frozenset((TABLE_MISSING,)), TableName=client.table)
    described: dict[str, Any] | None = answer.get("Table")
    return described
