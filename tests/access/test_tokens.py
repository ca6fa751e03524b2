"""Tokens and access keys have one form each, and a hash that binds the secret to its id."""

from __future__ import annotations

import pytest

from lochan.access.tokens import (
    digest_of,
    is_access_key,
    is_access_key_id,
    is_token_id,
    new_access_key,
    new_token,
    new_token_id,
    parse_token,
    token_of,
)
from lochan.testing.ports import SeededRandom

RANDOM = SeededRandom(3)


def test_a_new_token_is_read_as_it_was_made():
    token_id, text, digest = new_token(RANDOM)
    assert text.startswith(f"lochan_{token_id}_")
    parsed = parse_token(text)
    assert parsed is not None
    assert parsed[0] == token_id
    assert is_token_id(token_id)
    assert digest_of(*parsed) == digest


def test_new_tokens_differ():
    assert len({new_token(RANDOM)[1] for _ in range(100)}) == 100
    assert len({new_token_id(RANDOM) for _ in range(100)}) == 100


def test_the_hash_covers_id_and_secret():
    first, second = new_token(RANDOM), new_token(RANDOM)
    _, first_secret = parse_token(first[1]) or ("", "")
    assert digest_of(second[0], first_secret) != first[2]
    assert first[1].encode() not in first[2]


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text[:-1],
        lambda text: text + "a",
        lambda text: text.replace("lochan_", "lochan-"),
        lambda text: text.replace("_", "__"),
        lambda text: text[:-1] + "\uff41",
        lambda text: text[:-1] + "1",
        lambda text: "",
    ],
)
def test_a_token_has_one_form(change):
    assert parse_token(change(new_token(RANDOM)[1])) is None


def test_a_new_access_key_is_recognised():
    key_id, secret = new_access_key(RANDOM)
    assert is_access_key(key_id, secret)
    assert len(key_id) == 20
    for other in (key_id.lower(), key_id + "A", key_id[:-1], key_id + "\n", "../" + key_id):
        assert not is_access_key_id(other)
        assert not is_access_key(other, secret)
    for other in (secret.upper(), secret[:-1], secret + "a", secret + "\n"):
        assert not is_access_key(key_id, other)


def test_an_access_key_that_was_chosen_has_the_form_of_those_of_lakefs():
    key_id, secret = "AKIAIOSFOLQUICKSTART", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    assert is_access_key(key_id, secret)
    for other in (key_id.lower(), key_id[:15], key_id * 3, "LOCH" + key_id, key_id + "\n"):
        assert not is_access_key(other, secret)
    for other in (secret[:31], secret * 2, secret + " ", secret + "\n"):
        assert not is_access_key(key_id, other)


def test_the_token_of_an_access_key_depends_on_both_of_its_texts():
    tokens = {token_of(*pair) for pair in (("A", "b"), ("A", "c"), ("B", "b"))}
    assert len(tokens) == 3
    assert all(parse_token(text) for text in tokens)
