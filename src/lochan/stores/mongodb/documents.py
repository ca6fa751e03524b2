"""Documents of the collection: a row as MongoDB stores it, and the statements that write it.

`_id` is the compound key `{p: partition, k: key}`, unique by itself. `v` is the value, `s` 16
random bytes of the last write, `h` the half-day. MongoDB orders binary values by their length
first, so both are stored as strings with one character for each byte (Latin-1): strings are
compared by their UTF-8, which has the order of the characters, and so that of the bytes.

A stamp is `s` and `h` together. To renew an object is then to raise `h`, which one statement does
together with inserting it, whatever is there; no two writes of a row have one `s`, and `h` only
grows under one `s`, so no stamp comes back.
"""

from __future__ import annotations

import os
from typing import Any, Final

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt
from lochan.kv.store import ABSENT, PRESENT, Entry, Expected, Name, Partition, SetIf, Stamp

MARK_BYTES: Final = 16
_HALF_DAY_BYTES: Final = 4

# Behind all that a byte can be: the first character that no byte has.
_BEHIND: Final = "\u0100"

Document = dict[str, Any]


def new_mark() -> bytes:
    """Returns what no row has ever had as its `s`."""
    return os.urandom(MARK_BYTES)


def row_id(partition: Partition, key: bytes) -> Document:
    """Returns the compound key of a row; the order of its fields counts."""
    return {"p": partition.decode("latin-1"), "k": key.decode("latin-1")}


def read_name(document: Document) -> Name:
    """Returns partition and key of a document."""
    where = document["_id"]
    try:
        return Partition(where["p"].encode("latin-1")), where["k"].encode("latin-1")
    except UnicodeEncodeError as error:
        raise Corrupt("the collection has a key that is not Lochan's") from error


def key_range(partition: Partition, start: bytes, end: bytes | None) -> Document:
    """Returns the condition on `_id` for the keys from `start` to before `end`."""
    first = row_id(partition, start)
    behind = {**first, "k": _BEHIND}
    return {"$gte": first, "$lt": behind if end is None else row_id(partition, end)}


def walk_range(prefix: bytes, partition: Partition, key: bytes) -> Document:
    """Returns the condition on `_id` for a row and all behind it whose partitions begin so."""
    return {"$gte": row_id(partition, key), "$lt": {"p": prefix.decode("latin-1") + _BEHIND}}


def read_entry(document: Document) -> Entry:
    """Returns the row of a document."""
    value, mark, half_day = document.get("v"), document.get("s"), document.get("h")
    whole = isinstance(value, bytes) and isinstance(mark, bytes) and isinstance(half_day, int)
    check_stored(whole, "a document of the collection has lost fields")
    _, key = read_name(document)
    return Entry(key, document["v"], stamp_of(document["s"], document["h"]), document["h"])


def stamp_of(mark: bytes, half_day: int) -> Stamp:
    """Returns the stamp of a row with these fields."""
    return Stamp(mark + half_day.to_bytes(_HALF_DAY_BYTES, "big"))


def condition(partition: Partition, key: bytes, expected: Expected) -> Document | None:
    """Returns the filter for the row as it is expected; None if no row can be so."""
    where: Document = {"_id": row_id(partition, key)}
    if expected is ABSENT:
        return {**where, "s": {"$exists": False}}
    if expected is PRESENT:
        return where
    if len(expected) != MARK_BYTES + _HALF_DAY_BYTES:
        return None
    half_day = int.from_bytes(expected[MARK_BYTES:], "big")
    return {**where, "s": expected[:MARK_BYTES], "h": half_day}


def add_statement(
    partition: Partition, key: bytes, value: bytes, half_day: int, mark: bytes
) -> Document:
    """Inserts an object, or renews one that is older; keeps its value."""
    return {
        "q": {"_id": row_id(partition, key)},
        "u": {"$setOnInsert": {"v": value, "s": mark}, "$max": {"h": half_day}},
        "upsert": True,
    }


def put_statement(partition: Partition, key: bytes, value: bytes, mark: bytes) -> Document:
    """Writes a row whatever is there."""
    return {
        "q": {"_id": row_id(partition, key)},
        "u": {"v": value, "s": mark, "h": 0},
        "upsert": True,
    }


def set_statement(change: SetIf, mark: bytes) -> Document | None:
    """Writes a row if it is as expected; None if it cannot be.

    A row that has to be absent is inserted where no document matches, and none that exists does:
    then the insert fails with a duplicate key.
    """
    where = condition(change.partition, change.key, change.expected)
    if where is None:
        return None
    return {
        "q": where,
        "u": {"v": change.value, "s": mark, "h": 0},
        "upsert": change.expected is ABSENT,
    }
