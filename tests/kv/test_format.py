"""A store contains the number of its storage format; one of an unknown format is left alone."""

from __future__ import annotations

from zlib import crc32

import pytest

from lochan.base.errors import Corrupt, LochanError, NewerFormat
from lochan.base.ids import ROOT_INSTANCE
from lochan.kv.format import (
    FORMAT_KEY,
    FORMAT_PARTITION,
    STORAGE_FORMAT,
    CopyMark,
    check_format,
    encode_copy_mark,
    encode_mark,
    find_copy_mark,
)
from lochan.kv.store import ABSENT, Entry, Expected, Kind, Outcome, Partition, Stamp, partition
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import Fault, FaultKind, FaultyStore, ListedFaults


def mark(value: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put_many([(FORMAT_PARTITION, FORMAT_KEY, value)])
    return store


def test_a_fresh_store_is_marked_once() -> None:
    store = MemoryStore()
    check_format(store)
    entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
    assert entry is not None
    assert entry.value == b"1 83dcefb7"
    check_format(store)
    assert store.get(FORMAT_PARTITION, FORMAT_KEY) == entry


def test_the_place_of_the_mark_never_moves() -> None:
    assert (FORMAT_PARTITION, FORMAT_KEY) == (bytes(16) + b"m", b"format")
    assert STORAGE_FORMAT == 1


@pytest.mark.parametrize("number", [2, 10, 999_999_999])
def test_a_newer_format_is_refused_and_left_alone(number: int) -> None:
    store = mark(encode_mark(number))
    epoch = store.epoch()
    with pytest.raises(NewerFormat, match="newer format, upgrade Lochan"):
        check_format(store)
    assert store.epoch() == epoch


@pytest.mark.parametrize(
    "value", [b"", b"0", b"1", b"2", b"2 83dcefb7", b"01", b"-1", b"one", b"\xff", b"1" * 10]
)
def test_garbage_is_corrupt(value: bytes) -> None:
    with pytest.raises(Corrupt):
        check_format(mark(value))


def test_every_flipped_bit_of_the_mark_is_corrupt_and_never_a_newer_format() -> None:
    for number in (1, 2):
        raw = encode_mark(number)
        for at in range(len(raw)):
            for bit in range(8):
                with pytest.raises(Corrupt):
                    check_format(mark(raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :]))


def test_a_store_with_repositories_that_lost_its_mark_is_not_marked_anew() -> None:
    store = MemoryStore()
    store.put_many([(partition(ROOT_INSTANCE, Kind.REPOSITORIES), b"default", b"any")])
    with pytest.raises(Corrupt, match="lost the mark"):
        check_format(store)
    assert store.get(FORMAT_PARTITION, FORMAT_KEY) is None


@pytest.mark.parametrize(
    ("theirs", "error"), [(encode_mark(1), None), (encode_mark(2), NewerFormat)]
)
def test_the_first_mark_counts(theirs: bytes, error: type[LochanError] | None) -> None:
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
    plan = ListedFaults({2: Fault(FaultKind.LOST_REPLY)})
    with pytest.raises(Exception, match="lost reply"):
        check_format(FaultyStore(inner, plan))
    check_format(inner)


def test_the_mark_of_a_copy_has_these_bytes():
    mark = CopyMark(bytes(16), bytes(range(16)))
    text = b"copy " + b"00" * 16 + b" 000102030405060708090a0b0c0d0e0f"
    stored = text + b" %08x" % crc32(text)
    assert encode_copy_mark(mark) == stored
    assert find_copy_mark(Entry(b"format", stored, Stamp(b""))) == mark
    for other in (b"1 83dcefb7", stored[:-1], text + b" 00000000", b"copy  "):
        assert find_copy_mark(Entry(b"format", other, Stamp(b""))) is None
