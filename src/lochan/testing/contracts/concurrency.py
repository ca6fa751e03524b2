"""Threads: of many conditional writes with one expectation exactly one wins.

Nothing here measures time; a barrier lets all start together, and every round is checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Barrier, Event, Thread

from lochan.base.errors import StoreClosed
from lochan.kv.store import ABSENT, Adds, Expected, Outcome, SetIf, Store, Won
from lochan.testing.contracts.sample_rows import (
    NOTHING,
    OBJECTS,
    REFERENCES,
    STAGING,
    create,
    fetch,
    fetch_all,
    must_win,
)

THREADS = 4
ROUNDS = 60


def together(count: int, work: Callable[[int], None]) -> None:
    """Runs the work in so many threads that start together; raises what one of them raised.

    The interpreter changes threads as often as it can meanwhile, or races would be rare.
    """
    barrier = Barrier(count)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if failures:
        raise failures[0]


class ConcurrencyContract:
    """Many threads on one store."""

    def test_of_many_conditional_writes_with_one_expectation_exactly_one_wins(
        self, store: Store
    ) -> None:
        expected: Expected = ABSENT
        for turn in range(ROUNDS):
            outcomes: list[Outcome | None] = [None] * THREADS

            def attempt(
                number: int,
                outcomes: list[Outcome | None] = outcomes,
                expected: Expected = expected,
                turn: int = turn,
            ) -> None:
                value = b"%d/%d" % (turn, number)
                if number % 2:
                    outcomes[number] = store.set_if(REFERENCES, b"main", value, expected)
                else:
                    row = SetIf(REFERENCES, b"main", value, expected)
                    outcomes[number] = store.apply(Adds([(OBJECTS, value, value)], 1), row)

            together(THREADS, attempt)
            winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Won)]
            assert len(winners) == 1, outcomes
            entry = fetch(store, b"main")
            assert entry.value == b"%d/%d" % (turn, winners[0])
            assert entry.stamp == must_win(outcomes[winners[0]] or _no_outcome())
            expected = entry.stamp

    def test_a_counter_advanced_by_many_threads_loses_nothing(self, store: Store) -> None:
        create(store, b"counter", b"0")
        wins = [0] * THREADS

        def advance(number: int) -> None:
            while wins[number] < 25:
                entry = fetch(store, b"counter")
                value = b"%d" % (int(entry.value) + 1)
                if isinstance(store.set_if(REFERENCES, b"counter", value, entry.stamp), Won):
                    wins[number] += 1

        together(THREADS, advance)
        assert int(fetch(store, b"counter").value) == 25 * THREADS

    def test_of_many_deletes_with_one_stamp_exactly_one_wins(self, store: Store) -> None:
        for _ in range(20):
            stamp = create(store, b"victim")
            won: list[int] = []

            def attempt(number: int, stamp: Expected = stamp, won: list[int] = won) -> None:
                if isinstance(store.delete_if(REFERENCES, b"victim", stamp), Won):
                    won.append(number)

            together(THREADS, attempt)
            assert len(won) == 1
            assert store.get(REFERENCES, b"victim") is None

    def test_of_many_that_add_one_object_the_first_value_stays(self, store: Store) -> None:
        def add(number: int) -> None:
            for key in range(40):
                store.add_many(Adds([(OBJECTS, b"%d" % key, b"%d" % number)], 1))
                first = fetch(store, b"%d" % key, OBJECTS)
                assert fetch(store, b"%d" % key, OBJECTS) == first

        together(THREADS, add)
        assert len(fetch_all(store, OBJECTS)) == 40

    def test_a_scan_beside_writers_returns_what_was_there_exactly_once(self, store: Store) -> None:
        alive = [b"%04d" % number for number in range(0, 300, 3)]
        store.put_many([(STAGING, key, b"x") for key in alive])
        done = Event()

        def work(number: int) -> None:
            if number:
                turn = number
                while not done.is_set():
                    turn = (turn * 7 + 3) % 300
                    key = b"%04d" % (turn - turn % 3 + number)
                    store.put_many([(STAGING, key, b"y")])
                    store.delete(STAGING, key)
                return
            try:
                for limit in (1, 7, 50, 1_000):
                    keys = [entry.key for entry in fetch_all(store, STAGING, limit)]
                    assert keys == sorted(set(keys))
                    assert [key for key in keys if int(key) % 3 == 0] == alive
            finally:
                done.set()

        together(3, work)

    def test_what_apply_writes_is_seen_whole_where_it_is_atomic(self, store: Store) -> None:
        if not store.capabilities.atomic_apply:
            return
        done = Event()

        def work(number: int) -> None:
            if not number:
                try:
                    for turn in range(150):
                        key = b"%d" % turn
                        adds = Adds([(OBJECTS, b"a" + key, b""), (OBJECTS, b"b" + key, b"")], 1)
                        store.apply(adds, SetIf(REFERENCES, key, b"", ABSENT))
                finally:
                    done.set()
                return
            while not done.is_set():
                for entry in fetch_all(store, REFERENCES):
                    assert store.get(OBJECTS, b"a" + entry.key) is not None
                    assert store.get(OBJECTS, b"b" + entry.key) is not None

        together(2, work)
        assert len(fetch_all(store, OBJECTS)) == 300

    def test_many_may_flush_together(self, store: Store) -> None:
        def work(number: int) -> None:
            for turn in range(15):
                store.put_many([(STAGING, b"%d/%d" % (number, turn), b"x")])
                store.flush(store.epoch())

        together(THREADS, work)
        assert len(fetch_all(store, STAGING)) == 15 * THREADS

    def test_closing_beside_running_calls_ends_them_with_store_closed(self, store: Store) -> None:
        store.put_many([(STAGING, b"%03d" % number, b"x" * 100) for number in range(100)])
        names = [(STAGING, b"%03d" % number) for number in range(100)]

        def use() -> None:
            store.put_many([(STAGING, b"000", b"y")])
            store.flush(store.epoch())
            assert all(store.get_many(names))
            assert len(fetch_all(store, STAGING, 50)) == 100
            assert store.get(STAGING, b"001") is not None
            store.apply(NOTHING, SetIf(REFERENCES, b"main", b"", ABSENT))

        ready = Barrier(THREADS)

        def work(number: int) -> None:
            use()
            ready.wait()
            if not number:
                store.close()
                return
            with suppress(StoreClosed):
                while True:
                    use()

        together(THREADS, work)


def _no_outcome() -> Outcome:
    raise AssertionError("a winner has an outcome")
