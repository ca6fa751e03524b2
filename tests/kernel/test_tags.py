"""Tags: light, annotated, of tags; peeled on read; and bare branches."""

from __future__ import annotations

import pytest

from lochan.base.errors import AlreadyExists, Corrupt, Invalid, NotFound, TooLarge
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import MESSAGE_BYTES_MAX, TAG_DEPTH_MAX
from lochan.base.names import RefName
from lochan.codec.commits import TagObject, decode_tag, encode_tag
from lochan.codec.objects import object_id
from lochan.kernel.provenance import UNNAMED, Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.tags import Tags
from lochan.kv.store import Kind, partition
from lochan.model.references import Annotation
from lochan.testing.faults import FaultKind, FaultyStore
from tests.kernel.reading import any_of, message_of
from tests.kernel.workbench import Bench, branch, claim, counted, nth, tag, wants

V1, V2 = RefName("v1"), RefName("v2")
NOTE = Annotation("the first", (("who", ("me",)),), b"signed")


def tagged() -> tuple[Bench, Tags]:
    bench = Bench()
    bench.commit(wants(1))
    return bench, Tags(bench.context)


def test_the_bytes_of_a_tag_are_for_ever():
    obj_id, raw = encode_tag(TagObject(1, b"t" * 32, "m", (("h", ("v",)),), b"s"))
    assert raw.hex() == "960201c420" + "74" * 32 + "a16d9192a16891a176c40173"
    assert obj_id.hex() == "c5192693154def7aa2afff1ec7bf099f2317d6b302967ac7ebc6a245cda35f2d"


def test_a_light_tag_points_at_the_commit():
    bench, tags = tagged()
    row = tag(bench, V1, bench.head().obj_id, "me")
    assert (row.kind, row.pointer) == ("TAG", bench.head().obj_id)
    assert tags.peel(ObjId(row.pointer)).commit == bench.head()
    assert tags.peel(ObjId(row.pointer)).tags == ()


def test_an_annotated_tag_is_an_object_and_is_peeled():
    bench, _ = tagged()
    head = bench.head()
    row = tag(bench, V1, head.obj_id, "me", NOTE)
    assert row.pointer != head.obj_id
    other = bench.again()
    peeled = Tags(other.context).peel(ObjId(other.row(V1).pointer))
    assert peeled.commit.obj_id == head.obj_id
    assert [(tag.message, tag.headers, tag.signature) for tag in peeled.tags] == [
        (NOTE.message, NOTE.properties, NOTE.signature)
    ]


def test_a_tag_of_a_tag_is_peeled_to_the_commit_and_bounded():
    bench, tags = tagged()
    pointer = bench.head().obj_id
    for number in range(TAG_DEPTH_MAX):
        note = Annotation(f"{number}")
        pointer = ObjId(tag(bench, RefName(f"t{number}"), pointer, "", note).pointer)
    peeled = tags.peel(pointer)
    assert peeled.commit.obj_id == bench.head().obj_id
    assert [tag.message for tag in peeled.tags] == [str(n) for n in reversed(range(TAG_DEPTH_MAX))]
    with pytest.raises(Invalid):
        tag(bench, V1, pointer, "", Annotation("one more"))
    assert bench.names.find(V1) is None


@pytest.mark.parametrize("note", [None, NOTE])
def test_tags_refuse_commits(note):
    bench, _ = tagged()
    tag(bench, V1, bench.head().obj_id, "", note)
    before = bench.row(V1)
    with pytest.raises(Invalid):
        Publisher(bench.context, V1).publish([wants(2)])
    with pytest.raises(Invalid):
        claim(bench.context, "somebody", "key", b"digest", V1)
    assert bench.row(V1) == before


def test_a_tag_of_nothing_is_refused_and_leaves_no_name():
    bench, tags = tagged()
    for target in (ObjId(b"x" * 32), ObjId(bytes(32))):
        with pytest.raises(NotFound):
            tag(bench, V1, target, "")
    node_like = object_id(b"\x99\x04")
    changed = ObjId(b"y" * 32)
    for obj_id, error in ((node_like, NotFound), (changed, Corrupt)):
        place = partition(bench.context.instance, Kind.OBJECTS, obj_id[:2])
        bench.store.put_many([(place, obj_id, b"\x99\x04")])
        with pytest.raises(error):
            tag(bench, V1, obj_id, "")
    assert bench.names.find(V1) is None
    with pytest.raises(Corrupt):
        tags.peel(ObjId(b"x" * 32))


def test_names_of_tags_and_branches_are_one_space():
    bench, _ = tagged()
    with pytest.raises(AlreadyExists):
        tag(bench, RefName("main"), bench.head().obj_id, "")
    tag(bench, V1, bench.head().obj_id, "")
    with pytest.raises(AlreadyExists):
        bench.names.create_many([branch(V1)], UNNAMED)


def test_what_no_tag_may_carry_is_refused():
    bench, _ = tagged()
    head = bench.head().obj_id
    for note, error in (
        (Annotation("x" * (MESSAGE_BYTES_MAX + 1)), TooLarge),
        (Annotation("", signature=b"x" * 40_000), TooLarge),
        (Annotation("\ud800"), Invalid),
    ):
        with pytest.raises(error):
            tag(bench, V1, head, "", note)
    assert bench.names.find(V1) is None


def test_a_bare_branch_is_empty_and_takes_commits():
    bench, tags = tagged()
    (row,) = bench.names.create_many([branch(V1)], Initiator("me"))
    assert (row.kind, row.pointer) == ("BRANCH", EMPTY_ID)
    assert tags.peel(EMPTY_ID).commit.body is None
    Publisher(bench.context, V1).publish([wants(5)])
    assert [message_of(view) for view in bench.log(V1)] == ["put 5"]
    assert bench.head(V1).obj_id != bench.head().obj_id


def test_a_changed_tag_is_corrupt():
    bench, tags = tagged()
    pointer = ObjId(tag(bench, V1, bench.head().obj_id, "", NOTE).pointer)
    place = partition(bench.context.instance, Kind.OBJECTS, pointer[:2])
    raw = any_of(bench.store.get(place, pointer)).value
    for at in range(2, len(raw)):
        changed = raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :]
        bench.store.put_many([(place, pointer, changed)])
        with pytest.raises(Corrupt):
            tags.peel(pointer)
    for wrong in (b"", b"\x96\x02", raw + b"x", raw.replace(b"\xc4\x20", b"\xc5\x00\x20")):
        with pytest.raises(Corrupt):
            decode_tag(wrong)


def test_a_light_tag_costs_one_read_and_then_none():
    bench, _ = tagged()
    head = bench.head().obj_id
    tag(bench, V1, head, "")
    store, counts = counted(bench.store)
    other = bench.again(store)
    counts.reset()
    cold = Tags(other.context)
    for _ in range(2):
        assert cold.peel(head).commit.obj_id == head
    assert counts.calls == {"get": 1}


def test_a_lost_reply_of_storing_the_tag_is_answered_by_storing_again():
    bench, _ = tagged()
    store = FaultyStore(bench.store, nth("add_many", 0, FaultKind.LOST_REPLY))
    hurt = bench.again(store)
    row = tag(hurt, V2, hurt.head().obj_id, "", NOTE)
    assert Tags(bench.context).peel(ObjId(row.pointer)).tags[0].message == NOTE.message
