"""Objects on a store: idempotent, checked on reading, in batches that the store can take."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ROOT_INSTANCE, InstanceId, ObjId
from lochan.codec.objects import object_id
from lochan.kv.store import Kind, Partition, partition
from lochan.persist.objects import Objects
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock

HALF_DAY_US = 12 * 3_600 * 1_000_000


def named(raw: bytes) -> tuple[ObjId, bytes]:
    return object_id(raw), raw


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def objects(store) -> Objects:
    return Objects(store, ROOT_INSTANCE, ManualClock())


def place(obj_id: ObjId) -> Partition:
    return Partition(partition(ROOT_INSTANCE, Kind.OBJECTS) + obj_id[:2])


def test_objects_come_back_in_the_order_of_their_ids(objects):
    stored = [named(b"%d" % number) for number in range(300)]
    objects.store_many(stored)
    wanted = [*stored[::-1], stored[7], stored[7]]
    assert objects.fetch_many([obj_id for obj_id, _ in wanted]) == [raw for _, raw in wanted]
    assert objects.fetch_many([]) == []


def test_a_missing_object_is_corrupt(objects):
    there, missing = named(b"there"), named(b"missing")
    objects.store_many([there])
    with pytest.raises(Corrupt, match=missing[0].hex()):
        objects.fetch_many([there[0], missing[0]])


def test_a_changed_object_is_corrupt(objects, store):
    obj_id, raw = named(b"some bytes")
    objects.store_many([(obj_id, raw)])
    store.put_many([(place(obj_id), obj_id, b"other bytes")])
    with pytest.raises(Corrupt, match=obj_id.hex()):
        objects.fetch_many([obj_id])


def test_more_objects_than_one_batch_are_stored_and_fetched(objects, store):
    """Found by review: fetching more than a batch of the store was refused."""
    count = store.capabilities.read_items_max + 5
    stored = [named(b"%d" % number) for number in range(count)]
    objects.store_many(iter(stored))
    assert objects.fetch_many([obj_id for obj_id, _ in stored]) == [raw for _, raw in stored]


def test_more_bytes_than_one_batch_are_stored(objects, store):
    size = store.capabilities.batch_bytes_max // 10
    stored = [named(bytes([number]) * size) for number in range(25)]
    objects.store_many(stored)
    assert objects.fetch_many([obj_id for obj_id, _ in stored]) == [raw for _, raw in stored]


def test_objects_are_spread_over_partitions_by_their_first_two_bytes(objects, store):
    obj_id, raw = named(b"spread")
    objects.store_many([(obj_id, raw)])
    found = store.get(place(obj_id), obj_id)
    assert found is not None
    assert found.value == raw


def test_storing_again_renews_the_half_day_and_changes_nothing_else(store):
    clock = ManualClock(1_000 * HALF_DAY_US)
    objects = Objects(store, ROOT_INSTANCE, clock)
    obj_id, raw = named(b"kept")
    for expected in (1_000, 1_001):
        objects.store_many([(obj_id, raw)])
        entry = store.get(place(obj_id), obj_id)
        assert entry is not None
        assert (entry.value, entry.half_day) == (raw, expected)
        clock.advance_us(HALF_DAY_US)


def test_repositories_do_not_see_each_others_objects(objects, store):
    other = Objects(store, InstanceId(b"another instance"), ManualClock())
    obj_id, raw = named(b"mine")
    objects.store_many([(obj_id, raw)])
    with pytest.raises(Corrupt, match="missing"):
        other.fetch_many([obj_id])
