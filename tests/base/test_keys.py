"""Keys: what may be named, and in which order names stand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lochan.base import keys
from lochan.base.errors import Corrupt, Invalid, InvalidKey
from lochan.base.keys import (
    Key,
    Universe,
    file_key,
    file_path,
    ordered,
    prefix_end,
    table_elements,
    table_key,
)
from lochan.base.limits.contents import KEY_BYTES_MAX
from lochan.testing import strategies


def test_a_table_key_is_its_universe_byte_and_its_elements_joined_by_0x01():
    assert table_key(["sales", "Q1"]) == b"tsales\x01Q1"
    assert table_key(("ä", "表", "😀")) == b"t\xc3\xa4\x01\xe8\xa1\xa8\x01\xf0\x9f\x98\x80"


def test_a_file_key_is_its_universe_byte_and_the_raw_path():
    assert file_key("a/b//c.parquet") == b"fa/b//c.parquet"
    assert file_key("tab\tand\x01bell\x07") == b"ftab\tand\x01bell\x07"


def test_the_universes_never_share_a_key():
    assert table_key(["a"])[0] == Universe.TABLES != Universe.FILES == file_key("a")[0]


@given(strategies.table_names)
def test_table_keys_come_back_unchanged(elements):
    assert table_elements(table_key(elements)) == tuple(elements)


@given(strategies.file_paths)
@example("a" * 1024)
def test_paths_come_back_unchanged(path):
    assert file_path(file_key(path)) == path


@given(strategies.table_names, strategies.table_names)
@example(["a", "b"], ["a.b"])
@example(["ab"], ["a", "b"])
def test_different_names_have_different_keys(one, other):
    assert (table_key(one) == table_key(other)) == (one == other)


@given(strategies.table_names, strategies.table_names)
def test_keys_are_ordered_element_by_element_in_utf_8(one, other):
    """Byte order of the joined form is the order of the lists of encoded elements."""
    by_elements = [part.encode() for part in one] < [part.encode() for part in other]
    assert (table_key(one) < table_key(other)) == by_elements


def test_order_is_that_of_utf_8_bytes_and_so_of_code_points_not_of_utf_16():
    in_order = ["A", "Z", "a", "z", "ä", "\ufffd", "😀"]
    assert [table_key([name]) for name in in_order] == sorted(table_key([n]) for n in in_order)
    assert sorted(in_order, key=lambda name: name.encode("utf-16-be")) != in_order


def test_a_parent_stands_directly_before_its_children():
    names = [["a"], ["a", "b"], ["a", "b", "c"], ["a", "~"], ["a "], ["a!"], ["a-b"], ["ab"]]
    keys = [table_key(name) for name in names]
    assert keys == sorted(keys)


@given(strategies.table_names, strategies.key_elements, strategies.table_names)
def test_nothing_comes_between_a_parent_and_its_children(parent, element, other):
    assume(sum(map(len, parent)) + len(element) <= 500)
    assume(len(parent) < 20)
    between = table_key(parent) < table_key(other) < table_key([*parent, element])
    assert not between or other[: len(parent)] == parent


def test_keys_that_differ_only_in_case_are_different():
    assert len({table_key([name]) for name in ("sales", "Sales", "SALES")}) == 3


def test_500_characters_in_20_elements_are_a_key():
    elements = ["x" * 25] * 20
    assert table_elements(table_key(elements)) == tuple(elements)
    assert table_elements(table_key(["😀" * 500])) == ("😀" * 500,)


def test_the_widest_characters_stay_below_the_limit_of_bytes():
    assert len(table_key(["😀" * 25] * 20)) == 1 + 500 * 4 + 19 <= KEY_BYTES_MAX


@pytest.mark.parametrize(
    "elements",
    [
        ["x" * 501],
        ["x" * 26, *["x" * 25] * 19],
        ["x"] * 21,
        [],
        [""],
        ["a", ""],
        ["", "a"],
        "a bare text",
        "",
        b"bytes",
        [b"bytes"],
        [1],
        [None],
        ["a", ["b"]],
        ["\ud800"],
        ["a", "b\udfff"],
    ],
    ids=repr,
)
def test_what_is_no_key_is_refused(elements):
    with pytest.raises(InvalidKey):
        table_key(elements)


@pytest.mark.parametrize("code", [*range(0x20), 0x7F])
def test_control_characters_are_refused_wherever_they_stand(code):
    for text in (chr(code), "a" + chr(code), chr(code) + "a", "a" + chr(code) + "b"):
        with pytest.raises(InvalidKey):
            table_key(["fine", text])


def test_characters_just_outside_the_control_range_are_allowed():
    assert table_elements(table_key([" ", "~", "\x80", "\xa0"])) == (" ", "~", "\x80", "\xa0")


def test_a_refused_key_is_an_invalid_request_that_names_the_place():
    with pytest.raises(Invalid, match="element 1 "):
        table_key(["a", "b\n"])


@pytest.mark.parametrize(
    "path",
    ["", "x" * 1025, "é" * 513, "\0", "a\0b", "\ud800", b"bytes", None, 7, ["a"]],
    ids=lambda path: repr(path)[:20],
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(InvalidKey):
        file_key(path)


@pytest.mark.parametrize("path", ["x", "x" * 1024, "é" * 512, "/", "//", " ", "..", "a\nb", "\x7f"])
def test_what_s3_allows_is_a_path(path):
    assert file_path(file_key(path)) == path


def test_a_stored_key_of_the_other_universe_is_corrupt():
    with pytest.raises(Corrupt):
        table_elements(file_key("a"))
    with pytest.raises(Corrupt):
        file_path(table_key(["a"]))


@pytest.mark.parametrize("raw", [b"", b"t\xff", b"t\xed\xa0\x80", b"x"])
def test_stored_bytes_that_are_no_table_key_are_corrupt(raw):
    with pytest.raises(Corrupt):
        table_elements(Key(raw))


@given(st.binary(max_size=6), st.binary(max_size=8))
@example(b"a\xff\xff", b"a\xff\xff\xff")
@example(b"a\xff", b"b")
def test_a_half_open_range_to_the_prefix_end_holds_exactly_what_starts_with_the_prefix(prefix, key):
    end = prefix_end(prefix)
    assert (key >= prefix and (end is None or key < end)) == key.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"", None), (b"\xff", None), (b"\xff\xff", None), (b"a", b"b"), (b"a\xff", b"b")],
)
def test_the_end_of_a_prefix(prefix, end):
    assert prefix_end(prefix) == end


@given(st.lists(strategies.table_names, min_size=2, max_size=20))
def test_sorted_names_have_sorted_keys(names):
    keys = [
        table_key(name) for name in sorted(names, key=lambda parts: [p.encode() for p in parts])
    ]
    assert all(one <= other for one, other in pairwise(keys))


def test_the_limit_of_bytes_holds_by_itself(monkeypatch):
    """The other limits are met first; should they grow, this one is still there."""
    monkeypatch.setattr(keys, "KEY_BYTES_MAX", 10)
    assert table_key(["é" * 4]) == b"t" + "é".encode() * 4
    with pytest.raises(InvalidKey, match="at most 10 bytes, not 11"):
        table_key(["é" * 5])


@given(st.lists(st.binary(max_size=3), max_size=60))
def test_ordered_keys_are_sorted_and_each_there_once(keys):
    assert ordered(iter(keys)) == sorted(set(keys))


def test_many_keys_are_ordered_in_slices():
    keys = [b"%07d" % (n * 7_919 % 10_007) for n in range(12_000)]
    assert ordered(keys) == sorted(set(keys))
