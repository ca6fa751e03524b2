"""Faults: an unknown outcome can always be resolved, on this store as on any other.

The store is wrapped in `FaultyStore`; what is tested is that the store's stamps carry the method
by which everything above resolves Unknown: send the same conditional write again, then read.
"""

from __future__ import annotations

import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.kv.store import ABSENT, Adds, Expected, Lost, Outcome, SetIf, Store, Won
from lochan.testing.contracts.sample_rows import (
    OBJECTS,
    REFERENCES,
    create,
    fetch,
    fetch_all,
    must_win,
)
from lochan.testing.faults import Fault, FaultKind, FaultyStore, ListedFaults, SimulatedCrash

ADDS = Adds([(OBJECTS, b"object", b"body")], 1)


def faulty(store: Store, *faults: Fault, atomic_apply: bool | None = None) -> FaultyStore:
    """Wraps a store so that its next calls meet these faults, one each."""
    return FaultyStore(store, ListedFaults(dict(enumerate(faults))), atomic_apply=atomic_apply)


def write(store: Store, how: str, value: bytes, expected: Expected) -> Outcome:
    """Sends a conditional write in one of its two forms."""
    if how == "set_if":
        return store.set_if(REFERENCES, b"main", value, expected)
    return store.apply(ADDS, SetIf(REFERENCES, b"main", value, expected))


both_ways = pytest.mark.parametrize("how", ["set_if", "apply"])


class FaultContract:
    """The store under planned faults."""

    @both_ways
    def test_a_write_that_was_not_applied_may_be_sent_again(self, store: Store, how: str) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.NOT_APPLIED))
        with pytest.raises(Unavailable):
            write(wrapped, how, b"two", stamp)
        assert fetch(store, b"main").value == b"one"
        assert store.get(OBJECTS, b"object") is None
        must_win(write(wrapped, how, b"two", stamp))

    @both_ways
    def test_a_lost_reply_is_resolved_by_sending_again_and_reading(
        self, store: Store, how: str
    ) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.LOST_REPLY))
        with pytest.raises(Unknown):
            write(wrapped, how, b"two", stamp)
        again = write(wrapped, how, b"two", stamp)
        assert isinstance(again, Lost), "the first copy used the stamp up"
        assert fetch(store, b"main").value == b"two"

    @both_ways
    @pytest.mark.parametrize("calls", [1, 2, 3])
    def test_a_late_write_and_its_second_copy_take_effect_once(
        self, store: Store, how: str, calls: int
    ) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.LATE, calls))
        with pytest.raises(Unknown):
            write(wrapped, how, b"two", stamp)
        assert fetch(store, b"main").value == b"one", "not yet"
        outcome = write(wrapped, how, b"two", stamp)
        assert isinstance(outcome, Lost if calls == 1 else Won)
        moved = fetch(store, b"main")
        assert moved.value == b"two"
        wrapped.get(REFERENCES, b"main")
        wrapped.settle()
        assert fetch(store, b"main") == moved, "the late copy must lose"

    @both_ways
    def test_a_late_write_loses_against_an_earlier_one(self, store: Store, how: str) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.LATE, 3))
        with pytest.raises(Unknown):
            write(wrapped, how, b"mine", stamp)
        assert fetch(wrapped, b"main").value == b"one"
        theirs = must_win(wrapped.set_if(REFERENCES, b"main", b"theirs", stamp))
        assert fetch(wrapped, b"main").stamp == theirs
        assert wrapped.late_writes == 0
        assert fetch(store, b"main").value == b"theirs"

    @both_ways
    def test_a_late_create_loses_after_create_and_delete_only_to_a_live_row(
        self, store: Store, how: str
    ) -> None:
        wrapped = faulty(store, Fault(FaultKind.LATE, 9))
        with pytest.raises(Unknown):
            write(wrapped, how, b"mine", ABSENT)
        create(wrapped, b"main", b"theirs")
        wrapped.settle()
        assert fetch(store, b"main").value == b"theirs"

    @both_ways
    def test_a_late_write_on_a_deleted_and_recreated_row_loses(
        self, store: Store, how: str
    ) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.LATE, 9))
        with pytest.raises(Unknown):
            write(wrapped, how, b"mine", stamp)
        wrapped.delete(REFERENCES, b"main")
        create(wrapped, b"main", b"one")
        wrapped.settle()
        assert fetch(store, b"main").value == b"one"

    @both_ways
    def test_a_crash_leaves_all_or_nothing(self, store: Store, how: str) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.CRASH_BEFORE), Fault(FaultKind.CRASH_AFTER))
        with pytest.raises(SimulatedCrash):
            write(wrapped, how, b"two", stamp)
        assert fetch(store, b"main").value == b"one"
        assert store.get(OBJECTS, b"object") is None
        with pytest.raises(SimulatedCrash):
            write(wrapped, how, b"two", stamp)
        assert fetch(store, b"main").value == b"two"

    def test_a_late_delete_spares_what_came_after(self, store: Store) -> None:
        stamp = create(store, b"main", b"one")
        wrapped = faulty(store, Fault(FaultKind.LATE, 9))
        with pytest.raises(Unknown):
            wrapped.delete_if(REFERENCES, b"main", stamp)
        must_win(wrapped.set_if(REFERENCES, b"main", b"two", stamp))
        wrapped.settle()
        assert fetch(store, b"main").value == b"two"

    def test_adding_again_after_unknown_is_harmless(self, store: Store) -> None:
        wrapped = faulty(store, Fault(FaultKind.PARTIAL, 1), Fault(FaultKind.LOST_REPLY))
        adds = Adds([(OBJECTS, b"a", b"1"), (OBJECTS, b"b", b"2")], 1)
        for expected in (1, 2):
            with pytest.raises(Unknown):
                wrapped.add_many(adds)
            assert len(fetch_all(store, OBJECTS)) == expected
        before = fetch_all(store, OBJECTS)
        wrapped.add_many(adds)
        assert fetch_all(store, OBJECTS) == before

    def test_a_torn_apply_leaves_objects_but_never_the_row(self, store: Store) -> None:
        items = [(OBJECTS, b"%d" % number, b"body") for number in range(4)]
        row = SetIf(REFERENCES, b"main", b"head", ABSENT)
        for kept in range(5):
            wrapped = faulty(store, Fault(FaultKind.TORN, kept), atomic_apply=False)
            with pytest.raises(SimulatedCrash):
                wrapped.apply(Adds(items, 1), row)
            assert len(fetch_all(store, OBJECTS)) == kept
            assert store.get(REFERENCES, b"main") is None
        must_win(faulty(store, atomic_apply=False).apply(Adds(items, 1), row))

    def test_a_failed_read_is_an_error_and_never_an_absence(self, store: Store) -> None:
        create(store, b"main")
        calls = (
            lambda: faulty(store, Fault(FaultKind.NOT_APPLIED)).get(REFERENCES, b"main"),
            lambda: faulty(store, Fault(FaultKind.NOT_APPLIED)).get_many([(REFERENCES, b"main")]),
            lambda: faulty(store, Fault(FaultKind.NOT_APPLIED)).scan(REFERENCES, b"", None, 9),
            lambda: faulty(store, Fault(FaultKind.NOT_APPLIED)).hold(REFERENCES, b"main"),
        )
        for call in calls:
            with pytest.raises(Unavailable):
                call()
