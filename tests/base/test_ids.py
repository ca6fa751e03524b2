"""Typed ids: their text forms, and nothing but those."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Invalid
from lochan.base.ids import (
    EMPTY_ID,
    ROOT_INSTANCE,
    ContentId,
    content_id_from_uuid_bytes,
    find_uuid_bytes,
    obj_id_from_hex,
)
from lochan.testing import strategies

UUID_TEXT = "01234567-89ab-cdef-0123-456789abcdef"


def test_the_empty_id_is_the_one_that_nessie_uses():
    text = "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d"
    assert EMPTY_ID.hex() == text
    assert obj_id_from_hex(text) == EMPTY_ID == sha256(b"empty").digest()


@given(strategies.object_ids)
def test_an_id_comes_back_from_its_text(obj_id):
    assert obj_id_from_hex(obj_id.hex()) == obj_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 63,
        "0" * 65,
        "0" * 66,
        "A" * 64,
        "g" * 64,
        "0x" + "0" * 62,
        " " + "0" * 63,
        "0" * 63 + "\n",
        "00 " * 21 + "0",
        "٣" * 64,
    ],
)
def test_anything_else_is_no_object_id(text):
    with pytest.raises(Invalid, match="64 lower-case hex digits"):
        obj_id_from_hex(text)


def test_a_long_wrong_id_is_not_repeated_whole():
    with pytest.raises(Invalid) as caught:
        obj_id_from_hex("x" * 10_000)
    assert len(caught.value.message) < 200


def test_a_uuid_is_16_bytes():
    raw = find_uuid_bytes(ContentId(UUID_TEXT))
    assert raw == bytes.fromhex(UUID_TEXT.replace("-", ""))
    assert content_id_from_uuid_bytes(raw) == UUID_TEXT


@pytest.mark.parametrize(
    "text",
    [
        UUID_TEXT.upper(),
        "{" + UUID_TEXT + "}",
        "urn:uuid:" + UUID_TEXT,
        UUID_TEXT.replace("-", ""),
        UUID_TEXT + " ",
        UUID_TEXT[:-1],
        UUID_TEXT[:-1] + "g",
        "0123456789-ab-cdef-0123-456789abcdef",
        "0" * 36,
        "-" * 36,
        "",
        "my table",
    ],
)
def test_another_form_of_a_uuid_is_some_text_and_kept_as_it_is(text):
    assert find_uuid_bytes(ContentId(text)) is None


@given(st.binary(min_size=16, max_size=16))
def test_every_16_bytes_are_a_content_id_and_come_back(raw):
    assert find_uuid_bytes(content_id_from_uuid_bytes(raw)) == raw


@given(strategies.content_ids)
def test_a_content_id_with_bytes_comes_back_from_them(content_id):
    raw = find_uuid_bytes(content_id)
    assert raw is None or content_id_from_uuid_bytes(raw) == content_id


def test_what_belongs_to_no_repository_has_the_zero_instance():
    assert bytes(16) == ROOT_INSTANCE
