"""Forks: what a child does to an inherited store never reaches its parent.

A store claims one of the two suites: its child is refused (`ForkRefusedContract`, for stores that
belong to one process), or works with connections of its own (`ForkSharedContract`).
"""

from __future__ import annotations

import gc
import os
from functools import partial
from threading import Event, Thread

from lochan.base.errors import StoreForked
from lochan.kv.store import ABSENT, PRESENT, SetIf, Store
from lochan.testing.contracts.sample_rows import (
    NOTHING,
    REFERENCES,
    STAGING,
    change,
    create,
    every_call,
    fetch,
    must_win,
    whole_store,
)
from lochan.testing.forks import ForkedChild, error_kind

CHILDREN = 12
ROWS = 40


class Busy:
    """Threads that read, write and flush while others fork; `acknowledged` is what they wrote."""

    def __init__(self, store: Store, threads: int = 3) -> None:
        self._store = store
        self._over = Event()
        self.acknowledged: list[bytes] = []
        self._threads = [Thread(target=self._work, args=(number,)) for number in range(threads)]

    def __enter__(self) -> Busy:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        turn = 0
        while not self._over.is_set():
            turn += 1
            key = b"%d/%d" % (number, turn)
            must_win(self._store.set_if(STAGING, key, key, ABSENT))
            self._store.flush(self._store.epoch())
            self.acknowledged.append(key)
            self._store.get_many([(STAGING, key)] * 20)
            self._store.scan(STAGING, b"", None, 10)

    def check(self, store: Store) -> None:
        """Checks that everything acknowledged is there."""
        for key in self.acknowledged:
            assert fetch(store, key, STAGING).value == key


class ForkRefusedContract:
    """For stores of one process: a child is refused, and the parent does not notice it."""

    def test_a_forked_child_is_refused_by_every_call(self, store: Store) -> None:
        stamp = create(store, b"key")
        epoch = store.epoch()
        store.flush(epoch)
        before = whole_store(store)
        calls = every_call(store, stamp, epoch)

        def work() -> dict[str, str]:
            return {name: error_kind(call) for name, call in calls.items()}

        assert ForkedChild(work).result() == dict.fromkeys(calls, "store_forked")
        assert whole_store(store) == before
        change(store, b"key", b"new", stamp)
        store.flush(store.epoch())

    def test_the_error_in_the_child_contains_advice(self, store: Store) -> None:
        def work() -> str:
            try:
                store.epoch()
            except StoreForked as error:
                return str(error)
            return ""

        message = ForkedChild(work).result()
        for words in ("forked", "open it in the child", "spawn", "lochan serve"):
            assert words in message

    def test_a_child_may_close_and_forget_the_store(self, store: Store) -> None:
        stores = [store]

        def work() -> str:
            stores[0].close()
            stores[0].close()
            kind = error_kind(stores[0].epoch)
            stores.clear()
            gc.collect()
            return kind

        stamp = create(store, b"key")
        store.flush(store.epoch())
        for turn in range(3):
            assert ForkedChild(work).result() == "store_forked"
            stamp = change(store, b"key", b"%d" % turn, stamp)
            store.flush(store.epoch())
        assert fetch(store, b"key").value == b"2"

    def test_a_hold_stays_with_the_parent(self, store: Store) -> None:
        create(store, b"key")
        held = store.hold(REFERENCES, b"key")
        row = SetIf(REFERENCES, b"key", b"mine", PRESENT)

        def work() -> str:
            kind = error_kind(lambda: held.apply(NOTHING, row))
            held.release()
            return kind

        assert ForkedChild(work).result() == "store_forked"
        must_win(held.apply(NOTHING, row))
        assert fetch(store, b"key").value == b"mine"

    def test_threads_inside_the_store_do_not_hold_up_a_child(self, store: Store) -> None:
        stamp = create(store, b"key")
        calls = every_call(store, stamp, store.epoch())

        def work() -> list[str]:
            kinds = [error_kind(call) for call in calls.values()]
            store.close()
            return kinds

        with Busy(store) as busy:
            for _ in range(CHILDREN):
                assert set(ForkedChild(work).result()) == {"store_forked"}
        busy.check(store)


class ForkSharedContract:
    """For stores that many processes share: a child works, with connections of its own."""

    def test_a_forked_child_and_its_parent_each_get_their_own_answers(self, store: Store) -> None:
        store.put_many([(STAGING, b"%d" % number, b"%d" % number) for number in range(ROWS)])

        def work(first: int) -> int:
            right = 0
            for turn in range(ROWS):
                key = b"%d" % ((first + turn) % ROWS)
                right += fetch(store, key, STAGING).value == key
            return right

        def wait_and_work(first: int, pipe: int) -> int:
            os.read(pipe, 1)
            return work(first)

        for turn in range(CHILDREN):
            reading, writing = os.pipe()
            first = 7 * turn + 1
            children = [ForkedChild(partial(wait_and_work, first, reading)) for _ in range(2)]
            # All begin at once, with what the parent had open when it forked.
            os.write(writing, b"go")
            assert work(0) == ROWS
            assert [child.result() for child in children] == [ROWS, ROWS]
            os.close(reading)
            os.close(writing)

    def test_every_write_of_parent_and_children_takes_effect_once(self, store: Store) -> None:
        create(store, b"count", b"0")

        def work() -> int:
            won = 0
            while won < 20:
                with_row = fetch(store, b"count")
                value = b"%d" % (int(with_row.value) + 1)
                outcome = store.set_if(REFERENCES, b"count", value, with_row.stamp)
                won += hasattr(outcome, "stamp")
            return won

        children = [ForkedChild(work) for _ in range(3)]
        work()
        assert [child.result() for child in children] == [20] * 3
        assert fetch(store, b"count").value == b"80"

    def test_a_child_that_closes_the_store_leaves_the_parent_its_connections(
        self, store: Store
    ) -> None:
        stores = [store]
        stamp = create(store, b"key")

        def work() -> str:
            fetch(stores[0], b"key")
            stores[0].close()
            kind = error_kind(stores[0].epoch)
            stores.clear()
            gc.collect()
            return kind

        for turn in range(3):
            assert ForkedChild(work).result() == "store_closed"
            stamp = change(store, b"key", b"%d" % turn, stamp)

    def test_a_hold_stays_with_the_parent(self, store: Store) -> None:
        create(store, b"key")
        held = store.hold(REFERENCES, b"key")
        row = SetIf(REFERENCES, b"key", b"mine", PRESENT)

        def work() -> str:
            kind = error_kind(lambda: held.apply(NOTHING, row))
            held.release()
            assert fetch(store, b"key").value == b"value"
            return kind

        assert ForkedChild(work).result() == "unavailable"
        must_win(held.apply(NOTHING, row))
        assert fetch(store, b"key").value == b"mine"

    def test_threads_inside_the_store_do_not_hold_up_a_child(self, store: Store) -> None:
        create(store, b"key")

        def work() -> str:
            return fetch(store, b"key").value.decode()

        with Busy(store) as busy:
            for _ in range(CHILDREN):
                assert ForkedChild(work).result() == "value"
        busy.check(store)
