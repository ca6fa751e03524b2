"""The bytes of everything that is stored, and the ids made from them.

A change of one of these is a change of the storage format: it needs a new version number of the
object, a line in the changelog, and code that still reads the old form.
"""

from __future__ import annotations

from hashlib import sha256

import pytest

from lochan.base.errors import NewerFormat
from lochan.base.ids import ContentId, ObjId, find_uuid_bytes
from lochan.base.keys import file_key, table_key
from lochan.codec.elements import (
    FILE_REMOVE,
    TABLE_REMOVE,
    decode_file,
    encode_file,
    pack_table,
)
from lochan.codec.objects import (
    FileObject,
    NodeObject,
    Object,
    build_value,
    decode_object,
    encode_object,
    object_id,
)
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.node import build_node
from lochan.model.entries import FileEntry
from lochan.persist.staged import cleared, is_cleared, operation_of, tombstone

VALUE_ID = ObjId(bytes(range(32)))
VALUE_HEX = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
BACKWARD_HEX = "1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100"
UUID_TEXT = "01234567-89ab-cdef-0123-456789abcdef"
TABLE = pack_table(3, VALUE_ID, find_uuid_bytes(ContentId(UUID_TEXT)))
FILE = encode_file(
    FileEntry("s3://b/k", 70_000, -1, VALUE_ID, "abc", (("k", "v"),), "text/csv", bytes(16))
)
LINKED = encode_file(FileEntry("s3://b/k", 70_000, -1, b"", "abc", (("k", "v"),), "text/csv"))

# What stands where, one line a field, as anyone could write it down from the description.
TABLE_HEX = "00 03" + VALUE_HEX + "0123456789abcdef0123456789abcdef"
FILE_HEX = (
    "00 0037 94 ce00011170 c420" + VALUE_HEX + "91 92 a16b a176 a8746578742f637376"
    "94 ff c410" + "00" * 16 + "a3616263 a873333a2f2f622f6b"
)
LINKED_HEX = (
    "00 0024 96 ce00011170 c400 91 92 a16b a176 a8746578742f637376 a3616263 a873333a2f2f622f6b"
    "92 ff c400"
)

OBJECTS: dict[str, tuple[Object, str, str]] = {
    "value": (
        build_value(ContentId("my id"), 3, b"\x00data\xff"),
        "95 03 01 a56d79206964 03 c4060064617461ff",
        "4d4f666c62fa072280d58cff09122ce23ee314793c44aa875cb19433bc2c78c6",
    ),
    "small file": (
        FileObject(1, b"data"),
        "93 07 01 c40464617461",
        "980d583d30f616a3b8152568664eaa82775b3d7d7e4880f27b19ae4dd7eca950",
    ),
    "leaf of tables": (
        build_node(0, [b"tns\x01a", b"tns\x01b"], [TABLE, TABLE_REMOVE], 50),
        "99 04 01 00 02 6e c404746e7301 92c40161c40162 32 c464" + TABLE_HEX + "01" + "00" * 49,
        "a46ff1a92450f1ace4642ff04395b02a0cf55c2365887b585525dd8a33f8e33f",
    ),
    "leaf of files": (
        build_node(0, [b"fp/a", b"fp/b"], [FILE, FILE_REMOVE], None),
        "99 04 01 00 02 64 c40366702f 92c40161c40162 925b01 c45c" + FILE_HEX + "01",
        "f625eefcf3bab892d043d63e8126e38511ec96b5ef1129208c8256872640e113",
    ),
    "inner node": (
        build_node(
            1,
            [b"tm", b"tz"],
            [VALUE_ID + (40).to_bytes(8, "big"), VALUE_ID[::-1] + (2**40).to_bytes(8, "big")],
            40,
        ),
        "99 04 01 01 cf0000010000000028 54 c40174 92c4016dc4017a 28 c450"
        + VALUE_HEX
        + "0000000000000028"
        + BACKWARD_HEX
        + "0000010000000000",
        "7fe6195eb8ef57679268aa75c542fadc2ca6b09c7f95fb1d55df38386f13e750",
    ),
}


def test_elements_of_files_have_these_bytes():
    assert FILE.hex() == bytes.fromhex(FILE_HEX).hex()
    assert LINKED.hex() == bytes.fromhex(LINKED_HEX).hex()


def test_a_staged_record_is_the_element_that_a_commit_puts():
    assert tombstone(bytes(range(16))).hex() == "01" + bytes(range(16)).hex()
    assert operation_of(tombstone(bytes(range(16)))) == bytes(range(16))
    assert operation_of(FILE) == bytes(16)


def test_the_record_of_a_reset_has_a_flag_that_no_element_has():
    assert cleared(bytes(range(16))).hex() == "04" + bytes(range(16)).hex()
    assert operation_of(cleared(bytes(range(16)))) == bytes(range(16))
    assert [is_cleared(one) for one in (cleared(b"x"), tombstone(b"x"), FILE)] == [
        *(True, False, False)
    ]
    with pytest.raises(NewerFormat):
        decode_file(cleared(bytes(16)))


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_have_these_bytes_and_ids(name):
    value, raw_hex, id_hex = OBJECTS[name]
    raw = bytes.fromhex(raw_hex)
    assert encode_object(value).hex() == raw.hex()
    assert object_id(raw).hex() == id_hex == sha256(raw).hexdigest()
    assert decode_object(type(value), raw) == value


def test_elements_have_these_bytes():
    assert TABLE.hex() == bytes.fromhex(TABLE_HEX).hex()
    assert FILE.hex() == bytes.fromhex(FILE_HEX).hex()
    assert pack_table(127, VALUE_ID, None).hex() == "027f" + VALUE_HEX + "00" * 16
    assert TABLE_REMOVE.hex() == "01" + "00" * 49
    assert FILE_REMOVE.hex() == "01"


def test_keys_have_these_bytes():
    assert table_key(["ns", "tä"]).hex() == "746e730174c3a4"
    assert file_key("p/ä").hex() == "66702fc3a4"


def test_numbers_take_their_shortest_form():
    """MessagePack has many forms of a number; the canonical one is the shortest."""
    counts = {127: "7f", 128: "cc80", 255: "ccff", 256: "cd0100", 65_536: "ce00010000"}
    for count, raw_hex in counts.items():
        raw = encode_object(NodeObject(1, 0, count, 0, b"", (), 1, b""))
        assert raw.hex() == "99040100" + raw_hex + "00c4009001c400"


# Of the key "tns<01>a" on levels 0 and 1: BLAKE2b of 8 bytes, salt = seed, person = level.
HASHES = ["c036deb7feae9587", "89c0eefa72c6361c"]


def test_boundaries_are_decided_by_these_hashes():
    rule = BoundaryRule(bytes(range(16)))
    assert rule.hash(0, b"tns\x01a").hex() == HASHES[0]
    assert rule.hash(1, b"tns\x01a").hex() == HASHES[1]


@pytest.mark.parametrize(
    ("count", "root_hex"),
    [
        (1, "edfd95f20c6bf67d31f6312508a4c321f6e97b530828d73682a1c298a906359c"),
        (1_000, "e084ccd25e8a5ee4a87e23732d97491f5c75c24e6d4d7a0431a5b47bdda7ffb6"),
        (100_000, "f26ce4d7be6f25491e0da53b18c2572711bfeec75e3be39a48f154715f0c34cd"),
    ],
)
def test_trees_have_these_roots(count, root_hex):
    elements = (
        (b"tns%02d\x01table%06d" % (n // 5_000, n), b"\0" + b"%049d" % n) for n in range(count)
    )
    root = build_tree(BoundaryRule(bytes(range(16))), 50, elements, lambda _: None)
    assert root is not None
    assert root.hex() == root_hex
