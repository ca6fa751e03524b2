"""Elements: what a key leads to, as bytes inside a node."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Bug, Corrupt, Invalid, NewerFormat, TooLarge
from lochan.base.ids import ContentId, ObjId, find_uuid_bytes
from lochan.base.limits.contents import (
    FILE_ADDRESS_BYTES_MAX,
    FILE_ETAG_BYTES_MAX,
    FILE_METADATA_BYTES_MAX,
    FILE_TYPE_BYTES_MAX,
)
from lochan.base.limits.storage import NODE_RAW_BYTES_CAP
from lochan.codec.elements import (
    FILE_REMOVE,
    TABLE_REMOVE,
    TABLE_WIDTH,
    decode_file,
    decode_table,
    encode_file,
    is_remove,
    pack_table,
    same_file,
)
from lochan.model.entries import FileEntry, TableEntry
from lochan.testing import strategies

VALUE = ObjId(bytes(range(32)))
FILE = FileEntry("s3://lake/a", 12, 34, etag="abc")


@given(strategies.table_entries)
def test_a_table_comes_back_and_is_50_bytes(entry):
    raw_id = None if entry.content_id is None else find_uuid_bytes(entry.content_id)
    element = pack_table(entry.payload, entry.value, raw_id)
    assert len(element) == TABLE_WIDTH == 50
    assert decode_table(element) == entry
    assert not is_remove(element)


@given(strategies.file_entries)
def test_a_file_comes_back(entry):
    element = encode_file(entry)
    assert decode_file(element) == entry
    assert not is_remove(element)


def test_a_content_id_that_is_no_uuid_is_left_to_the_value():
    for content_id in ("my old id", "01234567-89AB-CDEF-0123-456789ABCDEF"):
        element = pack_table(1, VALUE, find_uuid_bytes(ContentId(content_id)))
        assert decode_table(element) == TableEntry(1, VALUE, None)


def test_removes_are_removes_and_nothing_else():
    for remove in (TABLE_REMOVE, FILE_REMOVE):
        assert is_remove(remove)
        with pytest.raises(Corrupt):
            decode_table(remove)
        with pytest.raises(Corrupt):
            decode_file(remove)
    assert len(TABLE_REMOVE) == TABLE_WIDTH


@pytest.mark.parametrize("payload", [0, -1, 128, 300])
def test_a_payload_outside_its_range_is_our_own_mistake(payload):
    with pytest.raises(Bug):
        pack_table(payload, VALUE, None)


def test_a_value_id_of_another_length_is_our_own_mistake():
    with pytest.raises(Bug):
        pack_table(1, ObjId(b"short"), None)


@pytest.mark.parametrize(
    "raw", [b"", bytes(49), bytes(51), b"\x05" + bytes(49), b"\x03" + bytes(49)]
)
def test_bytes_that_are_no_table_element_are_corrupt(raw):
    with pytest.raises(Corrupt):
        decode_table(raw)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_file_element_or_corrupt(raw):
    for element in (raw, b"\0" + raw):
        with suppress(Corrupt, NewerFormat):
            assert isinstance(decode_file(element), FileEntry)


@pytest.mark.parametrize("sha256", [b"", bytes(range(32))], ids=["linked", "hashed"])
def test_any_damage_of_a_file_element_is_another_entry_or_corrupt(sha256):
    element = encode_file(
        FileEntry(
            "s3://ü", 70_000, -5, sha256, "abc", (("k", "v"), ("l", "é")), "text/plain", bytes(16)
        )
    )
    for at in range(len(element)):
        with pytest.raises(Corrupt):
            decode_file(element[:at])
        for mask in range(1, 256):
            changed = element[:at] + bytes([element[at] ^ mask]) + element[at + 1 :]
            with suppress(Corrupt, NewerFormat):
                assert isinstance(decode_file(changed), FileEntry)


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1},
        {"size": 2**63},
        {"size": True},
        {"size": 1.0},
        {"modified_us": 2**63},
        {"modified_us": -(2**63) - 1},
        {"modified_us": False},
        {"metadata": (("b", ""), ("a", ""))},
        {"metadata": (("a", "1"), ("a", "2"))},
        {"metadata": (("\ud800", ""),)},
        {"metadata": (("a", "\udfff"),)},
        {"address": "\ud800"},
        {"etag": "\ud800"},
        {"sha256": bytes(31)},
        {"operation": bytes(15)},
        {"content_type": "\ud800"},
    ],
    ids=repr,
)
def test_a_wrong_field_is_invalid(change):
    with pytest.raises(Invalid):
        encode_file(msgspec.structs.replace(FILE, **change))


@pytest.mark.parametrize(
    ("field", "bytes_max"),
    [
        ("address", FILE_ADDRESS_BYTES_MAX),
        ("etag", FILE_ETAG_BYTES_MAX),
        ("content_type", FILE_TYPE_BYTES_MAX),
    ],
)
def test_a_long_text_is_too_large_by_its_bytes(field, bytes_max):
    fits = msgspec.structs.replace(FILE, **{field: "é" * (bytes_max // 2)})
    assert decode_file(encode_file(fits)) == fits
    with pytest.raises(TooLarge, match=str(bytes_max)):
        encode_file(msgspec.structs.replace(FILE, **{field: "é" * (bytes_max // 2) + "e"}))


def test_files_are_the_same_by_size_sha_256_metadata_and_type():
    hashed = msgspec.structs.replace(FILE, sha256=bytes(range(32)))
    for entry, counts in ((hashed, False), (FILE, True)):
        one = encode_file(entry)
        change: Any
        for change in ({"modified_us": 9}, {"operation": bytes(16)}):
            assert same_file(one, encode_file(msgspec.structs.replace(entry, **change)))
        for change in ({"address": "b"}, {"etag": "b"}):
            other = encode_file(msgspec.structs.replace(entry, **change))
            assert same_file(one, other) is not counts
        for change in (
            {"size": 13},
            {"sha256": bytes(32)},
            {"metadata": (("a", ""),)},
            {"content_type": "b"},
        ):
            assert not same_file(one, encode_file(msgspec.structs.replace(entry, **change)))


def test_metadata_is_bounded_as_a_whole():
    fits = (("a", "x" * 5_000), ("b", "x" * (FILE_METADATA_BYTES_MAX - 5_002)))
    encode_file(msgspec.structs.replace(FILE, metadata=fits))
    with pytest.raises(TooLarge):
        encode_file(msgspec.structs.replace(FILE, metadata=(*fits, ("c", ""))))


def test_metadata_is_in_the_order_of_utf_8_bytes():
    names = sorted(["", "A", "a", "ä", "\ufffd", "😀"], key=str.encode)
    entry = msgspec.structs.replace(FILE, metadata=tuple((name, "v") for name in names))
    assert decode_file(encode_file(entry)) == entry


def test_the_largest_entry_fits_a_node():
    entry = FileEntry(
        "a" * FILE_ADDRESS_BYTES_MAX,
        2**63 - 1,
        2**63 - 1,
        bytes(32),
        "c" * FILE_ETAG_BYTES_MAX,
        (("k", "v" * (FILE_METADATA_BYTES_MAX - 1)),),
        "t" * FILE_TYPE_BYTES_MAX,
        bytes(16),
    )
    assert len(encode_file(entry)) < NODE_RAW_BYTES_CAP // 4
