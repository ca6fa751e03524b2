"""A process that writes, flushes and acknowledges until it is killed.

Started as `python -m lochan.testing.killed_writer URL FIRST`. For each number n from FIRST on:

1. put a row named n; 2. `apply`: objects of n, and the row `head` := n; 3. flush;
4. only then write the line "n stamp" to standard output.

`check_survivors` checks what must be found afterwards, whenever the process was killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

from lochan.assembly import open_store
from lochan.base.ids import InstanceId
from lochan.kv.store import ABSENT, Adds, Expected, Item, Kind, SetIf, Store, Won, partition

INSTANCE = InstanceId(b"doomed process!!")
OBJECTS = partition(INSTANCE, Kind.OBJECTS)
HEADS = partition(INSTANCE, Kind.REFERENCES)
ROWS = partition(INSTANCE, Kind.STAGING)

STARTING = b"starting\n"


def value_of(number: int, part: int) -> bytes:
    """Returns the value that belongs there and nowhere else, some small and some large."""
    digest = sha256(b"%d/%d" % (number, part)).digest()
    return digest * (1 + (number * 7 + part * 31) % 90)


def objects_of(number: int) -> list[Item]:
    """Returns the objects of one number."""
    return [(OBJECTS, b"%d/%d" % (number, part), value_of(number, part)) for part in range(3)]


def write_on(store: Store, first: int) -> Iterator[bytes]:
    """Writes without end; yields each acknowledgement when everything before it is durable."""
    head = store.get(HEADS, b"head")
    expected: Expected = ABSENT if head is None else head.stamp
    for number in count(first):
        store.put_many([(ROWS, b"%d" % number, value_of(number, 9))])
        row = SetIf(HEADS, b"head", b"%d" % number, expected)
        outcome = store.apply(Adds(objects_of(number), 1), row)
        if not isinstance(outcome, Won):
            raise SystemExit(f"{number} lost, but no other process writes")
        expected = outcome.stamp
        store.flush(store.epoch())
        yield b"%d %s\n" % (number, outcome.stamp.hex().encode())


def check_survivors(store: Store, first: int, acknowledged: int) -> int:
    """Checks what the process left of FIRST and after; returns the last number that was applied.

    Everything acknowledged is there; what was not acknowledged is there whole or not at all.
    """
    head = store.get(HEADS, b"head")
    last = first - 1 if head is None else int(head.value)
    assert last >= acknowledged, f"{acknowledged} was acknowledged, the head is {last}"
    assert last <= acknowledged + 1, (
        f"the head is {last}, but {acknowledged + 1} was not acknowledged yet"
    )
    for number in range(first, last + 1):
        check_number(store, number)
    for where, key, _ in objects_of(last + 1):
        assert store.get(where, key) is None, f"objects of {last + 1} without its head"
    waiting = store.get(ROWS, b"%d" % (last + 1))
    assert waiting is None or waiting.value == value_of(last + 1, 9)
    return last


def check_number(store: Store, number: int) -> None:
    """Checks all that belongs to a number that was applied."""
    row = store.get(ROWS, b"%d" % number)
    assert row is not None, f"row {number} was written before its objects"
    assert row.value == value_of(number, 9)
    items = objects_of(number)
    for item, entry in zip(items, store.get_many([item[:2] for item in items]), strict=True):
        assert entry is not None, f"the head reached {number} without its objects"
        assert entry.value == item[2]


def main(url: str, first: int) -> None:
    """Runs until killed."""
    os.write(1, STARTING)
    for acknowledgement in write_on(open_store(url), first):
        os.write(1, acknowledgement)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
