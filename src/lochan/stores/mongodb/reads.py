"""Reads: one `find` each, of the primary, and only its first batch.

Rows are read linearizably: a primary that was replaced without noticing it cannot answer, because
it asks the majority first. Objects never change, so what a majority read finds of them is right,
and only what it does not find is asked again linearizably.

A batch ends at 16 MB. What did not fit is asked for again, never by the cursor: its further batches
would not be linearizable.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from lochan.base.errors import Corrupt, Exhausted, StoreClosed, Unavailable
from lochan.base.ids import INSTANCE_ID_BYTES
from lochan.kv.store import Kind, Name, Partition
from lochan.kv.walk import Located, WalkPage, check_walk, decode_cursor, encode_cursor
from lochan.stores.mongodb.client import MongoClient
from lochan.stores.mongodb.documents import Document, read_entry, read_name, row_id, walk_range
from lochan.stores.mongodb.schema import VERSION_ID

_LINEARIZABLE: Final = "linearizable"
_MAJORITY: Final = "majority"


class FoundRows(msgspec.Struct, frozen=True):
    """Documents that were found; not whole if more did not fit."""

    documents: list[Document]
    whole: bool


def find(
    client: MongoClient, where: Document, limit: int, level: str = _LINEARIZABLE, **more: Any
) -> FoundRows:
    """Returns at most `limit` documents, fewer if they are large."""
    command = {"find": client.collection, "filter": where, "limit": limit, "batchSize": limit + 1}
    cursor = client.read({**command, **more}, level)["cursor"]
    if cursor["id"] and not cursor["firstBatch"]:
        raise Unavailable("MongoDB returned an empty batch before the end")
    if cursor["id"]:
        # The server would keep it for ten minutes.
        with suppress(Exhausted, StoreClosed, Unavailable):
            client.read({"killCursors": client.collection, "cursors": [cursor["id"]]})
    return FoundRows(cursor["firstBatch"], not cursor["id"])


def fetch_rows(client: MongoClient, names: Iterable[Name]) -> dict[Name, Document]:
    """Returns the documents of those rows that exist."""
    wanted = dict.fromkeys(names)
    objects = [name for name in wanted if _is_object(name[0])]
    found = _fetch(client, objects, _MAJORITY)
    rest = [name for name in wanted if name not in found]
    if rest:
        found |= _fetch(client, rest, _LINEARIZABLE, check=bool(objects))
    return found


def _fetch(
    client: MongoClient, names: list[Name], level: str, *, check: bool = False
) -> dict[Name, Document]:
    """Looks for rows until all were found or are absent; with `check`, for the collection too."""
    found: dict[Name, Document] = {}
    left: list[Any] = [row_id(*name) for name in names]
    if check:
        left.append(VERSION_ID)
    while left:
        where = {"_id": left[0] if len(left) == 1 else {"$in": left}}
        batch = find(client, where, len(left), level)
        for document in batch.documents:
            left.remove(document["_id"])
            if document["_id"] != VERSION_ID:
                found[read_name(document)] = document
        if batch.whole:
            break
    if check and VERSION_ID in left:
        raise Corrupt("the collection of this store is gone")
    return found


def walk_rows(client: MongoClient, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
    """Returns one page of the rows whose partitions begin with the prefix, in the order of names.

    A cursor names the row that is next, or one before it that does not exist.
    """
    check_walk(prefix, cursor, limit)
    where = {"_id": walk_range(prefix, *decode_cursor(prefix, cursor))}
    batch = find(client, where, limit + 1, sort={"_id": 1})
    rows: list[Located] = []
    for document in batch.documents:
        partition, key = read_name(document)
        if len(rows) == limit:
            return WalkPage(rows, encode_cursor(partition, key))
        rows.append((partition, read_entry(document)))
    if batch.whole:
        return WalkPage(rows, None)
    partition, entry = rows[-1]
    return WalkPage(rows, encode_cursor(partition, entry.key + b"\x00"))


def _is_object(partition: Partition) -> bool:
    return partition[INSTANCE_ID_BYTES : INSTANCE_ID_BYTES + 1] == bytes((Kind.OBJECTS,))
