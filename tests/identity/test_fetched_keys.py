"""Fetched keys: few fetches whatever callers send, and last good keys for a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import sleep

import pytest

from lochan.access.oidc import OidcSettings, OidcVerifier
from lochan.base.errors import Unauthenticated, Unavailable
from lochan.base.limits.credentials import (
    KEY_FETCH_INTERVAL_MS,
    KEY_FETCH_WAITERS_MAX,
    KEYS_AGE_MS_MAX,
    KEYS_REFRESH_MS,
)
from lochan.identity.fetched_keys import FetchedKeys
from lochan.identity.key_sources import open_keys
from lochan.testing.ports import ManualClock
from tests.access.issuer import AUDIENCE, ISSUER, claims, edwards_key, jwk, jwks, sign
from tests.identity.key_server import answer_of, key_server

OLD = jwks(jwk(edwards_key(0), "old"))
BOTH = jwks(jwk(edwards_key(0), "old"), jwk(edwards_key(1), "new"))
NEW = jwks(jwk(edwards_key(1), "new"))


class Issuer:
    """Publishes a set of keys, or is away."""

    def __init__(self, body: bytes | None = OLD) -> None:
        self.body = body
        self.fetches = 0
        self.clock = ManualClock()
        self.behind: list[Callable[[], None]] = []
        self.keys = FetchedKeys("https://issuer/keys", self.fetch, self.clock, self.behind.append)

    def fetch(self) -> bytes:
        self.fetches += 1
        if self.body is None:
            raise Unavailable("the issuer is away")
        return self.body

    def advance_ms(self, duration_ms: int) -> None:
        self.clock.advance_us(duration_ms * 1_000)


def test_keys_are_fetched_once_for_many_requests():
    issuer = Issuer()
    for _ in range(100):
        assert issuer.keys.find_key("old") is not None
    assert issuer.fetches == 1


def test_random_key_ids_cause_few_fetches():
    issuer = Issuer()
    for number in range(1_000):
        assert issuer.keys.find_key(f"random {number}") is None
        issuer.advance_ms(KEY_FETCH_INTERVAL_MS // 100)
    assert issuer.fetches == 10


def test_an_unknown_key_id_finds_a_new_key():
    issuer = Issuer()
    assert issuer.keys.find_key("new") is None
    issuer.body = NEW
    assert issuer.keys.find_key("new") is None
    issuer.advance_ms(KEY_FETCH_INTERVAL_MS)
    assert issuer.keys.find_key("new") is not None
    assert issuer.keys.find_key("old") is None
    assert issuer.fetches == 2


def test_known_keys_are_refreshed_behind_the_requests():
    issuer = Issuer()
    issuer.keys.refresh()
    issuer.body = BOTH
    issuer.advance_ms(KEYS_REFRESH_MS)
    issuer.keys.find_key("old")
    assert not issuer.behind
    issuer.advance_ms(1)
    assert issuer.keys.find_key("old") is not None
    assert issuer.fetches == 1
    [work] = issuer.behind
    work()
    assert issuer.fetches == 2
    assert issuer.keys.find_key("new") is not None


def test_a_key_that_the_issuer_withdrew_is_gone_after_the_refresh():
    issuer = Issuer(BOTH)
    issuer.keys.refresh()
    issuer.body = NEW
    issuer.advance_ms(KEYS_REFRESH_MS + 1)
    assert issuer.keys.find_key("old") is not None
    issuer.behind.pop()()
    assert issuer.keys.find_key("old") is None


@pytest.mark.parametrize("body", [None, b"<html>", b'{"keys":[{}]}', b""])
def test_a_failed_fetch_keeps_the_last_good_keys_for_a_bounded_time(body):
    issuer = Issuer()
    issuer.keys.refresh()
    issuer.body = body
    issuer.advance_ms(KEYS_AGE_MS_MAX)
    assert issuer.keys.find_key("old") is not None
    issuer.behind.pop()()
    assert issuer.keys.find_key("old") is not None
    issuer.advance_ms(1)
    with pytest.raises(Unavailable) as caught:
        issuer.keys.find_key("old")
    assert "https" not in caught.value.public_message
    issuer.body = OLD
    issuer.advance_ms(KEY_FETCH_INTERVAL_MS)
    assert issuer.keys.find_key("old") is not None


def test_without_any_keys_a_token_is_neither_accepted_nor_refused():
    issuer = Issuer(None)
    for _ in range(3):
        with pytest.raises(Unavailable):
            issuer.keys.find_key("old")
    assert issuer.fetches == 1
    issuer.advance_ms(KEY_FETCH_INTERVAL_MS)
    issuer.body = OLD
    assert issuer.keys.find_key("old") is not None


def test_an_issuer_may_withdraw_all_keys():
    issuer = Issuer()
    issuer.keys.refresh()
    issuer.body = jwks()
    issuer.advance_ms(KEY_FETCH_INTERVAL_MS)
    assert issuer.keys.find_key("other") is None
    assert issuer.keys.find_key("old") is None


def test_few_threads_wait_for_an_issuer_that_hangs():
    clock = ManualClock()
    answer, begun = threading.Event(), threading.Event()

    def fetch() -> bytes:
        begun.set()
        answer.wait()
        return OLD

    keys = FetchedKeys("https://issuer/keys", fetch, clock)
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(keys.find_key("old")))
        for _ in range(KEY_FETCH_WAITERS_MAX)
    ]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    while keys._waiters._value:
        sleep(0)
    # All places are taken: this thread is answered at once.
    with pytest.raises(Unavailable):
        keys.find_key("old")
    answer.set()
    for thread in threads:
        thread.join()
    assert len(found) == KEY_FETCH_WAITERS_MAX
    assert None not in found


def test_a_rotation_at_the_issuer_is_followed_by_requests():
    clock = ManualClock()
    settings = OidcSettings(issuer=ISSUER, audience=AUDIENCE, algorithms=("EdDSA",))
    old = sign(claims(), edwards_key(0), "EdDSA", "old")
    new = sign(claims(), edwards_key(1), "EdDSA", "new")
    with key_server() as server:
        server.answer = answer_of(OLD)
        checks = OidcVerifier(settings, open_keys(server.url, clock), clock)
        assert checks.verify(old).name == "oidc:alice"
        server.answer = answer_of(NEW)
        with pytest.raises(Unauthenticated):
            checks.verify(new)
        clock.advance_us(KEY_FETCH_INTERVAL_MS * 1_000)
        assert checks.verify(new).name == "oidc:alice"
        with pytest.raises(Unauthenticated):
            checks.verify(old)
        assert len(server.requests) == 2
