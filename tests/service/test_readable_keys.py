"""Rights over keys, joined and applied to ranges, select what they select key by key."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lochan.access.policy import KeyRight
from lochan.service.pages import KeyRange
from lochan.service.readable_keys import covered, join_rights, ranges_of

KEYS = [bytes(letters) for letters in [b"", b"a", b"aa", b"ab", b"b", b"ba", b"bb", b"c", b"ca"]]


class Ranges(msgspec.Struct, frozen=True):
    """A right of the simplest form; its ranges may touch, and some of their keys are left out."""

    ranges: tuple[tuple[bytes, bytes | None], ...]
    hidden: frozenset[bytes] = frozenset()

    def covers(self, raw: bytes) -> bool:
        inside = any(low <= raw and (high is None or raw < high) for low, high in self.ranges)
        return inside and raw not in self.hidden

    def next_range(self, raw: bytes) -> tuple[bytes, bytes | None] | None:
        return next((one for one in self.ranges if one[1] is None or one[1] > raw), None)


@st.composite
def rights(draw: st.DrawFn) -> KeyRight | None:
    bounds = sorted(draw(st.sets(st.sampled_from(KEYS), max_size=6)))
    if draw(st.booleans()):
        # Each range ends where the next one begins.
        pairs = list(zip(bounds, [*bounds[1:], None], strict=False))
    else:
        pairs = list(zip(bounds[::2], [*bounds[1::2], None], strict=False))
    hidden = draw(st.frozensets(st.sampled_from(KEYS), max_size=3))
    return draw(st.sampled_from([None, Ranges(tuple(pairs), hidden)]))


@given(st.lists(rights(), max_size=4))
def test_joined_rights_cover_what_all_of_them_cover(some):
    joined = join_rights(*some)
    expected = [key for key in KEYS if all(one is None or one.covers(key) for one in some)]
    assert covered(joined, KEYS) == expected
    if all(one is None for one in some):
        assert joined is None


@given(st.lists(rights(), max_size=3), st.sampled_from(KEYS), st.sampled_from([None, *KEYS]))
def test_ranges_contain_every_covered_key_once_and_in_order(some, start, end):
    joined = join_rights(*some)
    parts = list(ranges_of(joined, KeyRange(start, end)))
    within = [key for key in KEYS if start <= key and (end is None or key < end)]
    found = [
        key
        for part in parts
        for key in KEYS
        if part.start <= key and (part.end is None or key < part.end)
    ]
    assert found == sorted(set(found))
    assert set(found) <= set(within)
    assert covered(joined, found) == covered(joined, within)


def test_equal_rights_are_joined_to_one():
    one = Ranges(((b"a", b"b"),))
    assert join_rights(one, None, Ranges(((b"a", b"b"),))) == one
    assert join_rights(None, None) is None
    assert join_rights() is None
