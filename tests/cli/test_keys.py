"""Keys as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import InvalidKey
from lochan.base.keys import table_key
from lochan.cli.keys import key_text, parse_key


def storable(elements: tuple[str, ...]) -> bool:
    try:
        table_key(elements)
    except InvalidKey:
        return False
    return True


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5).map(tuple))
def test_what_is_written_is_read_as_the_same_key(elements):
    if storable(elements):
        assert parse_key(key_text(elements)) == elements
    else:
        with pytest.raises(InvalidKey):
            parse_key(key_text(elements))


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ('a."b.c"', ("a", "b.c")),
        ('"a b".c', ("a b", "c")),
        ('"say ""hi"""', ('say "hi"',)),
        ("ü.日本", ("ü", "日本")),
    ],
)
def test_elements_have_dots_between_and_quotes_around_dots(text, elements):
    assert parse_key(text) == elements


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b', '"a"b', '""', "a\x01b"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(InvalidKey):
        parse_key(text)
