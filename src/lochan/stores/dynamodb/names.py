"""How a row is named in the table: keys that are longer than DynamoDB allows continue elsewhere.

A sort key has at most 1,024 bytes, a key of ours four times as many. A key of up to HEAD_BYTES is
the sort key of its row, in the collection of its partition. Of a longer key the first HEAD_BYTES
name a *continuation*: a collection of its own, in which the rest is the key. In the first
collection one *mark*, with the sort key `head + 01`, leads there: no row has a sort key of that
length, and it sorts behind the row whose key is the head and before every other one. So a scan
that continues at each mark returns all rows in the order of their whole keys.

A mark is written before the first row behind it and removed only when the partition is dropped. A
crash in between leaves a mark that leads to nothing, which is harmless.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from lochan.kv.store import Partition

HEAD_BYTES: Final = 1_000

_OF_PARTITION: Final = b"\x00"
_OF_CONTINUATION: Final = b"\x01"
_MARK: Final = b"\x01"


class ItemPlace(msgspec.Struct, frozen=True, gc=False):
    """Hash key and sort key of an item."""

    collection: bytes
    sort: bytes


def collection_of(partition: Partition) -> bytes:
    """Returns the hash key of the rows of a partition."""
    return _OF_PARTITION + partition


def continuation(collection: bytes, head: bytes) -> bytes:
    """Returns the hash key of the rows whose keys begin with this head and are longer."""
    size = len(collection).to_bytes(2, "big")
    return _OF_CONTINUATION + sha256(size + collection + head).digest()


def place_of(partition: Partition, key: bytes) -> ItemPlace:
    """Returns where a row is."""
    collection = collection_of(partition)
    while len(key) > HEAD_BYTES:
        collection = continuation(collection, key[:HEAD_BYTES])
        key = key[HEAD_BYTES:]
    return ItemPlace(collection, key)


def marks_of(partition: Partition, key: bytes) -> list[ItemPlace]:
    """Returns the marks that lead to a row, none for most."""
    marks: list[ItemPlace] = []
    collection = collection_of(partition)
    while len(key) > HEAD_BYTES:
        marks.append(ItemPlace(collection, key[:HEAD_BYTES] + _MARK))
        collection = continuation(collection, key[:HEAD_BYTES])
        key = key[HEAD_BYTES:]
    return marks


def is_mark(sort: bytes) -> bool:
    """Returns whether a sort key is that of a mark."""
    return len(sort) > HEAD_BYTES


class Range(msgspec.Struct, frozen=True, gc=False):
    """The rows of one collection with keys in [start, end), counted from `before`; None: no end."""

    collection: bytes
    before: bytes
    """What the keys of these rows begin with, before their sort keys."""
    start: bytes
    end: bytes | None


def first_sort(part: Range) -> bytes:
    """Returns the first sort key to read, b"" for the first of all."""
    return part.start if len(part.start) <= HEAD_BYTES else part.start[:HEAD_BYTES] + _MARK


def last_sort(part: Range) -> bytes | None:
    """Returns the sort key up to which to read, that one included; None for all."""
    if part.end is None or len(part.end) <= HEAD_BYTES:
        return part.end
    return part.end[:HEAD_BYTES] + _MARK


def behind_mark(part: Range, sort: bytes) -> Range:
    """Returns the rows of the range that are behind a mark."""
    head = sort[:HEAD_BYTES]
    start = part.start[HEAD_BYTES:] if part.start[:HEAD_BYTES] == head else b""
    end = None
    if part.end is not None and len(part.end) > HEAD_BYTES and part.end[:HEAD_BYTES] == head:
        end = part.end[HEAD_BYTES:]
    return Range(continuation(part.collection, head), part.before + head, start, end)
