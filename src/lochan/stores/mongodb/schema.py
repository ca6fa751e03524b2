"""The collection of the store; the first process that opens it creates it.

1. look at the collection; 2. if it is missing, create it; 3. look at the document of its version,
and write it if the collection is empty. Two processes may do this at the same time: creating a
collection and writing the version both take effect once. A crash after step 2 leaves an empty
collection, and the next open continues there.
"""

from __future__ import annotations

from typing import Any, Final

from lochan.base.errors import InvalidUrl, NewerFormat, Unavailable
from lochan.stores.mongodb.client import MongoClient
from lochan.stores.mongodb.failures import NAMESPACE_EXISTS, NOT_A_REPLICA_SET

SCHEMA_VERSION: Final = 1

# Rows have a compound key, so this is never one of them and never in a range of them.
VERSION_ID: Final = "lochan"

# With these MongoDB would order keys in another way, or delete documents.
_REFUSED_OPTIONS: Final = frozenset(
    ("capped", "clusteredIndex", "collation", "expireAfterSeconds", "timeseries", "viewOn")
)


def prepare(client: MongoClient) -> None:
    """Creates the collection if it is missing; refuses others' and newer ones."""
    found = _collection(client)
    if found is None:
        client.write({"create": client.collection}, frozenset((NAMESPACE_EXISTS,)))
        found = _collection(client)
        if found is None:
            raise Unavailable(f"the collection {client.collection} does not appear")
    if found.get("type", "collection") != "collection" or _REFUSED_OPTIONS & set(found["options"]):
        raise _of_another_program(client)
    _check_version(client)


def _check_version(client: MongoClient) -> None:
    found = _version(client)
    if found is None:
        first = client.read({"find": client.collection, "limit": 1}, "majority")
        if first["cursor"]["firstBatch"] and _version(client) is None:
            raise _of_another_program(client)
        version = {"$setOnInsert": {"version": SCHEMA_VERSION}}
        statement = {"q": {"_id": VERSION_ID}, "u": version, "upsert": True}
        client.write({"update": client.collection, "updates": [statement]})
        found = _version(client)
    if found is None:
        raise Unavailable(f"the collection {client.collection} has no version yet; try again")
    if found > SCHEMA_VERSION:
        raise NewerFormat(
            f"the collection {client.collection} has version {found}, and this Lochan knows "
            f"{SCHEMA_VERSION}: upgrade Lochan"
        )


def _version(client: MongoClient) -> int | None:
    answer = client.read(
        {"find": client.collection, "filter": {"_id": VERSION_ID}, "limit": 1},
        "linearizable",
        frozenset((NOT_A_REPLICA_SET,)),
    )
    if answer.get("code") == NOT_A_REPLICA_SET:
        raise InvalidUrl(
            "this MongoDB is no replica set, so its reads cannot be linearizable: start it with "
            "--replSet and run rs.initiate(); one member will do"
        )
    documents = answer["cursor"]["firstBatch"]
    version = documents[0].get("version") if documents else None
    if documents and not isinstance(version, int):
        raise _of_another_program(client)
    return version


def _collection(client: MongoClient) -> dict[str, Any] | None:
    answer = client.read({"listCollections": 1, "filter": {"name": client.collection}})
    found: list[dict[str, Any]] = answer["cursor"]["firstBatch"]
    return found[0] if found else None


def _of_another_program(client: MongoClient) -> InvalidUrl:
    return InvalidUrl(f"the collection {client.collection} is of another program; name a new one")
