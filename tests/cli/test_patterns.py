"""Key patterns of the generator: every function, repeatable by its seed, wrong ones refused."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from lochan.base.errors import Invalid, InvalidKey
from lochan.cli.generate.patterns import KeyPattern


def keys(text: str, count: int, seed: int = 1) -> list[tuple[str, ...]]:
    pattern = KeyPattern(text, Random(seed))
    return [pattern.next_key() for _ in range(count)]


def test_text_without_functions_is_one_key_with_elements():
    assert keys("a.b.c", 2) == [("a", "b", "c"), ("a", "b", "c")]


def test_uuid_gives_a_new_uuid_each_time():
    found = [UUID(key[0]) for key in keys("${uuid}", 50)]
    assert len(set(found)) == 50
    assert {one.version for one in found} == {4}


def test_int_stays_below_its_bound_and_reaches_every_number():
    assert {key[0] for key in keys("${int,4}", 200)} == {"0", "1", "2", "3"}


def test_string_has_its_length():
    found = [key[0] for key in keys("${string,12}", 20)]
    assert {len(one) for one in found} == {12}
    assert len(set(found)) == 20


def test_seq_counts_up_from_its_offset():
    assert keys("t.${seq,7}", 3) == [("t", "7"), ("t", "8"), ("t", "9")]


def test_every_renews_after_n_keys():
    assert [key[0] for key in keys("${every,3,seq,0}", 8)] == list("00011122")


def test_prob_renews_never_always_or_sometimes():
    assert {key[0] for key in keys("${prob,0,seq,0}", 20)} == {"0"}
    assert [key[0] for key in keys("${prob,1,seq,0}", 3)] == ["0", "1", "2"]
    assert 1 < len({key[0] for key in keys("${prob,0.5,seq,0}", 100)}) < 100


def test_functions_that_wrap_may_wrap_each_other():
    assert [key[0] for key in keys("${every,2,every,2,seq,5}", 8)] == list("55556666")


def test_the_seeds_pattern_of_long_random_keys_is_understood():
    pattern = "stuff-folders.stuff-${every,150,uuid}.foolish-key_${every,20,uuid}.${uuid}_0"
    found = keys(pattern, 300)
    assert {len(key) for key in found} == {4}
    assert len({key[1] for key in found}) == 2
    assert len({key[2] for key in found}) == 15
    assert len({key[3] for key in found}) == 300


def test_the_same_seed_gives_the_same_keys_and_another_seed_others():
    text = "${uuid}.${int,1000}.${string,5}.${prob,0.5,uuid}"
    assert keys(text, 20, seed=3) == keys(text, 20, seed=3)
    assert keys(text, 20, seed=3) != keys(text, 20, seed=4)


def test_distinct_keys_are_distinct_and_a_pattern_without_enough_of_them_is_refused():
    pattern = KeyPattern("${int,50}", Random(1))
    assert len(set(pattern.distinct_keys(50))) == 50
    with pytest.raises(Invalid, match="only 3 different keys"):
        KeyPattern("${int,3}", Random(1)).distinct_keys(4)


@pytest.mark.parametrize(
    "text",
    [
        "${}",
        "${nothing}",
        "${uuid,1}",
        "${int}",
        "${int,0}",
        "${int,-1}",
        "${int,x}",
        "${string,0}",
        "${string,501}",
        "${seq}",
        "${prob,2,uuid}",
        "${prob,x,uuid}",
        "${prob,0.5}",
        "${every,0,uuid}",
        "${every,3}",
        "${every,3,nothing}",
        "${uuid",
        "uuid}",
        "${uuid}" * 41,
        "${" + "every,2," * 41 + "uuid}",
    ],
)
def test_a_pattern_that_is_not_understood_is_refused(text):
    with pytest.raises(Invalid):
        KeyPattern(text, Random(1))


@pytest.mark.parametrize("text", ["a..b", "", ".", "a" * 501])
def test_a_pattern_that_leads_to_no_key_is_refused(text):
    with pytest.raises(InvalidKey):
        KeyPattern(text, Random(1)).next_key()
