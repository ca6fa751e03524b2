"""Headers of files: what is written is read again, and what is malformed is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Invalid
from lochan.model.files import FileInfo, FileProperties, WriteCondition
from lochan.wire.file_headers import (
    condition_headers,
    file_text,
    metadata_text,
    property_headers,
    read_condition,
    read_file,
    read_metadata,
    read_properties,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
MD5 = hashlib.md5(b"x", usedforsecurity=False).hexdigest()
SHA256 = hashlib.sha256(b"x").hexdigest()


class Headers:
    """The headers of a request."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs

    def __call__(self, name: str) -> list[str]:
        return [value for each, value in self._pairs if each == name]


@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_metadata_of_any_text_is_read_as_it_was_written(metadata):
    pairs = tuple(sorted(metadata.items()))
    text = metadata_text(pairs)
    assert text.isascii()
    assert text.isprintable()
    assert read_metadata(text) == pairs


@pytest.mark.parametrize("text", ["a", "=b", "a=1&", "a=1&a=2", "a=%", "a=%GG", "a=%ff"])
def test_malformed_metadata_is_refused(text):
    with pytest.raises(Invalid):
        read_metadata(text)


def test_properties_are_read_as_they_were_written():
    given_properties = FileProperties(
        content_type="text/csv; charset=utf-8",
        metadata=(("é", "ß & = %"),),
        size=7,
        sha256=SHA256,
        md5=MD5,
    )
    assert read_properties(Headers(property_headers(given_properties)), 7) == given_properties
    assert property_headers(FileProperties()) == ()


@pytest.mark.parametrize(
    "condition",
    [
        WriteCondition(),
        WriteCondition(if_absent=True),
        WriteCondition(if_match="*"),
        WriteCondition(if_match='é "quoted"'),
        WriteCondition(if_match="5d41402abc4b2a76b9719d911017c592-3"),
        WriteCondition(if_sha256=SHA256),
    ],
)
def test_conditions_are_read_as_they_were_written(condition):
    assert read_condition(Headers(condition_headers(condition))) == condition


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-md5", "zz"),
        ("content-md5", "YWJj"),
        ("content-digest", "sha-256=abc"),
        ("content-digest", "sha-256=:YWJj:"),
        ("content-digest", "md5=:YWJj:"),
    ],
)
def test_a_malformed_checksum_is_refused_and_not_ignored(name, value):
    with pytest.raises(Invalid):
        read_properties(Headers([(name, value)]), None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("if-match", "abc"),
        ("if-match", '"a", "b"'),
        ("if-match", 'W/"a"'),
        ("if-none-match", '"a"'),
        ("lochan-if-sha256", "abc"),
    ],
)
def test_a_condition_that_a_write_cannot_check_is_refused(name, value):
    with pytest.raises(Invalid):
        read_condition(Headers([(name, value)]))


def test_a_header_that_is_given_twice_is_refused():
    with pytest.raises(Invalid, match="more than once"):
        read_properties(Headers([("content-md5", "a"), ("content-md5", "b")]), None)


@given(NAMES, TEXTS)
def test_a_file_is_read_from_its_header_as_it_is(path, value):
    info = FileInfo(
        path=path, size=1, etag="e", modified_us=1_000_000, metadata=(("k", value),), address="a"
    )
    text = file_text(info)
    assert text.isascii()
    assert text.isprintable()
    assert read_file(text) == info
