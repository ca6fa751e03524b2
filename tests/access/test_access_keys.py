"""Secrets of access keys: sealed for their row, compared, and opened after a rotation."""

from __future__ import annotations

import pytest

from lochan.access.access_keys import AccessKeySecrets
from lochan.access.records import CredentialRow
from lochan.access.secrets import KeyRing
from lochan.access.tokens import new_access_key
from lochan.base.errors import Corrupt, Unavailable
from lochan.testing.ports import SeededRandom

RANDOM = SeededRandom(9)
OLD, NEW = RANDOM.random_bytes(32), RANDOM.random_bytes(32)


def row_of(secrets: AccessKeySecrets, key_id: str, secret: str) -> CredentialRow:
    sealed = secrets.seal(key_id, secret, RANDOM)
    return CredentialRow(1, key_id, "alice", b"first", sealed=sealed)


def test_a_secret_matches_its_own_row_only():
    secrets = AccessKeySecrets(KeyRing([OLD]))
    (first_id, first), (second_id, second) = new_access_key(RANDOM), new_access_key(RANDOM)
    row = row_of(secrets, first_id, first)
    assert secrets.matches(row, first)
    for wrong in (second, "", first[:-1], first + "a", "\ud800", "\0" * 52):
        assert not secrets.matches(row, wrong)
        assert not secrets.matches(None, wrong)
    assert not secrets.matches(None, first)
    assert secrets.open(row) == first.encode()
    copied = CredentialRow(1, second_id, "bob", b"first", sealed=row.sealed)
    with pytest.raises(Corrupt):
        secrets.matches(copied, first)


def test_a_rotation_opens_old_rows_and_seals_them_again():
    key_id, secret = new_access_key(RANDOM)
    before = row_of(AccessKeySecrets(KeyRing([OLD])), key_id, secret)
    during = AccessKeySecrets(KeyRing([NEW, OLD]))
    assert during.matches(before, secret)
    after = row_of(during, key_id, during.open(before).decode())
    assert AccessKeySecrets(KeyRing([NEW])).matches(after, secret)


def test_a_server_without_the_key_cannot_decide():
    key_id, secret = new_access_key(RANDOM)
    row = row_of(AccessKeySecrets(KeyRing([OLD])), key_id, secret)
    with pytest.raises(Unavailable) as caught:
        AccessKeySecrets(KeyRing([NEW])).matches(row, secret)
    assert KeyRing([OLD]).key_ids[0] in caught.value.message
    assert secret not in caught.value.message
    assert key_id not in caught.value.public_message
