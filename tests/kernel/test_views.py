"""Commits as they are loaded: by reference, by a hash that a user typed, from memory or not."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.errors import Corrupt, NotFound
from lochan.base.ids import EMPTY_ID, ContentId, ObjId
from lochan.codec.commits import TagObject
from lochan.codec.objects import build_value, encode_object, object_id
from lochan.kernel.views import EMPTY_VIEW
from lochan.kv.store import Kind, partition
from tests.kernel.workbench import Bench, counted, wants


def test_a_commit_that_a_user_named_is_found_with_nothing_in_memory():
    """Found by review: every named commit was taken for something else, and so not found."""
    bench = Bench()
    (made,) = bench.commit(wants(1))
    found = bench.again().context.views.get_named(made.head.obj_id)
    assert found.body == made.head.body
    assert found.obj_id == made.head.obj_id


def test_a_hash_of_nothing_or_of_something_else_is_not_found():
    bench = Bench()
    value = encode_object(build_value(ContentId("x"), 1, b"data"))
    tag = msgspec.msgpack.encode(TagObject(1, bytes(32), "m", (), b""))
    others = [(object_id(raw), raw) for raw in (value, tag)]
    bench.context.objects.store_many(others)
    for obj_id in (ObjId(bytes(32)), *(obj_id for obj_id, _ in others)):
        with pytest.raises(NotFound, match=obj_id.hex()):
            bench.context.views.get_named(obj_id)


def test_a_named_commit_whose_first_bytes_were_changed_is_corrupt_and_not_missing():
    bench = Bench()
    (made,) = bench.commit(wants(1))
    obj_id = made.head.obj_id
    place = partition(bench.context.instance, Kind.OBJECTS, obj_id[:2])
    raw = bench.context.objects.find(obj_id)
    assert raw is not None
    for at in range(6):
        bench.store.put_many([(place, obj_id, raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :])])
        with pytest.raises(Corrupt):
            bench.again().context.views.get_named(obj_id)


def test_a_missing_commit_that_something_refers_to_is_corrupt():
    bench = Bench()
    with pytest.raises(Corrupt, match="missing"):
        bench.context.views.load(ObjId(bytes(32)))


def test_the_empty_commit_is_known_without_a_read():
    store, counts = counted(Bench().store)
    bench = Bench(store, fresh=False)
    counts.reset()
    assert bench.context.views.load(EMPTY_ID) is EMPTY_VIEW
    assert bench.context.views.get_named(EMPTY_ID) is EMPTY_VIEW
    assert EMPTY_VIEW.parent == EMPTY_ID
    assert sum(counts.calls.values()) == 0


def test_commits_come_in_the_order_of_their_ids_with_one_fetch_for_those_not_at_hand():
    first = Bench()
    ids = [first.commit(wants(number))[0].head.obj_id for number in range(30)]
    store, counts = counted(first.store)
    bench = first.again(store)
    views = bench.context.views
    counts.reset()
    wanted = [*ids[::-1], EMPTY_ID, ids[3], ids[3]]
    assert [view.obj_id for view in views.load_many(wanted)] == wanted
    assert counts.calls == {"get_many": 1}
    counts.reset()
    assert [view.obj_id for view in views.load_many(wanted)] == wanted
    assert views.load(ids[7]).sequence == 8
    assert not counts.calls
