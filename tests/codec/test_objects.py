"""Stored objects: one encoding per value, and nothing else is read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Corrupt, Invalid, NewerFormat, TooLarge
from lochan.base.ids import ContentId, find_uuid_bytes
from lochan.base.limits.contents import CONTENT_ID_BYTES_MAX, PAYLOAD_MAX
from lochan.base.limits.storage import OBJECT_BYTES_MAX
from lochan.codec.objects import (
    FileObject,
    NodeObject,
    ValueObject,
    address_of,
    build_value,
    check_canonical,
    check_object_id,
    decode_object,
    encode_object,
    find_object_id,
    object_id,
)
from lochan.testing import strategies

KINDS: list[Any] = [ValueObject, NodeObject, FileObject]
SMALL = [
    ValueObject(1, "content é", 5, b"\x00\xffdata"),
    NodeObject(1, 0, 2, 16, b"ta", (b"", b"b"), 5, b"0123456789"),
    NodeObject(1, 0, 2, 16, b"ta", (b"", b"b"), (3, 7), b"0123456789"),
    NodeObject(1, 1, 300, 45, b"tkey", (b"1",), 40, bytes(40)),
    FileObject(1, b"some bytes"),
]


@given(strategies.objects)
def test_an_object_comes_back_from_its_bytes(value):
    raw = encode_object(value)
    assert decode_object(type(value), raw) == value
    check_canonical(decode_object(type(value), raw), raw)
    check_object_id(object_id(raw), raw)


@given(strategies.objects, strategies.objects)
def test_different_objects_have_different_bytes(one, other):
    assert (encode_object(one) == encode_object(other)) == (one == other)


@pytest.mark.parametrize("value", SMALL, ids=lambda value: type(value).__name__)
def test_an_object_is_not_read_as_one_of_another_type(value):
    raw = encode_object(value)
    for kind in KINDS:
        if kind is not type(value):
            with pytest.raises(Corrupt):
                decode_object(kind, raw)


def damaged(raw: bytes) -> list[bytes]:
    """Every truncation, an addition, and every byte in every other value."""
    cut = [raw[:length] for length in range(len(raw))]
    flipped = [
        raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]
        for at in range(len(raw))
        for mask in range(1, 256)
    ]
    return [*cut, raw + b"\0", *flipped]


@pytest.mark.parametrize("value", SMALL, ids=lambda value: type(value).__name__)
def test_any_damage_is_seen_by_the_id(value):
    raw = encode_object(value)
    expected = object_id(raw)
    for changed in damaged(raw):
        with pytest.raises(Corrupt):
            check_object_id(expected, changed)


@pytest.mark.parametrize("value", SMALL, ids=lambda value: type(value).__name__)
def test_without_the_id_damage_is_corrupt_or_another_object_never_another_error(value):
    raw = encode_object(value)
    refused = 0
    for changed in damaged(raw):
        try:
            assert isinstance(decode_object(type(value), changed), type(value))
        except (Corrupt, NewerFormat):
            refused += 1
    assert refused > len(raw)


@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_any_bytes_are_an_object_or_corrupt(raw, kind):
    with suppress(Corrupt, NewerFormat):
        assert isinstance(decode_object(kind, raw), kind)


def test_text_that_is_no_utf_8_is_corrupt():
    """Found by review: the decoder raised UnicodeDecodeError."""
    with pytest.raises(Corrupt):
        decode_object(ValueObject, b"\x95\x03\x01\xa1\xff\x01\xc4\x00")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ValueObject, [3, 1, "id", 1]),
        (ValueObject, [3, 1, "id", 1, b"", "one more"]),
        (ValueObject, [3, 1, 7, 1, b""]),
        (ValueObject, [99, 1, "id", 1, b""]),
        (ValueObject, [3, 1, "id", "payload", b""]),
        (NodeObject, [4, 1, 0, 1, 1, b"", [b"k", "text"], 1, b"v"]),
        (NodeObject, {"level": 0}),
        (NodeObject, []),
        (NodeObject, None),
    ],
)
def test_fields_of_another_form_are_corrupt(kind, fields):
    with pytest.raises(Corrupt):
        decode_object(kind, msgspec.msgpack.encode(fields))


def test_a_longer_encoding_of_the_same_value_is_not_canonical():
    value = ValueObject(1, "a", 1, b"")
    raw = b"\x95\x03\x01\xd9\x01a\x01\xc4\x00"
    assert decode_object(ValueObject, raw) == value
    with pytest.raises(Corrupt):
        check_canonical(value, raw)
    assert encode_object(value) != raw


def test_an_object_over_the_limit_is_too_large():
    header = len(encode_object(ValueObject(1, "", 1, bytes(70_000)))) - 70_000
    encode_object(ValueObject(1, "", 1, bytes(OBJECT_BYTES_MAX - header)))
    with pytest.raises(TooLarge, match=str(OBJECT_BYTES_MAX)):
        encode_object(ValueObject(1, "", 1, bytes(OBJECT_BYTES_MAX - header + 1)))


def test_a_value_is_checked_where_it_enters():
    assert build_value(ContentId("id"), PAYLOAD_MAX, b"x") == ValueObject(
        1, "id", PAYLOAD_MAX, b"x"
    )
    longest = ContentId("é" * (CONTENT_ID_BYTES_MAX // 2))
    assert build_value(longest, 1, b"").content_id == longest


@pytest.mark.parametrize(
    ("content_id", "payload"),
    [
        ("", 1),
        ("é" * (CONTENT_ID_BYTES_MAX // 2) + "e", 1),
        ("\ud800", 1),
        ("id", 0),
        ("id", -1),
        ("id", PAYLOAD_MAX + 1),
    ],
)
def test_a_wrong_content_id_or_payload_is_invalid(content_id, payload):
    with pytest.raises(Invalid):
        build_value(ContentId(content_id), payload, b"")


def test_only_a_uuid_fits_an_element():
    assert find_uuid_bytes(ContentId("01234567-89ab-cdef-0123-456789abcdef"))
    assert not find_uuid_bytes(ContentId("01234567-89AB-cdef-0123-456789abcdef"))


def test_the_address_of_an_object_is_no_address_of_a_block_and_no_url():
    obj_id = object_id(encode_object(FileObject(1, b"x")))
    assert find_object_id(address_of(obj_id)) == obj_id
    for other in ("", "ab3/" + "0" * 29, f"s3:{'0' * 64}", address_of(obj_id) + "\n", "AB" * 32):
        assert find_object_id(other) is None
