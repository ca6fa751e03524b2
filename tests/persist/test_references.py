"""Rows of references on a store: written by compare-and-swap only, each repository its own."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ROOT_INSTANCE, InstanceId
from lochan.base.names import RefName
from lochan.codec.forms import encode_row
from lochan.codec.rows import ReferenceRow
from lochan.kv.store import ABSENT, Kind, Lost, Won, partition
from lochan.persist.references import References
from lochan.persist.rows import Stamped
from lochan.stores.memory.store import MemoryStore
from tests.kernel.workbench import counted

MAIN = RefName("main")
ROW = ReferenceRow(1, "main", "BRANCH", bytes(32), 1, 1, b"op", 5)
PLACE = partition(ROOT_INSTANCE, Kind.REFERENCES)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def references(store) -> References:
    return References(store, ROOT_INSTANCE)


def next_of(row: ReferenceRow) -> ReferenceRow:
    return msgspec.structs.replace(row, version=row.version + 1)


def test_a_row_comes_back_with_the_stamp_of_its_write(references):
    assert references.fetch(MAIN) is None
    won = references.update(ROW, None)
    assert isinstance(won, Won)
    assert references.fetch(MAIN) == Stamped(ROW, won.stamp)


def test_a_row_is_written_only_if_it_is_as_it_was_read(references):
    references.update(ROW, None)
    read = references.fetch(MAIN)
    assert isinstance(references.update(next_of(ROW), None), Lost)
    assert references.fetch(MAIN) == read
    assert isinstance(references.update(next_of(ROW), read), Won)
    lost = references.update(next_of(next_of(ROW)), read)
    assert isinstance(lost, Lost)
    found = references.fetch(MAIN)
    assert found is not None
    assert found.row.version == 2


def test_a_condition_says_the_same_to_apply(references):
    condition = references.condition(ROW, None)
    assert (condition.partition, condition.key, condition.expected) == (PLACE, b"main", ABSENT)
    assert condition.value == encode_row(ROW)
    references.update(ROW, None)
    read = references.fetch(MAIN)
    assert read is not None
    assert references.condition(next_of(ROW), read).expected == read.stamp


def test_an_equal_row_written_again_has_another_stamp(references):
    references.update(ROW, None)
    first = references.fetch(MAIN)
    references.update(ROW, first)
    second = references.fetch(MAIN)
    assert first.row == second.row
    assert first.stamp != second.stamp
    assert isinstance(references.update(ROW, first), Lost)


def test_many_rows_come_in_the_order_of_their_names_in_one_call(store):
    observed, counts = counted(store)
    references = References(observed, ROOT_INSTANCE)
    for name in ("b", "a", "c"):
        references.update(msgspec.structs.replace(ROW, name=name), None)
    counts.reset()
    names = [RefName(name) for name in ("c", "x", "a", "b", "a")]
    found = references.fetch_many(names)
    assert [None if one is None else one.row.name for one in found] == ["c", None, "a", "b", "a"]
    assert counts.calls == {"get_many": 1}


def test_deleted_rows_are_fetched_like_others_until_they_are_purged(references):
    gone = msgspec.structs.replace(ROW, deleted=True)
    references.update(gone, None)
    read = references.fetch(MAIN)
    assert read.row.deleted
    references.update(next_of(gone), read)
    assert isinstance(references.remove(read), Lost), "it was written since"
    assert isinstance(references.remove(references.fetch(MAIN)), Won)
    assert references.fetch(MAIN) is None


def test_a_row_of_before_a_purge_can_never_be_written_again(references):
    references.update(ROW, None)
    read = references.fetch(MAIN)
    references.remove(read)
    assert isinstance(references.update(next_of(ROW), read), Lost)
    references.update(ROW, None)
    assert isinstance(references.update(next_of(ROW), read), Lost)


def test_repositories_do_not_see_each_others_rows(references, store):
    other = References(store, InstanceId(b"another instance"))
    references.update(ROW, None)
    assert other.fetch(MAIN) is None
    assert isinstance(other.update(ROW, None), Won)


def test_bytes_that_are_no_row_are_corrupt(references, store):
    store.put_many([(PLACE, b"main", b"\x93\x01\x02\x03")])
    with pytest.raises(Corrupt):
        references.fetch(MAIN)
    with pytest.raises(Corrupt):
        references.fetch_many([MAIN])


def test_more_rows_than_one_batch_are_fetched_in_their_order(references, store):
    references.update(ROW, None)
    count = store.capabilities.read_items_max + 5
    found = references.fetch_many([*(RefName(f"none{number}") for number in range(count)), MAIN])
    assert found[:count] == [None] * count
    last = found[count]
    assert last is not None
    assert last.row == ROW
