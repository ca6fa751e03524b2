"""Patterns cover what is below a prefix, and nothing that only begins alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.access.patterns import ALL_KEYS, compile_keys, compile_names
from lochan.access.spans import EVERYTHING, NOTHING, Spans, one_name, prefixed, union
from lochan.base.errors import Invalid
from lochan.base.keys import file_key, job_key, table_key
from lochan.base.limits.policies import STATEMENT_ITEMS_MAX

ID = "11111111-2222-3333-4444-555555555555"


def names(found: Spans, *texts: str) -> list[bool]:
    return [found.covers(text.encode()) for text in texts]


def keys(found: Spans, *texts: str) -> list[bool]:
    """Looks up keys that are written with dots, and paths that begin with a slash."""
    raws = [
        file_key(text[1:]) if text.startswith("/") else table_key(text.split(".")) for text in texts
    ]
    return [found.covers(raw) for raw in raws]


def test_a_prefix_of_names_ends_at_a_separator():
    found = compile_names(["dev/*"])
    assert names(found, "dev/x", "dev/x/y", "dev/") == [True] * 3
    assert names(found, "dev", "dev2/x", "dev.x", "de", "Dev/x", "dev-/x", "") == [False] * 7


def test_a_name_covers_itself_only():
    found = compile_names(["main", "team/r"])
    assert names(found, "main", "team/r") == [True, True]
    assert names(found, "main2", "mai", "main/x", "team", "team/r/x", "team/r0") == [False] * 6


def test_a_star_alone_covers_everything():
    assert compile_names(["x", "*"]) == EVERYTHING
    assert compile_keys(["*"], ["*"]) == ALL_KEYS
    assert compile_keys(["*", "x"], ["y/*", "*"]) == ALL_KEYS
    assert ALL_KEYS.covers(job_key(ID, "job"))


def test_a_prefix_of_keys_ends_at_an_element():
    found = compile_keys(["sales.*"], ["*"])
    assert keys(found, "sales.x", "sales.x.y") == [True, True]
    assert keys(found, "sales", "sales2.x", "sale.x", "Sales.x", "x.sales") == [False] * 5
    assert not found.covers(table_key(["sales.x"]))


def test_a_dot_inside_an_element_is_written_as_a_control_character():
    found = compile_keys(["a\x1db", "c\x1dd.*"], [])
    assert found.covers(table_key(["a.b"]))
    assert found.covers(table_key(["c.d", "e"]))
    assert not found.covers(table_key(["a", "b"]))
    assert not found.covers(table_key(["c", "d", "e"]))


def test_a_prefix_of_paths_ends_at_a_slash():
    found = compile_keys([], ["raw/2026/*", "one", "odd.name/*"])
    assert keys(found, "/raw/2026/a", "/raw/2026/b/c", "/one", "/odd.name/x") == [True] * 4
    assert keys(found, "/raw/2026", "/raw/20267", "/raw/2025/a", "/one/x", "/odd/x") == [False] * 5


@pytest.mark.parametrize(
    ("tables", "files", "expected"),
    [
        (["*"], ["*"], [True, True, True, True]),
        (["a.*"], ["*"], [True, False, False, False]),
        (["*"], ["a/*"], [False, False, True, False]),
        (["a.*"], ["a/*"], [True, False, True, False]),
        (["*"], [], [True, True, False, False]),
        ([], ["*"], [False, False, True, True]),
        ([], [], [False, False, False, False]),
    ],
)
def test_patterns_of_one_kind_do_not_cover_the_other(tables, files, expected):
    assert keys(compile_keys(tables, files), "a.x", "b.x", "/a/x", "/b/x") == expected


def test_all_tables_and_all_files_are_all_keys_however_they_are_written():
    assert compile_keys(["*"], []) | compile_keys([], ["*"]) == ALL_KEYS


BAD = ["", "a*", "*a", "a*b", "**", "a/**", "*/*", "a\0", "a\n/*", "a\x7f", "\ud800"]


@pytest.mark.parametrize("pattern", [*BAD, "a.*", "/*", "1/*", "a//*", "int/*", "HEAD", "a..b"])
def test_patterns_of_names_with_another_form_are_refused(pattern):
    with pytest.raises(Invalid, match="pattern"):
        compile_names(["ok", pattern])


@pytest.mark.parametrize(
    "pattern",
    [*BAD, "a/*", ".*", "a..b", "a.", ".a", "a..*", "a\x1d*", "\x1c.*", ".".join("a" * 21)],
)
def test_patterns_of_keys_with_another_form_are_refused(pattern):
    with pytest.raises(Invalid, match="pattern"):
        compile_keys([pattern], ["*"])


@pytest.mark.parametrize("pattern", [*BAD, "a.*", "a\x1d/b", "x" * 1_025])
def test_patterns_of_paths_with_another_form_are_refused(pattern):
    with pytest.raises(Invalid, match="pattern"):
        compile_keys(["*"], [pattern])


def test_a_bad_pattern_is_refused_beside_a_star():
    with pytest.raises(Invalid):
        compile_names(["*", "a*"])


def test_the_number_of_patterns_has_a_limit():
    with pytest.raises(Invalid, match="at most"):
        compile_names(["x"] * (STATEMENT_ITEMS_MAX + 1))


ALPHABET = (b"a", b"ab", b"a\x00", b"a\x01", b"a\x01b", b"a\x01b\x01", b"a\x02", b"b", b"b\x01")
RANGES = st.lists(
    st.sampled_from([one_name(raw) for raw in ALPHABET])
    | st.sampled_from([prefixed(raw) for raw in ALPHABET]),
    max_size=4,
)
PROBES = (b"", b"\xff", b"a\x01c", *ALPHABET, *(raw + b"\0" for raw in ALPHABET))


def members(ranges: list[tuple[bytes, bytes]]) -> set[bytes]:
    return {raw for raw in PROBES if any(begin <= raw < end for begin, end in ranges)}


def covered(spans: Spans) -> set[bytes]:
    return {raw for raw in PROBES if spans.covers(raw)}


@given(RANGES, RANGES)
def test_sets_of_names_are_combined_as_sets_are(left, right):
    mine, other = union(left), union(right)
    assert covered(mine) == members(left)
    assert covered(mine | other) == members(left) | members(right)
    assert covered(mine & other) == members(left) & members(right)
    assert covered(mine - other) == members(left) - members(right)
    assert covered(EVERYTHING - mine) == set(PROBES) - members(left)


@given(RANGES, RANGES, RANGES)
def test_equal_sets_have_one_form(first, second, third):
    a, b, c = union(first), union(second), union(third)
    assert a | b | c == c | (b | a) == union([*third, *first, *second])
    assert (a - b) | (a & b) == a
    assert a - (b | c) == (a - b) - c
    assert a & (b | c) == (a & b) | (a & c)
    assert EVERYTHING - (EVERYTHING - a) == a
    assert a - a == NOTHING
    assert hash(a | b) == hash(b | a)
    for spans in (a | b, a & b, a - b, EVERYTHING - a):
        bounds = spans.bounds
        assert list(bounds) == sorted(set(bounds))


@given(RANGES, st.booleans(), st.sampled_from(PROBES))
def test_what_is_covered_lies_in_the_next_ranges(drawn, inverted, start):
    spans = EVERYTHING - union(drawn) if inverted else union(drawn)
    found = set()
    at: bytes | None = start
    while at is not None and (following := spans.next_range(at)) is not None:
        begin, end = following
        assert end is None or end > at
        found |= {raw for raw in PROBES if begin <= raw and (end is None or raw < end)}
        at = end
    assert {raw for raw in found if raw >= start} == {raw for raw in covered(spans) if raw >= start}
