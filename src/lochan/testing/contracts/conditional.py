"""Conditional writes: won or lost, never both, and a stamp that never comes back."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import Invalid
from lochan.kv.store import (
    ABSENT,
    PRESENT,
    Adds,
    Entry,
    Lost,
    SetIf,
    Stamp,
    Store,
    Won,
)
from lochan.testing.contracts.sample_rows import (
    NOTHING,
    OBJECTS,
    REFERENCES,
    change,
    create,
    fetch,
    fetch_all,
    must_win,
)


def must_lose(outcome: object, current: Entry | None) -> None:
    """Checks that a write lost and returned the row that was there, or None for "not known"."""
    assert isinstance(outcome, Lost), f"expected to lose, not {outcome}"
    if outcome.current is None:
        return
    assert outcome.current == (ABSENT if current is None else current)


class ConditionalContract:
    """`set_if`, `delete_if` and `apply`."""

    def test_absent_creates_and_then_loses(self, store: Store) -> None:
        create(store, b"key", b"one")
        entry = fetch(store, b"key")
        must_lose(store.set_if(REFERENCES, b"key", b"two", ABSENT), entry)
        assert fetch(store, b"key") == entry

    def test_present_needs_a_row_and_leaves_nothing_without_one(self, store: Store) -> None:
        must_lose(store.set_if(REFERENCES, b"key", b"one", PRESENT), None)
        assert store.get(REFERENCES, b"key") is None
        assert fetch_all(store, REFERENCES) == []
        create(store, b"key", b"one")
        change(store, b"key", b"two", PRESENT)
        assert fetch(store, b"key").value == b"two"

    def test_a_stamp_wins_once(self, store: Store) -> None:
        first = create(store, b"key", b"one")
        change(store, b"key", b"two", first)
        entry = fetch(store, b"key")
        must_lose(store.set_if(REFERENCES, b"key", b"three", first), entry)
        must_lose(store.delete_if(REFERENCES, b"key", first), entry)
        assert fetch(store, b"key") == entry

    def test_a_stamp_read_by_a_scan_or_in_bulk_wins_too(self, store: Store) -> None:
        create(store, b"key", b"one")
        (scanned,) = store.scan(REFERENCES, b"", None, 10).entries
        change(store, b"key", b"two", scanned.stamp)
        (read,) = store.get_many([(REFERENCES, b"key")])
        assert read is not None
        change(store, b"key", b"three", read.stamp)

    def test_the_stamp_of_an_empty_value_is_a_stamp(self, store: Store) -> None:
        stamp = create(store, b"key", b"")
        change(store, b"key", b"full", stamp)
        must_lose(store.set_if(REFERENCES, b"key", b"", stamp), fetch(store, b"key"))

    def test_writing_the_same_value_again_is_a_new_write(self, store: Store) -> None:
        first = create(store, b"key", b"same")
        second = change(store, b"key", b"same", first)
        assert first != second
        must_lose(store.set_if(REFERENCES, b"key", b"other", first), fetch(store, b"key"))

    def test_a_stamp_expected_of_a_row_that_never_was_loses(self, store: Store) -> None:
        stamp = create(store, b"key")
        must_lose(store.set_if(REFERENCES, b"other", b"x", stamp), None)
        must_lose(store.delete_if(REFERENCES, b"other", stamp), None)
        must_lose(store.set_if(OBJECTS, b"key", b"x", stamp), None)
        must_lose(store.set_if(REFERENCES, b"key", b"x", Stamp(b"")), fetch(store, b"key"))
        must_lose(
            store.set_if(REFERENCES, b"key", b"x", Stamp(stamp + b"\0")), fetch(store, b"key")
        )
        must_lose(store.set_if(REFERENCES, b"key", b"x", Stamp(stamp[:-1])), fetch(store, b"key"))
        assert [entry.key for entry in fetch_all(store, REFERENCES)] == [b"key"]

    def test_the_stamp_of_a_deleted_row_loses_even_after_it_was_created_again(
        self, store: Store
    ) -> None:
        first = create(store, b"key", b"one")
        store.delete(REFERENCES, b"key")
        must_lose(store.set_if(REFERENCES, b"key", b"two", first), None)
        must_lose(store.delete_if(REFERENCES, b"key", first), None)
        create(store, b"key", b"one")
        must_lose(store.set_if(REFERENCES, b"key", b"two", first), fetch(store, b"key"))
        assert fetch(store, b"key").value == b"one"

    @pytest.mark.parametrize("seed", range(5))
    def test_no_stamp_of_a_row_ever_comes_back(self, store: Store, seed: int) -> None:
        random = Random(seed)
        seen: set[bytes] = set()
        for number in range(120):
            value = random.choice((b"same", b"%d" % number))
            entry = store.get(REFERENCES, b"key")
            step = random.randrange(5)
            if entry is None:
                create(store, b"key", value)
            elif step == 0:
                store.delete(REFERENCES, b"key")
                continue
            elif step == 1:
                must_win(store.delete_if(REFERENCES, b"key", entry.stamp))
                continue
            elif step == 2:
                store.put_many([(REFERENCES, b"key", value)])
            elif step == 3:
                must_win(store.apply(NOTHING, SetIf(REFERENCES, b"key", value, entry.stamp)))
            else:
                change(store, b"key", value, entry.stamp)
            stamp = fetch(store, b"key").stamp
            assert stamp not in seen
            seen.add(stamp)

    def test_delete_if_deletes_what_is_as_expected(self, store: Store) -> None:
        must_lose(store.delete_if(REFERENCES, b"key", PRESENT), None)
        stamp = create(store, b"key")
        outcome = store.delete_if(REFERENCES, b"key", stamp)
        assert outcome == Won(stamp)
        assert store.get(REFERENCES, b"key") is None
        create(store, b"key")
        must_win(store.delete_if(REFERENCES, b"key", PRESENT))
        assert store.get(REFERENCES, b"key") is None
        with pytest.raises(Invalid):
            store.delete_if(REFERENCES, b"key", ABSENT)

    def test_a_put_invalidates_the_stamp_that_was_read(self, store: Store) -> None:
        stamp = create(store, b"key", b"one")
        store.put_many([(REFERENCES, b"key", b"two")])
        must_lose(store.set_if(REFERENCES, b"key", b"three", stamp), fetch(store, b"key"))
        assert fetch(store, b"key").value == b"two"

    def test_apply_writes_objects_and_row(self, store: Store) -> None:
        objects = [(OBJECTS, b"%d" % number, b"body %d" % number) for number in range(5)]
        row = SetIf(REFERENCES, b"main", b"head", ABSENT)
        stamp = must_win(store.apply(Adds(objects, 7), row))
        assert fetch(store, b"main").stamp == stamp
        assert fetch(store, b"main").value == b"head"
        assert fetch(store, b"main").half_day == 0
        for where, key, value in objects:
            assert fetch(store, key, where).value == value
            assert fetch(store, key, where).half_day == 7
        change(store, b"main", b"next", stamp)

    def test_apply_that_loses_leaves_the_row_and_atomic_ones_leave_no_objects(
        self, store: Store
    ) -> None:
        stamp = create(store, b"main", b"one")
        entry = fetch(store, b"main")
        adds = Adds([(OBJECTS, b"object", b"body")], 7)
        stale = must_win(store.set_if(REFERENCES, b"other", b"x", ABSENT))
        for expected in (ABSENT, stale, Stamp(b"\0" * 8)):
            must_lose(store.apply(adds, SetIf(REFERENCES, b"main", b"two", expected)), entry)
        for wrong in (PRESENT, stamp):
            must_lose(store.apply(adds, SetIf(REFERENCES, b"absent", b"two", wrong)), None)
        assert fetch(store, b"main") == entry
        assert store.get(REFERENCES, b"absent") is None
        if store.capabilities.atomic_apply:
            assert store.get(OBJECTS, b"object") is None

    def test_apply_keeps_objects_that_exist_and_renews_them(self, store: Store) -> None:
        store.add_many(Adds([(OBJECTS, b"old", b"first"), (OBJECTS, b"new", b"first")], 5))
        store.add_many(Adds([(OBJECTS, b"new", b"first")], 9))
        before = fetch(store, b"old", OBJECTS), fetch(store, b"new", OBJECTS)
        adds = Adds(
            [(OBJECTS, b"old", b"2nd"), (OBJECTS, b"new", b"2nd"), (OBJECTS, b"x", b"x")], 7
        )
        must_win(store.apply(adds, SetIf(REFERENCES, b"main", b"head", ABSENT)))
        old = fetch(store, b"old", OBJECTS)
        assert (old.value, old.half_day) == (b"first", 7)
        assert old.stamp != before[0].stamp
        assert fetch(store, b"new", OBJECTS) == before[1]
        assert fetch(store, b"x", OBJECTS).value == b"x"

    def test_apply_without_objects_is_a_conditional_set(self, store: Store) -> None:
        stamp = must_win(store.apply(NOTHING, SetIf(REFERENCES, b"main", b"one", ABSENT)))
        must_win(store.apply(NOTHING, SetIf(REFERENCES, b"main", b"two", stamp)))
        must_lose(
            store.apply(NOTHING, SetIf(REFERENCES, b"main", b"three", stamp)), fetch(store, b"main")
        )
        assert fetch(store, b"main").value == b"two"

    def test_several_changes_are_each_won_or_lost(self, store: Store) -> None:
        stamps = [create(store, b"row%d" % n) for n in range(4)]
        change(store, b"row2", b"meanwhile", stamps[2])
        shared = (OBJECTS, b"shared", b"by all")
        changes = [
            (
                Adds([(OBJECTS, b"own%d" % n, b"object %d" % n), shared], 7),
                SetIf(REFERENCES, b"row%d" % n, b"new %d" % n, stamps[n]),
            )
            for n in (2, 0, 3, 1)
        ]
        outcomes = store.apply_each(changes)
        must_lose(outcomes[0], fetch(store, b"row2"))
        assert fetch(store, b"row2").value == b"meanwhile"
        for n, outcome in zip((0, 3, 1), outcomes[1:], strict=True):
            entry = fetch(store, b"row%d" % n)
            assert (entry.value, entry.stamp) == (b"new %d" % n, must_win(outcome))
            assert store.get(OBJECTS, b"own%d" % n) is not None
        if store.capabilities.atomic_apply:
            assert store.get(OBJECTS, b"own2") is None
        added = store.get(OBJECTS, b"shared")
        assert added is not None
        assert (added.value, added.half_day) == (b"by all", 7)
        again = [
            (NOTHING, SetIf(REFERENCES, b"row0", b"later", must_win(outcomes[1]))),
            (NOTHING, SetIf(REFERENCES, b"fresh", b"made", ABSENT)),
        ]
        assert [isinstance(one, Won) for one in store.apply_each(again)] == [True, True]
        assert store.apply_each([]) == []
