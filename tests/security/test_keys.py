"""Names as an attacker would write them: kept as they are, or refused with a typed error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import InvalidKey
from lochan.base.keys import file_key, file_path, table_elements, table_key
from lochan.base.limits.contents import KEY_BYTES_MAX, PATH_BYTES_MAX

anything = st.one_of(
    st.text(),
    st.text(st.characters(categories=["Cs", "Cc", "Lu"])),
    st.binary(),
    st.none(),
    st.integers(),
    st.floats(),
    st.lists(st.text(max_size=2), max_size=2),
)


@given(st.lists(anything, max_size=25))
def test_any_list_is_a_key_that_comes_back_or_is_refused(elements):
    try:
        key = table_key(elements)
    except InvalidKey:
        return
    assert table_elements(key) == tuple(elements)
    assert len(key) <= KEY_BYTES_MAX


@given(anything)
def test_anything_is_a_path_that_comes_back_or_is_refused(path):
    try:
        key = file_key(path)
    except InvalidKey:
        return
    assert file_path(key) == path
    assert len(key) <= PATH_BYTES_MAX + 1


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_no_single_element_passes_for_two(text):
    """The separator cannot be smuggled in, also not by an encoding of it."""
    try:
        key = table_key([text])
    except InvalidKey:
        return
    assert key.count(b"\x01") == 0


@pytest.mark.parametrize("size", [10**6, 10**7])
def test_a_huge_name_is_refused_and_not_repeated_in_the_message(size):
    for wrong in (["x" * size], ["x"] * size, ["\n" * size]):
        with pytest.raises(InvalidKey) as caught:
            table_key(wrong)
        assert len(caught.value.message) < 300
    with pytest.raises(InvalidKey) as caught:
        file_key("x" * size)
    assert len(caught.value.message) < 300


def test_look_alikes_are_different_names():
    """Nothing is normalised: what was written is what is found."""
    names = ["\u00e9", "e\u0301", "\ufb01", "fi", "K", "\u212a", "\u0130", "i\u0307"]
    assert len({table_key([name]) for name in names}) == len(set(names)) == 8


@pytest.mark.parametrize("name", ["..", ".", "/", "a/../b", "%00", "%2e%2e", "'; DROP TABLE x"])
def test_names_that_mean_something_elsewhere_mean_nothing_here(name):
    assert table_elements(table_key([name])) == (name,)
    assert file_path(file_key(name)) == name
