"""Scans: ordered by bytes, without gap and without repeat, whatever the page and the bounds."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.kv.store import PRESENT, Adds, Store
from lochan.testing.contracts.sample_rows import (
    KEYS,
    NEIGHBOURS,
    OBJECTS,
    REFERENCES,
    STAGING,
    fetch,
    fetch_all,
    fetch_range,
    must_win,
    put_all,
    values,
)


def fill(store: Store) -> None:
    """Writes every key, and the same keys into a neighbour that must not be seen."""
    put_all(store, [(REFERENCES, key, b"v" + key) for key in KEYS])
    put_all(store, [(NEIGHBOURS[1], key, b"not this one") for key in KEYS])
    put_all(store, [(NEIGHBOURS[10], key, b"nor this one") for key in KEYS])


class ScanContract:
    """`scan`, page by page."""

    def test_an_empty_partition_has_an_empty_page(self, store: Store) -> None:
        page = store.scan(STAGING, b"", None, 10)
        assert (page.entries, page.next_start) == ([], None)
        store.put_many([(REFERENCES, b"key", b"x")])
        assert store.scan(STAGING, b"", None, 10).entries == []

    def test_a_scan_returns_every_row_in_the_order_of_its_bytes(self, store: Store) -> None:
        fill(store)
        entries = fetch_all(store, REFERENCES)
        assert [entry.key for entry in entries] == sorted(KEYS)
        for entry in entries:
            assert entry.value == b"v" + entry.key
            assert entry == fetch(store, entry.key)

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 50, 99, SCAN_ENTRIES_MAX])
    def test_pages_concatenate_to_the_whole(self, store: Store, limit: int) -> None:
        fill(store)
        whole = fetch_all(store, REFERENCES)
        assert fetch_all(store, REFERENCES, limit) == whole
        assert [entry.key for entry in whole] == sorted(KEYS)

    def test_a_page_that_ends_with_the_last_row_leads_nowhere(self, store: Store) -> None:
        store.put_many([(STAGING, b"%d" % number, b"x") for number in range(5)])
        keys: list[bytes] = []
        for limit in (5, 6):
            page = store.scan(STAGING, b"", None, limit)
            keys = [entry.key for entry in page.entries]
            assert keys == [b"0", b"1", b"2", b"3", b"4"]
            if page.next_start is not None:
                assert store.scan(STAGING, page.next_start, None, limit).entries == []
        assert len(keys) == 5

    def test_start_is_in_and_end_is_out(self, store: Store) -> None:
        store.put_many([(STAGING, key, b"x") for key in (b"a", b"b", b"b\x00", b"c")])

        def found(start: bytes, end: bytes | None) -> list[bytes]:
            return [entry.key for entry in fetch_range(store, STAGING, start, end, 10)]

        assert found(b"b", b"c") == [b"b", b"b\x00"]
        assert found(b"b", b"b") == []
        assert found(b"c", b"a") == []
        assert found(b"b", b"b\x00") == [b"b"]
        assert found(b"b\x00", None) == [b"b\x00", b"c"]
        assert found(b"aa", b"bb") == [b"b", b"b\x00"]
        assert found(b"", b"a") == []
        assert found(b"", b"") == []
        assert found(b"d", None) == []
        assert found(b"", b"\xff" * 10) == [b"a", b"b", b"b\x00", b"c"]

    @pytest.mark.parametrize("seed", range(4))
    def test_any_range_is_that_of_a_sorted_list(self, store: Store, seed: int) -> None:
        random = Random(seed)
        fill(store)
        for _ in range(60):
            start = random.choice((b"", random.choice(KEYS), random.randbytes(2)))
            end = random.choice((None, random.choice(KEYS), random.randbytes(2)))
            limit = random.choice((1, 3, 40, 1_000))
            entries = fetch_range(store, REFERENCES, start, end, limit)
            expected = [key for key in sorted(KEYS) if key >= start and (end is None or key < end)]
            assert [entry.key for entry in entries] == expected

    def test_prefixes_are_ranges(self, store: Store) -> None:
        keys = [b"a", b"a/", b"a/1", b"a/1/x", b"a/2", b"a0", b"b/1"]
        store.put_many([(STAGING, key, key) for key in keys])
        store.put_many([(NEIGHBOURS[3], b"a/1", b"elsewhere")])
        under = fetch_range(store, STAGING, b"a/", b"a0", 2)
        assert [entry.key for entry in under] == [b"a/", b"a/1", b"a/1/x", b"a/2"]

    def test_deleted_rows_are_not_scanned(self, store: Store) -> None:
        store.put_many([(STAGING, b"%03d" % number, b"x") for number in range(100)])
        for number in range(0, 100, 2):
            store.delete(STAGING, b"%03d" % number)
        assert len(fetch_all(store, STAGING, 7)) == 50
        store.put_many([(STAGING, b"000", b"back")])
        assert fetch_all(store, STAGING, 7)[0].value == b"back"

    def test_a_row_deleted_between_pages_does_not_break_the_scan(self, store: Store) -> None:
        store.put_many([(STAGING, b"%03d" % number, b"x") for number in range(100)])
        for cut in (95, 99):
            page = store.scan(STAGING, b"", None, cut)
            store.delete(STAGING, b"099")
            rest = (
                []
                if page.next_start is None
                else fetch_range(store, STAGING, page.next_start, None, 10)
            )
            assert len(page.entries) + len(rest) == 99
            store.put_many([(STAGING, b"099", b"x")])

    @pytest.mark.parametrize("order", ["RD", "DR", "RRD", "RDR", "DRR", "RDRD"])
    def test_reading_one_prefix_while_deleting_another(self, store: Store, order: str) -> None:
        for prefix in (b"keep/", b"gone/"):
            store.put_many([(STAGING, prefix + b"%03d" % n, prefix) for n in range(40)])
        following: bytes | None = b"keep/"
        read: list[bytes] = []
        to_delete = [b"gone/%03d" % number for number in range(40)]
        turn = 0
        while following is not None or to_delete:
            if order[turn % len(order)] == "R" and following is not None:
                page = store.scan(STAGING, following, b"keep0", 3)
                read += [entry.key for entry in page.entries]
                following = page.next_start
            elif to_delete:
                store.delete(STAGING, to_delete.pop())
            turn += 1
        assert read == [b"keep/%03d" % number for number in range(40)]
        assert [entry.key for entry in fetch_all(store, STAGING)] == read

    def test_deleting_a_nested_prefix_while_reading_around_it(self, store: Store) -> None:
        store.put_many([(STAGING, b"a/%03d" % number, b"x") for number in range(60)])
        store.put_many([(STAGING, b"a/030/%03d" % number, b"y") for number in range(60)])
        read: list[bytes] = []
        following: bytes | None = b"a/"
        to_delete = [b"a/030/%03d" % number for number in range(60)]
        while following is not None:
            page = store.scan(STAGING, following, b"a0", 7)
            read += [entry.key for entry in page.entries]
            following = page.next_start
            for _ in range(6):
                if to_delete:
                    store.delete(STAGING, to_delete.pop())
        plain = [key for key in read if not key.startswith(b"a/030/")]
        assert plain == [b"a/%03d" % number for number in range(60)]
        assert len(set(read)) == len(read)
        for key in to_delete:
            store.delete(STAGING, key)
        assert len(fetch_all(store, STAGING)) == 60

    def test_long_keys_are_in_the_order_of_all_their_bytes(self, store: Store) -> None:
        random = Random(3)
        ends = (b"", b"\x00", b"\x01", b"\x01\x00", b"\xff", b"a", b"ab")
        keys = {b"h" * length + end for length in (998, 1_000, 2_000, 3_000) for end in ends}
        keys |= {random.randbytes(2) * random.randrange(1, 2_048) for _ in range(40)}
        put_all(store, [(STAGING, key, key[-3:]) for key in sorted(keys, key=hash)])
        assert [entry.key for entry in fetch_all(store, STAGING, 7)] == sorted(keys)
        bounds = sorted({*keys, *(key + b"\x00" for key in keys if len(key) < 4_096)})
        for _ in range(60):
            start, end = random.choice(bounds), random.choice((None, *bounds))
            found = [entry.key for entry in fetch_range(store, STAGING, start, end, 9)]
            assert found == [
                key for key in sorted(keys) if key >= start and not (end and key >= end)
            ]
        long = max(keys, key=len)
        must_win(store.delete_if(STAGING, long, PRESENT))
        assert store.get(STAGING, long) is None
        store.drop_partition(STAGING)
        assert fetch_all(store, STAGING) == []
        assert all(store.get(STAGING, key) is None for key in keys)

    def test_rows_alive_throughout_are_returned_exactly_once(self, store: Store) -> None:
        random = Random(11)
        alive = [b"%04d" % number for number in range(0, 400, 2)]
        put_all(store, [(STAGING, key, b"x") for key in alive])
        for limit in (1, 3, 16):
            read: list[bytes] = []
            following: bytes | None = b""
            while following is not None:
                page = store.scan(STAGING, following, None, limit)
                read += [entry.key for entry in page.entries]
                following = page.next_start
                flicker = b"%04d" % random.randrange(1, 400, 2)
                if random.random() < 0.5:
                    store.put_many([(STAGING, flicker, b"y")])
                else:
                    store.delete(STAGING, flicker)
                store.put_many([(STAGING, random.choice(alive), b"changed")])
            assert read == sorted(set(read))
            assert [key for key in read if int(key) % 2 == 0] == alive

    def test_scanned_rows_carry_the_half_day(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"object", b"body")], 41))
        (entry,) = fetch_all(store, OBJECTS)
        assert entry.half_day == 41
        assert values([entry]) == {b"object": b"body"}
