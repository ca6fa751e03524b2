"""Single rows: what was written is what is read, in this partition and in no other."""

from __future__ import annotations

import pytest

from lochan.base.errors import StoreClosed, TooLarge
from lochan.base.limits.storage import STORE_KEY_BYTES_MAX
from lochan.kv.store import ABSENT, PRESENT, Adds, SetIf, Store
from lochan.testing.contracts.sample_rows import (
    KEYS,
    NEIGHBOURS,
    NOTHING,
    OBJECTS,
    REFERENCES,
    change,
    create,
    every_call,
    fetch,
    fetch_all,
    fill,
    must_win,
    values,
)


class RowContract:
    """Reading, writing, deleting, flushing and closing."""

    def test_an_absent_row_is_none(self, store: Store) -> None:
        assert store.get(REFERENCES, b"nothing") is None
        create(store, b"something")
        assert store.get(REFERENCES, b"nothing") is None
        assert store.get(OBJECTS, b"something") is None

    def test_a_row_is_read_as_it_was_written(self, store: Store) -> None:
        stamp = create(store, b"key", b"value")
        entry = fetch(store, bytes(bytearray(b"key")))
        assert (entry.key, entry.value, entry.stamp) == (b"key", b"value", stamp)
        assert entry.half_day == 0

    def test_an_overwritten_row_shows_its_new_value_and_stamp(self, store: Store) -> None:
        first = create(store, b"key", b"one")
        second = change(store, b"key", b"two", first)
        assert fetch(store, b"key").value == b"two"
        assert fetch(store, b"key").stamp == second != first

    def test_an_empty_value_is_a_value(self, store: Store) -> None:
        stamp = create(store, b"empty", b"")
        assert fetch(store, b"empty").value == b""
        assert values(store.scan(REFERENCES, b"", None, 10).entries) == {b"empty": b""}
        change(store, b"empty", b"full", stamp)
        store.put_many([(REFERENCES, b"empty", b"")])
        assert fetch(store, b"empty").value == b""
        store.add_many(Adds([(OBJECTS, b"empty", b"")], 1))
        assert fetch(store, b"empty", OBJECTS).value == b""

    def test_every_key_is_its_own_row(self, store: Store) -> None:
        for position, key in enumerate(KEYS):
            create(store, key, b"%d" % position)
        for position, key in enumerate(KEYS):
            assert fetch(store, key).value == b"%d" % position
        store.delete(REFERENCES, b"a\x00")
        assert store.get(REFERENCES, b"a\x00") is None
        assert {entry.key for entry in fetch_all(store, REFERENCES)} == set(KEYS) - {b"a\x00"}

    def test_every_partition_is_its_own_space(self, store: Store) -> None:
        for position, where in enumerate(NEIGHBOURS):
            for key in (b"a", b"\x00", b"\xff", b"m", b"/a", b"\x01"):
                must_win(store.set_if(where, key, b"%d" % position, ABSENT))
        for position, where in enumerate(NEIGHBOURS):
            found = values(fetch_all(store, where))
            assert set(found) == {b"a", b"\x00", b"\xff", b"m", b"/a", b"\x01"}
            assert set(found.values()) == {b"%d" % position}

    def test_every_byte_of_a_value_is_kept(self, store: Store) -> None:
        value = bytes(range(256)) * 5
        create(store, b"key", value)
        assert fetch(store, b"key").value == value

    def test_the_longest_key_is_a_key(self, store: Store) -> None:
        for key in (b"\x00" * STORE_KEY_BYTES_MAX, b"\xff" * STORE_KEY_BYTES_MAX):
            create(store, key, key[:3])
            assert fetch(store, key).value == key[:3]
        assert len(store.scan(NEIGHBOURS[0], b"", None, 10).entries) == 2

    def test_a_value_at_the_limit_is_whole_and_one_over_is_refused(self, store: Store) -> None:
        limit = store.capabilities.value_bytes_max
        largest = bytes(range(256)) * (limit // 256) + bytes(limit % 256)
        stamp = create(store, b"huge", largest)
        assert fetch(store, b"huge").value == largest
        over = largest + b"!"
        bad = (REFERENCES, b"huge", over)
        with pytest.raises(TooLarge):
            store.set_if(*bad, stamp)
        with pytest.raises(TooLarge):
            store.put_many([(REFERENCES, b"small", b""), bad])
        with pytest.raises(TooLarge):
            store.add_many(Adds([(OBJECTS, b"small", b""), (OBJECTS, b"over", over)], 1))
        with pytest.raises(TooLarge):
            store.apply(NOTHING, SetIf(*bad, stamp))
        with pytest.raises(TooLarge):
            store.apply(Adds([(OBJECTS, b"over", over)], 1), SetIf(REFERENCES, b"huge", b"", stamp))
        assert fetch(store, b"huge").stamp == stamp
        assert [entry.key for entry in fetch_all(store, REFERENCES)] == [b"huge"]
        assert fetch_all(store, OBJECTS) == []

    def test_a_value_of_several_hundred_kilobytes_is_whole(self, store: Store) -> None:
        size = min(store.capabilities.value_bytes_max, 393_216)
        value = bytes(range(251)) * (size // 251)
        store.add_many(Adds([(OBJECTS, b"large", value)], 1))
        assert fetch(store, b"large", OBJECTS).value == value

    def test_delete_makes_a_row_absent_and_is_idempotent(self, store: Store) -> None:
        store.delete(REFERENCES, b"key")
        create(store, b"key")
        create(store, b"other")
        store.delete(REFERENCES, b"key")
        assert store.get(REFERENCES, b"key") is None
        store.delete(REFERENCES, b"key")
        store.delete(OBJECTS, b"other")
        assert [entry.key for entry in fetch_all(store, REFERENCES)] == [b"other"]

    def test_drop_partition_takes_all_of_one_and_nothing_of_its_neighbours(
        self, store: Store
    ) -> None:
        for where in NEIGHBOURS:
            store.put_many([(where, key, b"x") for key in (b"\x00", b"a", b"\xff" * 9)])
        for dropped in NEIGHBOURS:
            store.drop_partition(dropped)
            assert fetch_all(store, dropped) == []
            assert store.get(dropped, b"a") is None
            for where in NEIGHBOURS:
                if where != dropped:
                    assert len(fetch_all(store, where)) == 3, (dropped, where)
            store.put_many([(dropped, key, b"x") for key in (b"\x00", b"a", b"\xff" * 9)])
            assert len(fetch_all(store, dropped)) == 3

    def test_drop_partition_takes_large_ones_too_and_is_idempotent(self, store: Store) -> None:
        neighbours = (NEIGHBOURS[1], NEIGHBOURS[3])
        for where in (NEIGHBOURS[2], *neighbours):
            fill(store, where, 1_500)
        store.drop_partition(NEIGHBOURS[2])
        store.drop_partition(NEIGHBOURS[2])
        assert fetch_all(store, NEIGHBOURS[2]) == []
        for where in neighbours:
            assert len(fetch_all(store, where)) == 1_500
        store.put_many([(NEIGHBOURS[2], b"00007", b"again")])
        assert values(fetch_all(store, NEIGHBOURS[2])) == {b"00007": b"again"}

    def test_a_dropped_row_that_comes_back_has_a_new_stamp(self, store: Store) -> None:
        stamp = create(store, b"key")
        store.drop_partition(REFERENCES)
        again = create(store, b"key")
        assert again != stamp

    def test_the_epoch_counts_writes_and_flush_accepts_it(self, store: Store) -> None:
        before = store.epoch()
        create(store, b"key")
        after = store.epoch()
        assert after > before
        store.flush(after)
        store.flush(before)
        store.flush(0)
        store.flush(store.epoch())
        assert store.epoch() == after

    def test_the_epoch_never_falls_and_grows_with_every_kind_of_write(self, store: Store) -> None:
        writes = (
            lambda: store.put_many([(REFERENCES, b"a", b"1")]),
            lambda: store.add_many(Adds([(OBJECTS, b"a", b"1")], 1)),
            lambda: store.add_many(Adds([(OBJECTS, b"a", b"1")], 2)),
            lambda: store.set_if(REFERENCES, b"a", b"2", PRESENT),
            lambda: store.apply(NOTHING, SetIf(REFERENCES, b"a", b"3", PRESENT)),
            lambda: store.delete_if(REFERENCES, b"a", PRESENT),
            lambda: store.put_many([(REFERENCES, b"a", b"1")]),
            lambda: store.delete(REFERENCES, b"a"),
            lambda: store.drop_partition(OBJECTS),
        )
        last = store.epoch()
        for write in writes:
            write()
            assert store.epoch() > last
            last = store.epoch()
            store.get(REFERENCES, b"a")
            store.scan(REFERENCES, b"", None, 1)
            assert store.epoch() == last
        store.flush(last)

    def test_a_hold_shows_the_row_and_owns_the_next_apply(self, store: Store) -> None:
        held = store.hold(REFERENCES, b"key")
        assert held.entry is None
        stamp = must_win(held.apply(NOTHING, SetIf(REFERENCES, b"key", b"one", ABSENT)))
        held.release()
        second = store.hold(REFERENCES, b"key")
        assert second.entry == fetch(store, b"key")
        second.release()
        second.release()
        change(store, b"key", b"two", stamp)

    def test_capabilities_are_honest_numbers(self, store: Store) -> None:
        can = store.capabilities
        assert can.value_bytes_max >= 393_216, "an object of the largest size must fit"
        assert can.batch_bytes_max >= can.value_bytes_max
        assert can.apply_bytes_max >= can.value_bytes_max
        assert can.batch_items_max >= 100
        assert can.read_items_max >= 100
        assert can.apply_items_max >= 10
        assert store.capabilities == can

    def test_a_closed_store_refuses_every_call(self, store: Store) -> None:
        stamp = create(store, b"key")
        epoch = store.epoch()
        store.close()
        store.close()
        for call in every_call(store, stamp, epoch).values():
            with pytest.raises(StoreClosed):
                call()
        store.close()
