"""Writes of settings and of repositories that carry a key, sent again: one effect, one answer."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import AlreadyExists, KeyReused, Unknown
from lochan.kernel.repository import SETTINGS_KEY, Ports
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME, Bench

KEYED = Call("me", "key", b"one request")
OTHER = Call("me", "key", b"another request")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def settings(policy: str) -> dict[str, Any]:
    return {"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": policy}


@pytest.mark.parametrize("others", [0, 1, 40])
def test_settings_are_written_once_and_answered_alike(bench, others):
    keep = bench.repository.settings
    keep.update(ME, settings("P1D"))
    assert keep.update(KEYED, settings("P2D")) == settings("P1D")
    for number in range(others):
        keep.update(Call("me", f"other {number}", b"x"), settings(f"P{number + 3}D"))
    present = keep.get(ME, ["GARBAGE_COLLECTOR"])
    for one in (keep, bench.again().repository.settings):
        assert one.update(KEYED, settings("P2D")) == settings("P1D")
    assert keep.get(ME, ["GARBAGE_COLLECTOR"]) == present
    with pytest.raises(KeyReused):
        keep.update(OTHER, settings("P2D"))


def test_settings_that_were_never_set_before_are_answered_alike(bench):
    keep = bench.repository.settings
    assert keep.update(KEYED, settings("P2D")) is None
    assert keep.update(KEYED, settings("P2D")) is None
    keep.update(ME, settings("P3D"))
    assert keep.update(KEYED, settings("P2D")) is None
    assert keep.get(ME, ["GARBAGE_COLLECTOR"]) == [settings("P3D")]


def test_a_repository_is_made_once_and_answered_alike():
    clock = ManualClock()
    store = MemoryStore()

    def server(seed: int) -> Repositories:
        return Repositories(store, Ports(clock, SeededRandom(seed), RecordedWaiting(clock)))

    first = server(1).create(KEYED, "one", "trunk").info
    clock.advance_us(1_000)
    assert server(2).create(KEYED, "one", "trunk").info == first
    with pytest.raises(KeyReused):
        server(2).create(OTHER, "one", "trunk")
    with pytest.raises(KeyReused):
        server(2).create(OTHER, "two")
    with pytest.raises(AlreadyExists):
        server(2).create(Call("me", "other key", b"one request"), "one", "trunk")
    assert server(2).names(ME).items == ("one",)


def test_of_two_tries_to_make_a_repository_both_get_the_one_that_was_made(monkeypatch):
    clock = ManualClock()
    store = MemoryStore()

    def server(seed: int) -> Repositories:
        return Repositories(store, Ports(clock, SeededRandom(seed), RecordedWaiting(clock)))

    right = Repositories._find_created
    rival: list[Any] = []

    def find_made(self: Repositories, name: str, operation: bytes) -> Any:
        found = right(self, name, operation)
        if not rival:
            rival.append(None)
            rival[0] = server(2).create(KEYED, "one")
        return found

    monkeypatch.setattr(Repositories, "_find_created", find_made)
    made = server(1).create(KEYED, "one")
    assert made.context.instance == rival[0].context.instance


def test_a_try_whose_reply_is_lost_tells_what_another_try_has_replaced(bench, monkeypatch):
    keep = bench.repository.settings
    keep.update(ME, settings("P1D"))
    rival = bench.again().repository.settings
    right = MemoryStore.set_if
    answers: list[Any] = []

    def set_if(self: Any, place: Any, key: bytes, value: bytes, expected: Any) -> Any:
        if not answers and key == SETTINGS_KEY:
            answers.append(None)
            rival.update(ME, settings("P5D"))
            answers[0] = rival.update(KEYED, settings("P2D"))
            raise Unknown("lost")
        return right(self, place, key, value, expected)

    monkeypatch.setattr(MemoryStore, "set_if", set_if)
    assert keep.update(KEYED, settings("P2D")) == answers[0] == settings("P5D")
