"""The bounded map: never over its bound, and what is used stays."""

from __future__ import annotations

from lochan.access.generations import Generations


def test_the_map_is_bounded():
    held: Generations[int, str] = Generations(10)
    for number in range(1_000):
        held.keep(number, str(number))
        assert len(held) <= 10
        assert held.find(number) == str(number)


def test_what_is_used_stays():
    held: Generations[int, str] = Generations(10)
    held.keep(-1, "used")
    for number in range(1_000):
        held.keep(number, "")
        assert held.find(-1) == "used"
    assert held.find(0) is None


def test_a_later_value_replaces_an_earlier_one():
    held: Generations[int, str] = Generations(10)
    held.keep(1, "first")
    for number in range(2, 7):
        held.keep(number, "")
    held.keep(1, "second")
    for number in range(7, 10):
        held.keep(number, "")
        assert held.find(1) == "second"
