"""Walks: the rows of many partitions, each once, for stores with that ability (`kv.walk`)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from lochan.base.errors import Invalid
from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.kv.store import Adds, Entry, Item, Kind, Partition, Store, partition
from lochan.kv.walk import Located, find_walk
from lochan.testing.contracts.sample_rows import (
    INSTANCE,
    NEIGHBOURS,
    REFERENCES,
    fetch_all,
    put_all,
)

_OBJECTS = partition(INSTANCE, Kind.OBJECTS)
_SPREAD = [Partition(_OBJECTS + number.to_bytes(2, "big")) for number in (0, 1, 255, 256, 65_535)]
_LONG = [b"h" * size + end for size in (999, 1_000, 2_000, 3_000) for end in (b"", b"\0", b"z")]


def walk_all(store: Store, prefix: bytes, limit: int = 7) -> list[Located]:
    """Walks to the end, and checks what every page promises."""
    walk = find_walk(store)
    assert walk is not None, "the store does not claim to walk"
    rows: list[Located] = []
    cursor: bytes | None = b""
    while cursor is not None:
        page = walk(prefix, cursor, limit)
        assert len(page.rows) <= limit
        assert page.next_cursor != cursor, "a page must lead onwards"
        rows += page.rows
        cursor = page.next_cursor
    return rows


def _sorted(rows: list[Located]) -> list[tuple[Partition, Entry]]:
    return sorted(rows, key=lambda row: (row[0], row[1].key))


class WalkContract:
    """`walk`, page by page."""

    def test_a_walk_of_nothing_is_empty(self, store: Store) -> None:
        store.put_many([(NEIGHBOURS[-1], b"key", b"x")])
        assert walk_all(store, _OBJECTS) == []

    @pytest.mark.parametrize("limit", [1, 7, SCAN_ENTRIES_MAX])
    def test_a_walk_returns_the_rows_of_all_scans(self, store: Store, limit: int) -> None:
        keys = (b"\0", b"a", b"a\0", b"\xff\xff")
        items: list[Item] = [(where, key, key) for where in (*_SPREAD, *NEIGHBOURS) for key in keys]
        put_all(store, items)
        store.add_many(Adds([(_SPREAD[1], b"object", b"body")], 41))
        for prefix in (_OBJECTS, bytes(REFERENCES), bytes(INSTANCE), bytes(_SPREAD[0]), b"\xff"):
            wheres = [where for where in (*_SPREAD, *NEIGHBOURS) if where.startswith(prefix)]
            scanned = [(where, entry) for where in wheres for entry in fetch_all(store, where)]
            assert _sorted(walk_all(store, prefix, limit)) == _sorted(scanned)

    def test_long_keys_are_walked_too(self, store: Store) -> None:
        wheres = (_SPREAD[0], _SPREAD[1])
        put_all(store, [(where, key, key[-3:]) for where in wheres for key in _LONG])
        for limit in (1, 2, 50):
            found = walk_all(store, _OBJECTS, limit)
            assert _sorted(found) == [(w, e) for w in wheres for e in fetch_all(store, w)]

    def test_rows_alive_throughout_are_walked_exactly_once(self, store: Store) -> None:
        random = Random(5)
        alive = [(random.choice(_SPREAD), b"%04d" % number) for number in range(0, 120, 2)]
        put_all(store, [(where, key, b"x") for where, key in alive])
        walk = find_walk(store)
        assert walk is not None
        seen: Counter[tuple[Partition, bytes]] = Counter()
        cursor: bytes | None = b""
        while cursor is not None:
            page = walk(_OBJECTS, cursor, 5)
            seen.update((where, entry.key) for where, entry in page.rows)
            cursor = page.next_cursor
            flicker = (random.choice(_SPREAD), b"%04d" % random.randrange(1, 120, 2))
            if random.random() < 0.5:
                store.put_many([(*flicker, b"y")])
            else:
                store.delete(*flicker)
            store.put_many([(*random.choice(alive), b"changed")])
        assert {name: seen[name] for name in alive} == dict.fromkeys(alive, 1)
        assert max(seen.values()) == 1

    def test_bad_arguments_are_refused(self, store: Store) -> None:
        walk = find_walk(store)
        assert walk is not None
        for prefix, cursor, limit in (
            (b"", b"", 1),
            (b"x" * 256, b"", 1),
            (_OBJECTS, b"", 0),
            (_OBJECTS, b"", SCAN_ENTRIES_MAX + 1),
            (_OBJECTS, "text", 1),
        ):
            with pytest.raises(Invalid):
                walk(prefix, cursor, limit)  # type: ignore[arg-type]
