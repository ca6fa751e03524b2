"""Rows that change: what is written is read, and what was not written is Corrupt."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Corrupt, NewerFormat
from lochan.codec.elements import is_remove
from lochan.codec.forms import encode_row
from lochan.codec.rows import (
    DESCRIPTION_FORM,
    REFERENCE_FORM,
    Description,
    Move,
    ReferenceElement,
    ReferenceRow,
    decode_reference_element,
    encode_reference_element,
)
from lochan.testing.strategies import object_ids, texts

decode_row = REFERENCE_FORM.decode
decode_description = DESCRIPTION_FORM.decode

times = st.integers(0, 2**62)
moves = st.builds(
    Move,
    times,
    object_ids,
    object_ids,
    texts,
    texts,
    times,
    st.binary(max_size=16),
    texts,
    st.binary(max_size=32),
)
rows = st.builds(
    ReferenceRow,
    st.just(1),
    texts,
    texts,
    object_ids,
    times,
    times,
    st.binary(max_size=16),
    times,
    st.booleans(),
    st.none() | times,
    st.lists(st.tuples(object_ids, times), max_size=3).map(tuple),
    st.lists(moves, max_size=3).map(tuple),
    st.binary(max_size=8),
    st.lists(st.binary(max_size=8), max_size=3).map(tuple),
)
elements = st.builds(
    ReferenceElement,
    texts,
    object_ids,
    times,
    times,
    st.binary(max_size=16),
    texts,
    st.none() | times,
)
descriptions = st.builds(
    Description, st.just(1), texts, texts, times, st.binary(max_size=16), st.binary(max_size=32)
)

ROW = ReferenceRow(1, "main", "BRANCH", bytes(32), 1, 1, bytes(16), 5)
ELEMENT = ReferenceElement("BRANCH", bytes(32), 1, 5, bytes(16), "me")
DESCRIPTION = Description(1, "r", "main", 5, bytes(16), bytes(32))


def with_checksum(raw: bytes) -> bytes:
    return raw + crc32(raw).to_bytes(4, "big")


@given(rows)
def test_rows_are_read_as_they_were_written(row):
    assert decode_row(encode_row(row)) == row


@given(elements)
def test_listed_names_are_read_as_they_were_written(element):
    raw = encode_reference_element(element)
    assert decode_reference_element(raw) == element
    assert not is_remove(raw)


@given(descriptions)
def test_descriptions_are_read_as_they_were_written(description):
    assert decode_description(encode_row(description)) == description


@pytest.mark.parametrize(
    ("decode", "raw"),
    [
        (decode_row, encode_row(ROW)),
        (decode_reference_element, encode_reference_element(ELEMENT)),
        (decode_description, encode_row(DESCRIPTION)),
    ],
)
def test_every_truncation_is_corrupt(decode, raw):
    for length in range(len(raw) - 1):
        with pytest.raises(Corrupt):
            decode(raw[:length])
    with pytest.raises(Corrupt):
        decode(raw + b"\0")


@pytest.mark.parametrize("decode", [decode_row, decode_reference_element, decode_description])
def test_any_bytes_are_decoded_or_corrupt(decode):
    random = Random(1)
    raws = [encode_row(ROW), encode_reference_element(ELEMENT), encode_row(DESCRIPTION)]
    for number in range(3_000):
        raw = bytearray(raws[number % 3])
        for _ in range(random.randrange(1, 4)):
            raw[random.randrange(len(raw))] = random.randrange(256)
        with suppress(Corrupt, NewerFormat):
            decode(bytes(raw))


def test_a_later_format_is_not_read():
    for decode, raw in (
        (decode_row, encode_row(ROW)),
        (decode_description, encode_row(DESCRIPTION)),
    ):
        assert raw[1] == 1
        with pytest.raises(NewerFormat, match=r"format 2.*upgrade Lochan"):
            decode(with_checksum(raw[:1] + b"\x02" + raw[2:-4]))


@pytest.mark.parametrize(
    ("decode", "raw"),
    [(decode_row, encode_row(ROW)), (decode_description, encode_row(DESCRIPTION))],
)
def test_every_flipped_bit_of_a_row_is_corrupt(decode, raw):
    for at in range(len(raw)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                decode(raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :])


def test_a_field_that_a_later_version_adds_at_the_end_does_not_hurt():
    raw = encode_row(ROW)
    assert raw[0] == 0x9F
    assert decode_row(with_checksum(b"\xdc\x00\x10" + raw[1:-4] + b"\xc0")) == ROW
