"""Times and spans: exact to the microsecond, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Invalid
from lochan.wire.codec import instant, micros, span_us

_DAY = 86_400_000_000


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_time_is_read_back_to_the_microsecond(time_us):
    assert micros(instant(time_us)) == time_us


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", 7 * _DAY),
        ("P1W", 7 * _DAY),
        ("PT90M", 5_400_000_000),
        ("PT0.5S", 500_000),
        ("P1DT1H", _DAY + 3_600_000_000),
    ],
)
def test_spans_are_read(text, expected):
    assert span_us(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "7D", "P1Y", "PT0S", "-P1D", "P1DT", "P1D "])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(Invalid):
        span_us(text)
