"""Long lists are written in slices; the bytes are those of one piece."""

from __future__ import annotations

import msgspec
import pytest

from lochan.wire.codec import encode


class Line(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    some_number: int
    note: str | None = None


class Page(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="PAGE"):
    has_more: bool
    lines: list[Line]
    others: list[Line] = msgspec.field(default_factory=list, name="more-lines")
    token: str | None = None


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_000, 2_500])
def test_a_list_of_any_length_is_written_as_one_piece_would_be(count):
    lines = [Line(number, "], [" if number % 3 else None) for number in range(count)]
    for page in (Page(True, lines), Page(False, lines, lines, "next"), Page(True, [], lines)):
        assert encode(page) == msgspec.json.encode(page)
    assert encode(lines) == msgspec.json.encode(lines)
