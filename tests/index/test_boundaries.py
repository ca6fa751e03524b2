"""The boundary rule, against its own description read aloud."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import Bug
from lochan.base.limits.storage import HARD_BREAK_ONE_IN, NODE_RAW_BYTES_CAP
from lochan.index.boundary import BoundaryRule
from tests.property.tree_runs import hard_one_in

RULE = BoundaryRule(bytes(range(16)))
KEYS = [b"t%06d" % number for number in range(20_000)]


def share(digest: bytes) -> float:
    return int.from_bytes(digest, "big") / 2**64


def described(rule, level, keys, sizes, hard_share) -> list[int]:
    """The rule word by word: for each element, does one of the five sentences hold?"""
    cuts, start, raw = [], 0, 0
    for at, (key, size) in enumerate(zip(keys, sizes, strict=True)):
        position = at - start + 1
        raw += size
        drawn = share(rule.hash(level, key))
        ends = (
            (level <= 1 and share(rule.hash(0, key)) < hard_share)
            or position == 80
            or raw >= NODE_RAW_BYTES_CAP
            or (position >= 20 and drawn < 1 / 40)
            or (position >= 50 and drawn < 8 / 40)
        )
        if ends:
            cuts.append(at + 1)
            start, raw = at + 1, 0
    return cuts


@pytest.mark.parametrize("level", [0, 1, 2, 5])
@pytest.mark.parametrize("one_in", [HARD_BREAK_ONE_IN, 300])
@pytest.mark.parametrize("large", [False, True])
def test_cuts_are_where_the_description_puts_them(monkeypatch, level, one_in, large):
    hard_one_in(monkeypatch, one_in)
    random = Random(level)
    sizes = [random.choice([20, 90, 9_000 if large else 90]) for _ in KEYS]
    expected = described(RULE, level, KEYS, sizes, 1 / one_in)
    assert RULE.find_cuts(level, KEYS, sizes) == expected
    if not large:
        assert RULE.find_cuts(level, KEYS, None) == expected


@pytest.mark.parametrize("level", [0, 1, 2])
def test_testing_one_element_agrees_with_cutting_many(monkeypatch, level):
    hard_one_in(monkeypatch, 300)
    cuts, start = [], 0
    for at, key in enumerate(KEYS):
        if RULE.ends_node(level, key, at - start + 1):
            cuts.append(at + 1)
            start = at + 1
    assert cuts == RULE.find_cuts(level, KEYS, None)


def test_cuts_look_only_backwards():
    cuts = RULE.find_cuts(0, KEYS, None)
    for length in (1, 19, 20, 50, 81, 1_000, 3_333):
        assert RULE.find_cuts(0, KEYS[:length], None) == [cut for cut in cuts if cut <= length]


def test_from_any_cut_on_the_cuts_are_the_same():
    cuts = RULE.find_cuts(0, KEYS, None)
    for cut in cuts[:40]:
        after = [cut + more for more in RULE.find_cuts(0, KEYS[cut:], None)]
        assert after == [other for other in cuts if other > cut]


def test_nodes_have_about_forty_elements():
    cuts = RULE.find_cuts(0, KEYS, None)
    assert 36 < len(KEYS) / len(cuts) < 46


def test_about_one_key_in_fifty_thousand_is_a_hard_break():
    count = sum(RULE.is_hard_break(b"t%07d" % number) for number in range(300_000))
    assert 1 <= count <= 14


def test_another_seed_and_another_level_give_other_hashes():
    other = BoundaryRule(bytes(16))
    digests = {RULE.hash(0, b"k"), RULE.hash(1, b"k"), other.hash(0, b"k"), RULE.hash(0, b"l")}
    assert len(digests) == 4
    assert RULE.hash(0, b"k") == BoundaryRule(bytes(range(16))).hash(0, b"k")


@pytest.mark.parametrize("seed", [b"", bytes(15), bytes(17)])
def test_a_seed_has_16_bytes(seed):
    with pytest.raises(Bug):
        BoundaryRule(seed)


def test_no_keys_make_no_cuts():
    assert RULE.find_cuts(0, [], None) == []
