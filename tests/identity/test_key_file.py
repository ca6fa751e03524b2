"""Signing keys from a file: read again when it changes, kept while it cannot be read."""

from __future__ import annotations

import os

import pytest

from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits.credentials import KEY_FILE_CHECK_MS, KEY_SET_BYTES_MAX, KEYS_AGE_MS_MAX
from lochan.identity.key_file import KeyFile
from lochan.identity.key_sources import open_keys
from lochan.testing.ports import ManualClock
from tests.access.issuer import edwards_key, jwk, jwks

OLD = jwks(jwk(edwards_key(0), "old"))
NEW = jwks(jwk(edwards_key(1), "new"))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "keys.json"
    file.write_bytes(OLD)
    return file


def replace(path, raw: bytes) -> None:
    """Replaces a file as operators do: at once."""
    beside = path.with_suffix(".new")
    beside.write_bytes(raw)
    os.replace(beside, path)


def test_a_changed_file_is_read_again(path):
    clock = ManualClock()
    keys = open_keys(str(path), clock)
    assert keys.find_key("old") is not None
    replace(path, NEW)
    assert keys.find_key("new") is None
    clock.advance_us(KEY_FILE_CHECK_MS * 1_000)
    assert keys.find_key("new") is not None
    assert keys.find_key("old") is None


def test_a_file_that_has_not_changed_is_not_read(path, monkeypatch):
    clock = ManualClock()
    keys = KeyFile(path, clock)
    monkeypatch.setattr("lochan.identity.key_file.parse_key_set", None)
    clock.advance_us(KEYS_AGE_MS_MAX * 1_000 + 1)
    assert keys.find_key("old") is not None


@pytest.mark.parametrize("raw", [b"", OLD[:-1], b"{}", None])
def test_a_broken_file_keeps_the_last_good_keys_for_a_bounded_time(path, raw):
    clock = ManualClock()
    keys = KeyFile(path, clock)
    path.unlink()
    if raw is not None:
        path.write_bytes(raw)
    clock.advance_us(KEYS_AGE_MS_MAX * 1_000)
    assert keys.find_key("old") is not None
    clock.advance_us(KEY_FILE_CHECK_MS * 1_000)
    with pytest.raises(Unavailable):
        keys.find_key("old")
    replace(path, NEW)
    clock.advance_us(KEY_FILE_CHECK_MS * 1_000)
    assert keys.find_key("new") is not None


def test_a_server_does_not_start_with_a_file_that_it_cannot_use(path, tmp_path):
    for unusable in (tmp_path / "missing", tmp_path):
        with pytest.raises(Invalid, match=str(unusable)):
            open_keys(str(unusable), ManualClock())
    for raw in (b"", b"{}", OLD + b" " * KEY_SET_BYTES_MAX):
        path.write_bytes(raw)
        with pytest.raises(Invalid, match="file of signing keys"):
            open_keys(str(path), ManualClock())


def test_a_named_pipe_is_not_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Invalid, match="no file"):
        KeyFile(pipe, ManualClock())
