"""Objects in bulk: what goes out was checked, what comes in is a node or a value."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Corrupt, Invalid, TooLarge
from lochan.base.ids import EMPTY_ID, ContentId, ObjId
from lochan.base.limits.contents import KEY_BYTES_MAX
from lochan.base.limits.requests import (
    OBJECTS_BYTES_PER_CALL_MAX,
    OBJECTS_FETCHED_AT_ONCE,
    OBJECTS_PER_CALL_MAX,
)
from lochan.base.limits.storage import NODE_ELEMENTS_MAX, OBJECT_BYTES_MAX
from lochan.codec.commits import TagObject, encode_commit
from lochan.codec.objects import build_value, encode_object
from lochan.index.node import build_node, seal
from lochan.kv.store import Kind, partition
from lochan.testing.strategies import nodes
from tests.service.workbench import CALL, Service

Given = tuple[str, bytes]


def named(raw: bytes) -> Given:
    return sha256(raw).hexdigest(), raw


def value(number: int, size: int = 10) -> Given:
    data = b"%d" % number + bytes(size)
    return named(encode_object(build_value(ContentId("id"), 1, data)))


def node(count: int = 3, level: int = 0) -> Given:
    keys = [b"tkey%06d" % number for number in range(count)]
    width = 40 if level else 4
    values = [number.to_bytes(width, "big") for number in range(1, count + 1)]
    return named(encode_object(build_node(level, keys, values, width)))


@pytest.fixture
def service() -> Service:
    return Service()


def put(service: Service, *objects: Given) -> int:
    return service.repository.objects.put(CALL, objects)


def get(service: Service, *ids: str) -> list[Given]:
    return service.repository.objects.get(CALL, ids)


def test_nodes_and_values_come_back_as_they_were_put(service):
    given_ = [value(1), node(), node(level=2), value(2)]
    assert put(service, *given_) == 4
    wanted = [given_[2][0], given_[0][0], given_[3][0], given_[1][0]]
    assert get(service, *wanted) == [given_[2], given_[0], given_[3], given_[1]]
    assert get(service.again(), given_[0][0]) == [given_[0]]


def test_putting_again_changes_nothing_and_counts_each_once(service):
    assert put(service, value(1), value(1), value(2)) == 2
    assert put(service, value(1)) == 1
    assert get(service, value(1)[0], value(1)[0]) == [value(1)]


def test_what_is_not_there_is_left_out(service):
    put(service, value(1))
    assert get(service) == []
    assert get(service, value(9)[0], value(1)[0], EMPTY_ID.hex()) == [value(1)]


def test_commits_go_out_by_their_own_rule(service):
    commit = service.put("t").hash
    ((found, raw),) = get(service, commit)
    assert found == commit
    body = service.repository.context.objects.find_commit(ObjId(bytes.fromhex(commit)))
    assert body is not None
    assert raw == encode_commit(body)
    assert sha256(raw).hexdigest() != commit


def test_commits_do_not_come_in(service):
    commit = service.put("t").hash
    ((_, raw),) = get(service, commit)
    for given_ in ((commit, raw), named(raw)):
        with pytest.raises(Invalid):
            put(service, given_)


@pytest.mark.parametrize(
    "other",
    [
        TagObject(1, bytes(32), "m", (), b""),
        [5, 1, "text", b"x"],
    ],
    ids=["tag", "unknown type"],
)
def test_other_objects_do_not_come_in(service, other):
    raw = msgspec.msgpack.encode(other)
    with pytest.raises(Invalid, match="no well-formed node or value"):
        put(service, named(raw))


def test_bytes_that_do_not_hash_to_their_id_are_refused(service):
    with pytest.raises(Invalid, match="do not hash"):
        put(service, (value(1)[0], value(2)[1]))


@pytest.mark.parametrize("text", ["", "xyz", "AB" * 32, "ab" * 31, "../" + "a" * 61])
def test_what_is_no_id_is_refused(service, text):
    with pytest.raises(Invalid, match="not an object id"):
        get(service, text)
    with pytest.raises(Invalid, match="not an object id"):
        put(service, (text, b""))


def good_node(**changes: object) -> bytes:
    keys = [b"ta", b"tb", b"tc"]
    built = build_node(0, keys, [b"1234", b"5678", b"9abc"], 4)
    return msgspec.msgpack.encode(msgspec.structs.replace(built, **changes))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        b"\x93\x04\x01\x00",
        good_node() + b"\x00",
        good_node(version=2),
        good_node(level=21),
        good_node(level=1),
        good_node(total=4),
        good_node(raw=1),
        good_node(prefix=b"", suffixes=(b"ta", b"tb", b"tc")),
        good_node(suffixes=(b"b", b"a", b"c")),
        good_node(suffixes=(b"a", b"a", b"c")),
        good_node(suffixes=(b"a", b"b")),
        good_node(suffixes=(), values=b"", total=0, raw=0),
        good_node(widths=(4, 4, 3)),
        good_node(widths=(4, 8, 0)),
        good_node(widths=0, values=b""),
        good_node(values=b"123456789abcd"),
        good_node().replace(b"\x04\x01\x00", b"\x04\x01\xcc\x00"),
        encode_object(build_value(ContentId("id"), 1, b"x")).replace(b"\x01\xc4", b"\x00\xc4"),
        msgspec.msgpack.encode([3, 1, "", 1, b"x"]),
        msgspec.msgpack.encode([3, 1, "id", 1, b"x", 1]),
        msgspec.msgpack.encode([3, 1, b"\xff", 1, b"x"]),
    ],
)
def test_what_is_not_well_formed_is_refused_and_nothing_is_stored(service, raw):
    with pytest.raises(Invalid):
        put(service, value(1), named(raw))
    assert get(service, value(1)[0], named(raw)[0]) == []


def test_the_node_of_these_tests_is_itself_well_formed(service):
    assert put(service, named(good_node())) == 1


def test_there_are_bounds_on_elements_and_keys_of_nodes(service):
    assert put(service, node(NODE_ELEMENTS_MAX)) == 1
    with pytest.raises(Invalid, match=str(NODE_ELEMENTS_MAX)):
        put(service, node(NODE_ELEMENTS_MAX + 1))
    long = build_node(0, [b"t" * (KEY_BYTES_MAX + 1)], [b"1234"], 4)
    with pytest.raises(Invalid, match=str(KEY_BYTES_MAX)):
        put(service, named(seal(long).raw))


def test_there_are_bounds_on_count_and_bytes(service):
    ids = [value(number)[0] for number in range(OBJECTS_PER_CALL_MAX + 1)]
    assert get(service, *ids[:-1]) == []
    with pytest.raises(TooLarge):
        get(service, *ids)
    with pytest.raises(TooLarge):
        put(service, *[value(number) for number in range(OBJECTS_PER_CALL_MAX + 1)])
    with pytest.raises(TooLarge):
        put(service, named(bytes(OBJECT_BYTES_MAX + 1)))


def test_more_bytes_than_one_call_may_hold_are_refused(service):
    size = OBJECT_BYTES_MAX - 100
    count = OBJECTS_BYTES_PER_CALL_MAX // size + 1
    large = [value(number, size) for number in range(count)]
    with pytest.raises(TooLarge):
        put(service, *large)
    half = count // 2
    assert put(service, *large[:half]) + put(service, *large[half:]) == count
    assert len(get(service, *[one[0] for one in large[:half]])) == half
    with pytest.raises(TooLarge):
        get(service, *[one[0] for one in large])


def test_more_objects_than_are_read_at_once_keep_their_order(service):
    many = [value(number) for number in range(2 * OBJECTS_FETCHED_AT_ONCE + 1)]
    put(service, *many)
    assert get(service, *[one[0] for one in many]) == many


def test_changed_bytes_never_go_out(service):
    obj_id, raw = value(1)
    commit = service.put("t").hash
    ((_, body),) = get(service, commit)
    for name, stored in ((obj_id, raw), (commit, body)):
        key = bytes.fromhex(name)
        place = partition(service.repository.context.instance, Kind.OBJECTS, key[:2])
        service.store.put_many([(place, key, stored[:-1] + bytes((stored[-1] ^ 1,)))])
        with pytest.raises(Corrupt):
            get(service, name)


@given(nodes)
def test_any_node_is_taken(found):
    assert put(Service(), named(encode_object(found))) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_unless_they_are_an_object(raw):
    with pytest.raises(Invalid):
        put(Service(), named(raw))
