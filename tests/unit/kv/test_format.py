"""A store says which storage format it has; what we do not know we do not touch."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt, NewerFormat
from lochan.kv.faults import Fault, FaultKind, FaultyStore, ListedFaults
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION, STORAGE_FORMAT, check_format
from lochan.kv.store import ABSENT, Expected, Outcome, Partition
from lochan.stores.memory.store import MemoryStore


def mark(value: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put_many([(FORMAT_PARTITION, FORMAT_KEY, value)])
    return store


def test_a_fresh_store_is_marked_once() -> None:
    store = MemoryStore()
    check_format(store)
    entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
    assert entry is not None
    assert entry.value == b"1"
    check_format(store)
    assert store.get(FORMAT_PARTITION, FORMAT_KEY) == entry


def test_the_place_of_the_mark_never_moves() -> None:
    assert (FORMAT_PARTITION, FORMAT_KEY) == (bytes(16) + b"m", b"format")
    assert STORAGE_FORMAT == 1


@pytest.mark.parametrize("value", [b"2", b"10", b"999999999"])
def test_a_newer_format_is_refused_and_left_alone(value: bytes) -> None:
    store = mark(value)
    epoch = store.epoch()
    with pytest.raises(NewerFormat, match="newer Lochan"):
        check_format(store)
    assert store.epoch() == epoch


@pytest.mark.parametrize("value", [b"", b"0", b"01", b"-1", b"1\n", b"one", b"\xff", b"1" * 10])
def test_garbage_is_corrupt(value: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        check_format(mark(value))
    assert not isinstance(caught.value, NewerFormat)


@pytest.mark.parametrize(("theirs", "error"), [(b"1", None), (b"2", NewerFormat)])
def test_whoever_marks_first_is_believed(theirs: bytes, error: type[Corrupt] | None) -> None:
    class Raced(MemoryStore):
        def set_if(
            self, partition: Partition, key: bytes, value: bytes, expected: Expected
        ) -> Outcome:
            super().set_if(partition, key, theirs, ABSENT)
            return super().set_if(partition, key, value, expected)

    if error is None:
        check_format(Raced())
    else:
        with pytest.raises(error):
            check_format(Raced())


def test_a_mark_whose_reply_was_lost_is_found_by_the_next_open() -> None:
    inner = MemoryStore()
    plan = ListedFaults({1: Fault(FaultKind.LOST_REPLY)})
    with pytest.raises(Exception, match="lost reply"):
        check_format(FaultyStore(inner, plan))
    check_format(inner)
