"""The store for several servers on AWS: one table of DynamoDB.

The address is `dynamodb://REGION/TABLE`. Parameters: `endpoint` (of another service with the same
interface, or of DynamoDB Local), `profile` (of the AWS configuration), `connections` (requests at a
time). Credentials come from where AWS programs look for them, never from the address. Needs the
extra `lochan[dynamodb]`.
"""

from __future__ import annotations

from importlib.util import find_spec

from lochan.base.errors import InvalidUrl
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.dynamodb.address import read_address


def open_store(url: StoreUrl) -> Store:
    """Creates the table if it is missing, and returns the store."""
    address = read_address(url)
    if find_spec("botocore") is None:
        raise InvalidUrl(
            "stores in DynamoDB need botocore, which is not installed: install lochan[dynamodb]"
        )
    from lochan.stores.dynamodb.store import DynamoStore

    return DynamoStore(address)
