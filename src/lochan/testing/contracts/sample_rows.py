"""Partitions, keys and small helper functions that the suites share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lochan.base.ids import InstanceId
from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.kv.store import (
    ABSENT,
    Adds,
    Entry,
    Expected,
    Item,
    Kind,
    Outcome,
    Partition,
    SetIf,
    Stamp,
    Store,
    Won,
    partition,
)

INSTANCE = InstanceId(bytes(range(16)))
REFERENCES = partition(INSTANCE, Kind.REFERENCES)
OBJECTS = partition(INSTANCE, Kind.OBJECTS)
STAGING = partition(INSTANCE, Kind.STAGING, b"token")

NOTHING = Adds([], 0)

# Neighbours that a careless encoding of partition and key would mix up: prefixes of each other,
# delimiters, length bytes, the lowest and the highest bytes.
_SUFFIXES = (
    b"",
    b"m",
    b"ma",
    b"m/",
    b"m/a",
    b"m\x00",
    b"m\x00a",
    b"m\x01",
    b"m\xff",
    b"m\xff\xff",
    b"\x00",
    b"\xff",
    b"l",
    b"n",
)
NEIGHBOURS: tuple[Partition, ...] = (
    *(Partition(REFERENCES + suffix) for suffix in _SUFFIXES),
    Partition(b"\x00"),
    Partition(b"\x01"),
    Partition(b"\x01\x01"),
    Partition(b"\xff"),
    Partition(b"\xff" * 254),
    Partition(b"\xff" * 255),
)

# Every byte alone, keys that are prefixes of one another with low bytes, and the longest run.
KEYS: tuple[bytes, ...] = tuple(
    sorted(
        {bytes((value,)) for value in range(256)}
        | {bytes((value, other)) for value in (0, 1, 0x2F, 0x61, 0xFE, 0xFF) for other in (0, 255)}
        | {b"a", b"a\x00", b"a\x00\x00", b"a\x00b", b"a\x01", b"a ", b"a/", b"a/b", b"aa", b"ab"}
        | {b"\x00" * 3, b"\xff" * 3, b"\xff" * 64, "käse".encode(), bytes(range(256))}
    )
)


def must_win(outcome: Outcome) -> Stamp:
    """Returns the stamp of a write that has to win."""
    assert isinstance(outcome, Won), f"expected to win, not {outcome}"
    return outcome.stamp


def create(store: Store, key: bytes, value: bytes = b"value") -> Stamp:
    """Creates a row among the references."""
    return must_win(store.set_if(REFERENCES, key, value, ABSENT))


def change(store: Store, key: bytes, value: bytes, expected: Expected) -> Stamp:
    """Changes a row among the references, which has to win."""
    return must_win(store.set_if(REFERENCES, key, value, expected))


def fetch(store: Store, key: bytes, where: Partition = REFERENCES) -> Entry:
    """Reads a row that has to be there."""
    entry = store.get(where, key)
    assert entry is not None, f"no row {key!r}"
    return entry


def fill(store: Store, where: Partition, count: int) -> None:
    """Puts numbered rows, in batches that every store takes."""
    put_all(store, [(where, b"%05d" % number, b"x") for number in range(count)])


def put_all(store: Store, items: Sequence[Item]) -> None:
    """Puts rows, in batches that every store takes."""
    for first in range(0, len(items), 100):
        store.put_many(items[first : first + 100])


def fetch_all(store: Store, where: Partition, limit: int = SCAN_ENTRIES_MAX) -> list[Entry]:
    """Reads a whole partition page by page."""
    return fetch_range(store, where, b"", None, limit)


def fetch_range(
    store: Store, where: Partition, start: bytes, end: bytes | None, limit: int
) -> list[Entry]:
    """Reads a range page by page, and checks what every page promises."""
    entries: list[Entry] = []
    following: bytes | None = start
    while following is not None:
        page = store.scan(where, following, end, limit)
        assert len(page.entries) <= limit
        if page.next_start is not None:
            last = page.entries[-1].key if page.entries else following
            assert page.next_start > last or not page.entries, "a page must lead onwards"
            assert page.entries or page.next_start > following, "a page must lead onwards"
        entries += page.entries
        following = page.next_start
    return entries


def every_call(store: Store, stamp: Stamp, epoch: int) -> dict[str, Callable[[], object]]:
    """Returns all calls of a store that has a row `key` among the references, by their names."""
    row = SetIf(REFERENCES, b"key", b"value", stamp)
    return {
        "get": lambda: store.get(REFERENCES, b"key"),
        "get_many": lambda: store.get_many([(REFERENCES, b"key")]),
        "get_many in bulk": lambda: store.get_many([(REFERENCES, b"key")] * 20),
        "add_many": lambda: store.add_many(Adds([(OBJECTS, b"key", b"value")], 1)),
        "put_many": lambda: store.put_many([(OBJECTS, b"key", b"value")]),
        "set_if": lambda: store.set_if(REFERENCES, b"key", b"value", stamp),
        "delete": lambda: store.delete(REFERENCES, b"key"),
        "delete_if": lambda: store.delete_if(REFERENCES, b"key", stamp),
        "scan": lambda: store.scan(REFERENCES, b"", None, 10),
        "apply": lambda: store.apply(NOTHING, row),
        "apply_each": lambda: store.apply_each([(NOTHING, row)]),
        "hold": lambda: store.hold(REFERENCES, b"key").release(),
        "drop_partition": lambda: store.drop_partition(REFERENCES),
        "epoch": store.epoch,
        "flush": lambda: store.flush(epoch),
    }


def values(entries: Iterable[Entry]) -> dict[bytes, bytes]:
    """Returns keys and values of rows."""
    return {entry.key: entry.value for entry in entries}


def whole_store(store: Store) -> dict[Partition, list[Entry]]:
    """Reads everything that the suites ever write; for comparing before and after."""
    wheres = (REFERENCES, OBJECTS, STAGING, *NEIGHBOURS)
    return {where: fetch_all(store, where) for where in dict.fromkeys(wheres)}
