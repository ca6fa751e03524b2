"""Keys in URLs: both encodings are read, and what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import InvalidKey
from lochan.wire.keys import key_from_path, key_to_path

elements = st.text(
    st.characters(min_codepoint=0x20, exclude_characters="\x7f", exclude_categories=["Cs"]),
    min_size=1,
)


@given(st.lists(elements, min_size=1, max_size=4).map(tuple))
def test_the_escaped_form_holds_every_key(key):
    assert key_from_path(key_to_path(key)) == key


@given(
    st.lists(elements.filter(lambda text: not text.startswith(".")), min_size=1, max_size=4).map(
        tuple
    )
)
def test_the_legacy_form_is_read_back(key):
    assert key_from_path(key_to_path(key, escaped=False)) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a.b", ("a", "b")),
        ("test\x1d.nested.Key", ("test.", "nested", "Key")),
        (".a*.b.c", ("a.b", "c")),
        (".a*{b*}c*[d**", ("a/b\\c%d*",)),
        ("a*b", ("a*b",)),
    ],
)
def test_keys_are_read_as_other_clients_write_them(text, key):
    assert key_from_path(text) == key


@pytest.mark.parametrize(
    ("key", "text"),
    [(("a", "b"), "a.b"), (("a.b", "c"), ".a*.b.c"), (("a/b*",), ".a*{b**"), (("a*",), "a*")],
)
def test_keys_are_written_as_other_clients_read_them(key, text):
    assert key_to_path(key) == text


@pytest.mark.parametrize("text", ["", "a..b", "a.", ".a*", ".a*x", "..a", "."])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(InvalidKey):
        key_from_path(text)
