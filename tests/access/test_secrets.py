"""Sealed secrets open only with their key, in their row; errors show nothing of them."""

from __future__ import annotations

import base64
import json
import pickle

import msgspec
import pytest

from lochan.access.secrets import KeyRing, Secret, new_key_text, parse_keys
from lochan.base.errors import Bug, Corrupt, Invalid, NewerFormat, TooLarge
from lochan.base.limits.credentials import SEALED_PLAIN_BYTES_MAX, SERVER_KEYS_MAX
from lochan.testing.ports import SeededRandom
from tests.access.issuer import kind_of

RANDOM = SeededRandom(17)
OLD, NEW = RANDOM.random_bytes(32), RANDOM.random_bytes(32)
CANARY = "canary-secret"


def test_what_was_sealed_opens_with_the_same_key_and_context():
    ring = KeyRing([OLD])
    sealed = ring.seal(CANARY.encode(), b"row 1", RANDOM)
    assert CANARY.encode() not in sealed
    assert ring.open(sealed, b"row 1") == CANARY.encode()


def test_two_sealings_of_one_secret_differ():
    ring = KeyRing([OLD])
    assert ring.seal(b"x", b"row", RANDOM) != ring.seal(b"x", b"row", RANDOM)


def test_a_secret_copied_into_another_row_does_not_open():
    ring = KeyRing([OLD])
    sealed = ring.seal(CANARY.encode(), b"row 1", RANDOM)
    with pytest.raises(Corrupt) as caught:
        ring.open(sealed, b"row 2")
    assert CANARY not in caught.value.message


def test_every_changed_byte_is_noticed():
    ring = KeyRing([OLD])
    sealed = ring.seal(CANARY.encode(), b"row", RANDOM)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises((Corrupt, Invalid, NewerFormat)):
            ring.open(bytes(changed), b"row")


@pytest.mark.parametrize("length", [0, 1, 8, 9, 20, 36])
def test_cut_bytes_are_damage(length):
    ring = KeyRing([OLD])
    sealed = ring.seal(b"", b"row", RANDOM)
    with pytest.raises(Corrupt):
        ring.open(sealed[:length], b"row")


def test_a_later_version_is_not_taken_for_damage():
    ring = KeyRing([OLD])
    sealed = ring.seal(b"x", b"row", RANDOM)
    with pytest.raises(NewerFormat):
        ring.open(b"\x02" + sealed[1:], b"row")


def test_a_rotation_opens_the_old_and_seals_with_the_new_key():
    before = KeyRing([OLD])
    during = KeyRing([NEW, OLD])
    after = KeyRing([NEW])
    sealed = before.seal(CANARY.encode(), b"row", RANDOM)
    assert before.is_current(sealed)
    assert not during.is_current(sealed)
    plain = during.open(sealed, b"row")
    again = during.seal(plain, b"row", RANDOM)
    assert during.is_current(again)
    assert after.open(again, b"row") == CANARY.encode()
    with pytest.raises(Invalid, match=before.key_ids[0]):
        after.open(sealed, b"row")


def test_a_missing_key_is_named_by_its_id_only():
    sealed = KeyRing([OLD]).seal(CANARY.encode(), b"row", RANDOM)
    with pytest.raises(Invalid) as caught:
        KeyRing([NEW]).open(sealed, b"row")
    for key in (OLD, NEW):
        assert key.hex() not in caught.value.message
        assert base64.b64encode(key).decode() not in caught.value.message


def test_derived_keys_differ_by_purpose_and_key_and_stay_the_same():
    ring = KeyRing([NEW, OLD])
    assert len({*ring.derive("login"), *ring.derive("page"), OLD, NEW}) == 6
    assert ring.derive("login") == KeyRing([NEW, OLD]).derive("login")
    assert ring.derive("login")[1:] == KeyRing([OLD]).derive("login")


@pytest.mark.parametrize("purpose", ["", "seal"])
def test_the_key_for_sealing_is_not_given_away(purpose):
    with pytest.raises(Bug):
        KeyRing([OLD]).derive(purpose)


def test_keys_are_of_exactly_32_bytes_and_a_few():
    for keys in ([], [b"short"], [OLD + b"x"], [OLD] * (SERVER_KEYS_MAX + 1)):
        with pytest.raises(Invalid):
            KeyRing(keys)
    assert len(KeyRing([OLD, OLD]).key_ids) == 1


def test_large_secrets_are_refused():
    with pytest.raises(TooLarge):
        KeyRing([OLD]).seal(bytes(SEALED_PLAIN_BYTES_MAX + 1), b"", RANDOM)


def test_a_key_ring_shows_no_key():
    ring = KeyRing([OLD])
    assert repr(ring) == str(ring) == "KeyRing(***)"
    assert not hasattr(ring, "__dict__")


def test_keys_are_read_from_lines_with_comments():
    first, second = new_key_text(RANDOM), new_key_text(RANDOM)
    text = f"# of 2026\n\n{first}  # new\n  {second}\n"
    assert parse_keys(text) == tuple(map(base64.b64decode, (first, second)))
    assert parse_keys(f"{first}, {second}") == parse_keys(f"{first}\n{second}")


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        base64.b64encode(CANARY.encode()).decode(),
        f"{base64.b64encode(OLD).decode()}\n{CANARY}",
        base64.b64encode(OLD + CANARY.encode()).decode(),
        base64.b64encode(OLD).decode().rstrip("="),
        base64.b64encode(OLD).decode() + "é",
        CANARY * 10_000,
    ],
    ids=kind_of,
)
def test_a_bad_key_is_named_by_its_line_and_never_shown(text):
    with pytest.raises(Invalid) as caught:
        parse_keys(text)
    for part in (CANARY, *text.split()):
        assert part not in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_no_key_at_all_is_refused_with_advice(text):
    with pytest.raises(Invalid, match="openssl rand"):
        parse_keys(text)


class Holder(msgspec.Struct):
    password: Secret


def test_a_secret_text_shows_its_mask():
    secret = Secret(CANARY)
    for shown in (
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>5}",
        format(secret, "5"),
        repr(Holder(secret)),
        repr([secret]),
    ):
        assert "***" in shown
        assert CANARY not in shown
    assert secret.reveal() == CANARY


def test_a_secret_text_is_not_encoded():
    secret = Secret(CANARY)
    for encode in (json.dumps, msgspec.json.encode, msgspec.msgpack.encode, pickle.dumps):
        with pytest.raises(TypeError) as caught:
            encode(secret)
        assert CANARY not in str(caught.value)
    with pytest.raises(TypeError):
        msgspec.json.encode(Holder(secret))


def test_secret_texts_compare_by_their_text():
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("***") != "***"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert not Secret("")
