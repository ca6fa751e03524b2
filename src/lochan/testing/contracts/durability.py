"""Durability: what was flushed, or closed, is there when the store is opened again.

Whether the bytes survive a kill and a power cut is the matter of `CrashContract` in `crash`.
"""

from __future__ import annotations

from collections.abc import Callable

from lochan.kv.store import ABSENT, Adds, Lost, SetIf, Store
from lochan.testing.contracts.sample_rows import (
    NEIGHBOURS,
    OBJECTS,
    REFERENCES,
    change,
    create,
    fetch,
    fetch_all,
    fill,
    must_win,
    whole_store,
)

Reopen = Callable[[], Store]
"""Closes the store of the fixture `store`, or the one reopened last, and opens it again."""


class DurabilityContract:
    """For stores that outlive their process; needs the fixture `reopen`."""

    def test_everything_is_there_after_closing_and_opening(
        self, store: Store, reopen: Reopen
    ) -> None:
        for where in NEIGHBOURS:
            store.put_many([(where, key, where) for key in (b"\x00", b"a", b"\xff")])
        store.drop_partition(NEIGHBOURS[2])
        store.delete(NEIGHBOURS[3], b"a")
        adds = Adds([(OBJECTS, b"o", b"body")], 9)
        must_win(store.apply(adds, SetIf(REFERENCES, b"main", b"head", ABSENT)))
        store.flush(store.epoch())
        before = whole_store(store)
        assert whole_store(reopen()) == before
        assert whole_store(reopen()) == before

    def test_a_large_dropped_partition_stays_dropped(self, store: Store, reopen: Reopen) -> None:
        for where in NEIGHBOURS[1:4]:
            fill(store, where, 1_200)
        store.drop_partition(NEIGHBOURS[2])
        again = reopen()
        assert fetch_all(again, NEIGHBOURS[2]) == []
        assert len(fetch_all(again, NEIGHBOURS[1])) == 1_200
        assert len(fetch_all(again, NEIGHBOURS[3])) == 1_200

    def test_a_stamp_read_before_still_wins_once_after(self, store: Store, reopen: Reopen) -> None:
        stamp = create(store, b"key", b"one")
        again = reopen()
        assert fetch(again, b"key").stamp == stamp
        change(again, b"key", b"two", stamp)
        assert isinstance(again.set_if(REFERENCES, b"key", b"three", stamp), Lost)

    def test_no_stamp_comes_back_after_opening_again(self, store: Store, reopen: Reopen) -> None:
        seen: set[bytes] = set()
        current = store
        for _ in range(4):
            for _ in range(3):
                stamp = create(current, b"key", b"same")
                assert stamp not in seen
                seen.add(stamp)
                current.delete(REFERENCES, b"key")
            current = reopen()

    def test_the_epoch_of_a_reopened_store_accepts_writes(
        self, store: Store, reopen: Reopen
    ) -> None:
        create(store, b"key")
        again = reopen()
        before = again.epoch()
        again.flush(before)
        create(again, b"other")
        assert again.epoch() > before
        again.flush(again.epoch())
