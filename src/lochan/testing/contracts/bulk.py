"""Bulk calls: the same as a loop of single ones, in any order, across partitions."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import TooLarge
from lochan.kv.store import ABSENT, Adds, Entry, Lost, Partition, SetIf, Store
from lochan.testing.contracts.sample_rows import (
    KEYS,
    NEIGHBOURS,
    OBJECTS,
    REFERENCES,
    create,
    fetch,
    fetch_all,
    must_win,
    put_all,
    values,
)


class BulkContract:
    """`get_many`, `put_many` and `add_many`."""

    def test_get_many_answers_in_the_order_of_the_names(self, store: Store) -> None:
        store.put_many([(where, b"key", where[-1:]) for where in NEIGHBOURS])
        names = [(where, b"key") for where in reversed(NEIGHBOURS)]
        names.insert(3, (REFERENCES, b"absent"))
        names.append(names[0])
        found = store.get_many(names)
        assert found == [store.get(where, key) for where, key in names]
        assert found[3] is None
        assert found[-1] == found[0] is not None
        assert store.get_many([]) == []

    @pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 100])
    def test_get_many_is_a_loop_of_gets(self, store: Store, count: int) -> None:
        random = Random(count)
        put_all(store, [(REFERENCES, key, b"v" + key) for key in KEYS[::2]])
        names = [(REFERENCES, random.choice(KEYS)) for _ in range(count)]
        assert store.get_many(names) == [store.get(*name) for name in names]

    def test_put_many_writes_all_with_new_stamps_and_the_last_of_two_counts(
        self, store: Store
    ) -> None:
        first = create(store, b"a", b"old")
        items = [(REFERENCES, b"b", b"1"), (REFERENCES, b"a", b"2"), (REFERENCES, b"b", b"3")]
        store.put_many(items)
        assert values(fetch_all(store, REFERENCES)) == {b"a": b"2", b"b": b"3"}
        stamps = {fetch(store, b"a").stamp, first}
        store.put_many(items)
        stamps.add(fetch(store, b"a").stamp)
        assert len(stamps) == 3
        store.put_many([])

    def test_add_many_keeps_the_first_value(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"a", b"first"), (OBJECTS, b"a", b"second")], 3))
        entry = fetch(store, b"a", OBJECTS)
        assert (entry.value, entry.half_day) == (b"first", 3)
        store.add_many(Adds([(OBJECTS, b"a", b"third"), (OBJECTS, b"b", b"other")], 3))
        assert fetch(store, b"a", OBJECTS) == entry
        assert fetch(store, b"b", OBJECTS).value == b"other"
        store.add_many(Adds([], 3))

    def test_adding_again_is_harmless_and_renews_an_older_half_day(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"a", b"body")], 3))
        first = fetch(store, b"a", OBJECTS)
        for half_day in (3, 2, 0):
            store.add_many(Adds([(OBJECTS, b"a", b"body")], half_day))
            assert fetch(store, b"a", OBJECTS) == first
        store.add_many(Adds([(OBJECTS, b"a", b"other"), (OBJECTS, b"a", b"body")], 4))
        renewed = fetch(store, b"a", OBJECTS)
        assert (renewed.value, renewed.half_day) == (b"body", 4)
        assert renewed.stamp != first.stamp

    def test_a_collector_loses_against_a_renewed_object(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"a", b"body")], 3))
        candidate = fetch(store, b"a", OBJECTS)
        store.add_many(Adds([(OBJECTS, b"a", b"body")], 4))
        assert isinstance(store.delete_if(OBJECTS, b"a", candidate.stamp), Lost)
        assert fetch(store, b"a", OBJECTS).value == b"body"
        must_win(store.delete_if(OBJECTS, b"a", fetch(store, b"a", OBJECTS).stamp))
        store.add_many(Adds([(OBJECTS, b"a", b"new body")], 4))
        assert fetch(store, b"a", OBJECTS).value == b"new body"

    def test_the_largest_half_day_is_kept(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"a", b"body")], 2**32 - 1))
        assert fetch(store, b"a", OBJECTS).half_day == 2**32 - 1

    def test_a_row_set_or_put_has_no_half_day(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"a", b"body")], 3))
        store.put_many([(OBJECTS, b"a", b"put")])
        assert fetch(store, b"a", OBJECTS).half_day == 0
        must_win(store.set_if(OBJECTS, b"b", b"set", ABSENT))
        assert fetch(store, b"b", OBJECTS).half_day == 0

    @pytest.mark.parametrize("seed", range(8))
    def test_bulk_is_a_loop_of_singles(self, store: Store, seed: int) -> None:
        random = Random(seed)
        bulk, single = Partition(OBJECTS + b"bulk"), Partition(OBJECTS + b"single")
        pool = [b"%d" % number for number in range(30)]
        for half_day in range(1, 12):
            keys = random.choices(pool, k=random.choice((1, 2, 5, 40)))
            chosen = [(key, random.randbytes(random.choice((0, 3, 300)))) for key in keys]
            if random.random() < 0.5:
                store.put_many([(bulk, key, value) for key, value in chosen])
                for key, value in chosen:
                    store.put_many([(single, key, value)])
            else:
                day = max(1, half_day - random.choice((0, 0, 2)))
                store.add_many(Adds([(bulk, key, value) for key, value in chosen], day))
                for key, value in chosen:
                    store.add_many(Adds([(single, key, value)], day))
            gone = random.choice(pool)
            store.delete(bulk, gone)
            store.delete(single, gone)
            left, right = fetch_all(store, bulk, 7), fetch_all(store, single)
            assert _unstamped(left) == _unstamped(right)
            assert store.get_many([(bulk, key) for key in pool]) == [
                store.get(bulk, key) for key in pool
            ]

    def test_a_batch_at_the_limit_is_whole_and_one_over_is_refused(self, store: Store) -> None:
        limit = store.capabilities.batch_items_max
        names = [(OBJECTS, b"%07d" % number) for number in range(limit + 1)]
        items = [(where, key, b"x") for where, key in names]
        with pytest.raises(TooLarge):
            store.put_many(items)
        with pytest.raises(TooLarge):
            store.add_many(Adds(items, 1))
        assert fetch_all(store, OBJECTS) == []
        store.put_many(items[:limit])
        store.add_many(Adds(items[:limit], 1))
        assert len(fetch_all(store, OBJECTS)) == limit

    def test_a_bulk_read_at_the_limit_is_whole_and_one_over_is_refused(self, store: Store) -> None:
        limit = store.capabilities.read_items_max
        store.put_many([(OBJECTS, b"%07d" % number, b"x") for number in range(100)])
        names = [(OBJECTS, b"%07d" % number) for number in range(limit + 1)]
        found = store.get_many(names[:limit])
        assert [entry is not None for entry in found] == [number < 100 for number in range(limit)]
        with pytest.raises(TooLarge):
            store.get_many(names)

    def test_an_apply_at_the_limit_is_whole_and_one_over_is_refused(self, store: Store) -> None:
        can = store.capabilities
        limit = can.apply_items_max
        items = [(OBJECTS, b"%07d" % number, b"x") for number in range(limit + 1)]
        row = SetIf(REFERENCES, b"row", b"", ABSENT)
        with pytest.raises(TooLarge):
            store.apply(Adds(items, 1), row)
        value = bytes(min(can.value_bytes_max, can.apply_bytes_max))
        count = can.apply_bytes_max // len(value)
        large = [(OBJECTS, b"large %d" % number, value) for number in range(count + 1)]
        with pytest.raises(TooLarge):
            store.apply(Adds(large, 1), row)
        assert fetch_all(store, OBJECTS) == []
        stamp = must_win(store.apply(Adds(items[:limit], 1), row))
        assert len(fetch_all(store, OBJECTS)) == limit
        store.drop_partition(OBJECTS)
        must_win(store.apply(Adds(large[:count], 1), SetIf(REFERENCES, b"row", b"", stamp)))
        assert len(fetch_all(store, OBJECTS)) == count

    def test_a_batch_with_too_many_bytes_is_refused_and_writes_nothing(self, store: Store) -> None:
        can = store.capabilities
        value = bytes(can.value_bytes_max)
        count = can.batch_bytes_max // can.value_bytes_max + 1
        if count > can.batch_items_max:
            return  # so many items are refused for their number
        items = [(OBJECTS, b"%d" % number, value) for number in range(count)]
        with pytest.raises(TooLarge):
            store.put_many(items)
        with pytest.raises(TooLarge):
            store.add_many(Adds(items, 1))
        assert fetch_all(store, OBJECTS) == []


def _unstamped(entries: list[Entry]) -> list[tuple[bytes, bytes, int]]:
    return [(entry.key, entry.value, entry.half_day) for entry in entries]
